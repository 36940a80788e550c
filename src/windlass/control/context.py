"""What every deed needs, passed in: so that a test can be a world of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from windlass.base.clock import Clock
from windlass.base.seal import Seal
from windlass.config import Settings
from windlass.control.logs import Logs
from windlass.core.access import Actor
from windlass.core.registry import Operation, Registry
from windlass.engines.engine import Engine
from windlass.store.store import Store, Tx


class Dialect(Struct, frozen=True):
    """In which words a reader hears states and events, and what it expects of lists."""

    name: str
    state: Callable[[str], str]
    event: Callable[[str], str]
    everything: bool
    """Whether a list without paging parameters is complete."""
    deployment_first: bool
    """Whether a deploy answers the id of the deployment, or that of the service."""


class Context(Struct, frozen=True):
    settings: Settings
    registry: Registry
    store: Store
    clock: Clock
    seal: Seal
    engine: Engine
    logs: Logs


class Call(Struct, frozen=True, kw_only=True):
    """A request that was routed, let in and parsed as far as its operation says."""

    operation: Operation
    actor: Actor
    ids: tuple[str, ...]
    dialect: Dialect
    body: Any = None
    query: Any = None
    paging_asked: bool = False
    if_match: str | None = None
    origin: str = "API"
    request_id: str = ""

    @property
    def id(self) -> str:
        return self.ids[-1]


class Reply(Struct, frozen=True):
    """What is answered: JSON, or nothing."""

    body: bytes = b""
    tag: str | None = None
    status: int | None = None
    """Only where it is not the operation's usual one."""


Reading = Callable[[Context, Call], Awaitable[Reply]]
Writing = Callable[[Context, Tx, Call], Awaitable[Reply]]

READING: dict[str, Reading] = {}
WRITING: dict[str, Writing] = {}


def reads(*names: str) -> Callable[[Reading], Reading]:
    """Handles an operation that changes nothing."""

    def register(handler: Reading) -> Reading:
        READING.update(dict.fromkeys(names, handler))
        return handler

    return register


def writes(*names: str) -> Callable[[Writing], Writing]:
    """Handles an operation inside a transaction of its own; it may be run again from the start."""

    def register(handler: Writing) -> Writing:
        WRITING.update(dict.fromkeys(names, handler))
        return handler

    return register


def handler_of(operation: Operation) -> Reading | Writing:
    """`application.deploy`, or what all families share: `*.deploy`."""
    table: Mapping[str, Any] = WRITING if operation.writes else READING
    shared = f"*.{operation.handler.partition('.')[2]}"
    found: Reading | Writing | None = table.get(operation.handler) or table.get(shared)
    if found is None:
        raise LookupError(f"{operation.id} is declared, but nothing handles {operation.handler}")
    return found


_encoder = msgspec.json.Encoder()
encode = _encoder.encode


def results(bodies: list[bytes], page: int | None = None, page_size: int = 0, total: int = 0) -> bytes:
    """A list of documents that are JSON already."""
    joined = b'{"results":[' + b",".join(bodies) + b"]"
    if page is None:
        return joined + b"}"
    pages = -(-total // page_size)
    return joined + (
        b',"pagination":{"page":%d,"page_size":%d,"total_count":%d,"total_pages":%d}}'
        % (page, page_size, total, pages)
    )
