"""A call to the API, its reply, and the registry of the handlers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from windlass.base.trace import FindTrace
from windlass.control.context.context import Context
from windlass.core.access import Actor
from windlass.core.declare.registry import Operation
from windlass.core.declare.resource import Family, Spec
from windlass.core.words.audit import OURS
from windlass.store import Tx

T = TypeVar("T", bound=Spec)


class Dialect(Struct, frozen=True):
    """The vocabulary of states and events in the responses to a client."""

    name: str
    state: Callable[[str], str]
    event: Callable[[str], str]
    exact: Callable[[str], str] = str
    """Returns the exact state; differs from `state` if the dialect combines several states."""

    @property
    def is_full(self) -> bool:
        """Returns whether the client uses the full interface. Its clients get whole lists if they request no
        page, built-in variables, and the service id from a deploy. Unknown fields of their request bodies are
        ignored."""
        return self.name == "full"


class Origin(Struct, frozen=True):
    """The origin of a request, which is stored with a deletion. An origin without address and request id is
    Windlass itself."""

    origin: str = OURS
    address: str = ""
    user_agent: str = ""
    request_id: str = ""


ITSELF: Final = Origin()
FROM_API: Final = Origin("API")


class Call(Struct, frozen=True, kw_only=True):
    """A request that was routed, authorized and parsed."""

    operation: Operation
    actor: Actor
    ids: tuple[str, ...]
    dialect: Dialect
    body: Spec | None = None
    query: Spec | None = None
    paging_asked: bool = False
    if_match: str | None = None
    origin: Origin = FROM_API
    last_event: str | None = None
    """The id of the last event that a streaming client has received."""
    find_trace: FindTrace | None = None
    group: str = ""
    """The id of the first deployment that the request has started; empty before there is one."""
    prepared: dict[str, object] = msgspec.field(default_factory=dict)
    """Fields of the document that the preparation computed, such as whether a registry is reachable."""

    @property
    def trace(self) -> str:
        """The trace id of the request in its stored form; empty if the request has none."""
        return self.find_trace().stored if self.find_trace else ""

    @property
    def id(self) -> str:
        """The id of the resource on which the call operates."""
        return self.operation.subject(self.ids)

    @property
    def family(self) -> Family:
        return self.operation.own_family

    def sent(self, struct: type[T]) -> T:
        """Returns the body as the struct that the operation declares."""
        assert isinstance(self.body, struct)
        return self.body

    def asked(self, struct: type[T]) -> T:
        """Returns the query as the struct that the operation declares."""
        assert isinstance(self.query, struct)
        return self.query


class Reply(Struct, frozen=True):
    """The result of a handler: JSON, a stream, or nothing."""

    body: bytes = b""
    tag: str | None = None
    status: int | None = None
    """The status code, if it differs from the operation's default."""
    stream: AsyncGenerator[bytes, None] | None = None
    """Server-sent events instead of a body, until the client disconnects."""
    org: str = ""
    """The organization of the stream."""
    headers: Mapping[str, str] | None = None
    """Additional response headers, for operations with a raw body or a file as response."""


Reading = Callable[[Context, Call], Awaitable[Reply]]
Writing = Callable[[Context, Tx, Call], Awaitable[Reply]]

Preparing = Callable[[Context, Call], Awaitable[None]]

READING: dict[str, Reading] = {}
WRITING: dict[str, Writing] = {}
PREPARING: dict[str, Preparing] = {}


def reads(*names: str) -> Callable[[Reading], Reading]:
    """Registers a handler for operations that only read."""

    def register(handler: Reading) -> Reading:
        READING.update(dict.fromkeys(names, handler))
        return handler

    return register


def writes(*names: str) -> Callable[[Writing], Writing]:
    """Registers a handler that runs inside the operation's transaction. A transaction may be repeated from
    the start."""

    def register(handler: Writing) -> Writing:
        WRITING.update(dict.fromkeys(names, handler))
        return handler

    return register


def prepares(*names: str) -> Callable[[Preparing], Preparing]:
    """Registers a function that completes an operation's body before its transaction, such as by requests to
    other servers."""

    def register(preparation: Preparing) -> Preparing:
        PREPARING.update(dict.fromkeys(names, preparation))
        return preparation

    return register


def handler_of(operation: Operation) -> Reading | Writing:
    """Returns the handler of an operation, such as `application.deploy`, or else the common handler of all
    families, such as `*.deploy`."""
    table: Mapping[str, Reading] | Mapping[str, Writing] = WRITING if operation.writes else READING
    shared = f"*.{operation.handler.partition('.')[2]}"
    handler = table.get(operation.handler) or table.get(shared)
    if handler is None:
        raise LookupError(f"{operation.id} is declared, but nothing handles {operation.handler}")
    return handler


_encoder = msgspec.json.Encoder()
encode = _encoder.encode


def results(bodies: list[bytes], page: int | None = None, page_size: int = 0, total: int = 0) -> bytes:
    """Returns the JSON list of documents that are encoded already."""
    joined = b",".join(bodies)
    if page is None:
        return b'{"results":[%b]}' % joined
    return b'{"results":[%b],"pagination":{"page":%d,"page_size":%d,"total_count":%d,"total_pages":%d}}' % (
        joined,
        page,
        page_size,
        total,
        -(-total // page_size),
    )
