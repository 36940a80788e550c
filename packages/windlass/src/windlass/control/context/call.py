"""A call to the API, the reply to it, and the registration of the handlers between them."""

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
    """The vocabulary of a client for states and events."""

    name: str
    state: Callable[[str], str]
    event: Callable[[str], str]
    exact: Callable[[str], str] = str
    """The exact state, where `state` is coarser."""

    @property
    def is_full(self) -> bool:
        """Returns True for the full interface. Its clients also get whole lists where they ask for no
        page, built-in variables, and the id of the service from a deploy; unknown fields of a body are
        ignored."""
        return self.name == "full"


class Origin(Struct, frozen=True):
    """The origin of a request, stored with a deletion. Without address and request id: Windlass itself."""

    origin: str = OURS
    address: str = ""
    user_agent: str = ""
    request_id: str = ""


ITSELF: Final = Origin()
FROM_API: Final = Origin("API")


class Call(Struct, frozen=True, kw_only=True):
    """A request that was routed, let in and parsed by its operation."""

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
    """The id of the last event that a client of a stream has received."""
    find_trace: FindTrace | None = None
    prepared: dict[str, object] = msgspec.field(default_factory=dict)
    """Fields of the document from the preparation of the call, such as whether a registry answers."""

    @property
    def trace(self) -> str:
        """The trace of the request, as it is stored; empty if it has none."""
        return self.find_trace().stored if self.find_trace else ""

    @property
    def id(self) -> str:
        """The id of the resource that the call is about."""
        return self.operation.subject(self.ids)

    @property
    def family(self) -> Family:
        return self.operation.own_family

    def sent(self, struct: type[T]) -> T:
        """The body, as the struct that the operation declares."""
        assert isinstance(self.body, struct)
        return self.body

    def asked(self, struct: type[T]) -> T:
        """The query, as the struct that the operation declares."""
        assert isinstance(self.query, struct)
        return self.query


class Reply(Struct, frozen=True):
    """The result of a handler: JSON, a stream, or nothing."""

    body: bytes = b""
    tag: str | None = None
    status: int | None = None
    """The status code, if it is not the operation's usual one."""
    stream: AsyncGenerator[bytes, None] | None = None
    """Server-sent events instead of a body, for as long as the client listens."""
    org: str = ""
    """The organization whose stream it is."""
    headers: Mapping[str, str] | None = None
    """Further headers of the answer, of operations that are raw."""


Reading = Callable[[Context, Call], Awaitable[Reply]]
Writing = Callable[[Context, Tx, Call], Awaitable[Reply]]

Preparing = Callable[[Context, Call], Awaitable[None]]

READING: dict[str, Reading] = {}
WRITING: dict[str, Writing] = {}
PREPARING: dict[str, Preparing] = {}


def reads(*names: str) -> Callable[[Reading], Reading]:
    """Handles an operation that changes nothing."""

    def register(handler: Reading) -> Reading:
        READING.update(dict.fromkeys(names, handler))
        return handler

    return register


def writes(*names: str) -> Callable[[Writing], Writing]:
    """Handles an operation inside its own transaction; it may be run again from the start."""

    def register(handler: Writing) -> Writing:
        WRITING.update(dict.fromkeys(names, handler))
        return handler

    return register


def prepares(*names: str) -> Callable[[Preparing], Preparing]:
    """Completes the body of an operation before its transaction. Waiting for other systems happens here."""

    def register(preparation: Preparing) -> Preparing:
        PREPARING.update(dict.fromkeys(names, preparation))
        return preparation

    return register


def handler_of(operation: Operation) -> Reading | Writing:
    """Returns the name of the handler: `application.deploy`, or the shared one, `*.deploy`."""
    table: Mapping[str, Reading] | Mapping[str, Writing] = WRITING if operation.writes else READING
    shared = f"*.{operation.handler.partition('.')[2]}"
    handler = table.get(operation.handler) or table.get(shared)
    if handler is None:
        raise LookupError(f"{operation.id} is declared, but nothing handles {operation.handler}")
    return handler


_encoder = msgspec.json.Encoder()
encode = _encoder.encode


def results(bodies: list[bytes], page: int | None = None, page_size: int = 0, total: int = 0) -> bytes:
    """A list of documents that are JSON already."""
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
