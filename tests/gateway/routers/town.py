"""Both sides of a router: tiny applications, and clients that say exactly the bytes that they are told to."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from windlass.routers.builtin import Bounds, BuiltinRouter
from windlass.routers.router import Endpoint, Route

SHOP = "shop.localhost"
_GONE = (ConnectionError, asyncio.IncompleteReadError, RuntimeError)


class Heard(NamedTuple):
    """A request, as an application got it."""

    method: str
    target: str
    fields: dict[str, str]
    body: bytes
    out: asyncio.StreamWriter
    reader: asyncio.StreamReader


class Said(NamedTuple):
    """An answer, as a client got it."""

    status: int
    fields: dict[str, str]
    body: bytes


Answer = Callable[[Heard], Awaitable[None]]


class Instance:
    """An application that answers with its name, or however it is told to."""

    def __init__(self, name: str = "one", answer: Answer | None = None, *, reads_bodies: bool = True) -> None:
        self.name = name
        self.answer = answer or self.say_name
        self.heard: list[Heard] = []
        self.raw: list[bytearray] = []
        """All bytes of each connection."""
        self._reads_bodies = reads_bodies
        self._open: dict[asyncio.StreamWriter, asyncio.Task[None] | None] = {}

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint("127.0.0.1", self.port)

    @property
    def open(self) -> int:
        return len(self._open)

    async def start(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        self.port = int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """As a process that is killed: whatever is under way breaks off."""
        self._server.close()
        tasks = list(self._open.values())
        for out in list(self._open):
            out.transport.abort()
        for task in tasks:
            if task is not None:
                task.cancel()
        await asyncio.gather(*(task for task in tasks if task), return_exceptions=True)

    async def say_name(self, heard: Heard) -> None:
        heard.out.write(reply(self.name.encode()))

    async def _serve(self, reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        self._open[out] = asyncio.current_task()
        raw = bytearray()
        self.raw.append(raw)
        try:
            while True:
                heard = await self._read(reader, raw, out)
                self.heard.append(heard)
                await self.answer(heard)
                await out.drain()
        except _GONE:
            pass
        finally:
            del self._open[out]
            out.transport.abort()

    async def _read(self, reader: asyncio.StreamReader, raw: bytearray, out: asyncio.StreamWriter) -> Heard:
        head = await reader.readuntil(b"\r\n\r\n")
        raw += head
        first, fields = parsed(head)
        method, target, _ = first.split(" ")
        body = await read_body(reader, fields, raw) if self._reads_bodies else b""
        return Heard(method, target, fields, body, out, reader)


def parsed(head: bytes) -> tuple[str, dict[str, str]]:
    first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    return first, {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


async def read_body(reader: asyncio.StreamReader, fields: dict[str, str], raw: bytearray) -> bytes:
    if "transfer-encoding" not in fields:
        body = await reader.readexactly(int(fields.get("content-length", 0)))
        raw += body
        return body
    body = b""
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.split(b";")[0], 16)
        piece = await reader.readexactly(size) if size else b""
        raw += line + piece
        body += piece
        line = await reader.readuntil(b"\r\n")
        raw += line
        while not size and line != b"\r\n":
            line = await reader.readuntil(b"\r\n")
            raw += line
        if not size:
            return body


def reply(body: bytes, status: str = "200 OK", *fields: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *fields, "", ""]
    return "\r\n".join(lines).encode() + body


def request(
    target: str = "/", method: str = "GET", host: str = SHOP, *fields: str, body: bytes = b""
) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", *fields]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


class Caller:
    """A client with one connection."""

    def __init__(self, reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.out = out

    async def send(self, data: bytes) -> None:
        self.out.write(data)
        await self.out.drain()

    async def ask(self, data: bytes, *, head_only: bool = False) -> Said:
        await self.send(data)
        return await self.said(head_only=head_only)

    async def said(self, *, head_only: bool = False) -> Said:
        """The next answer."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        first, fields = parsed(head)
        status = int(first.split(" ")[1])
        if head_only or status < 200 or status in {204, 304}:
            return Said(status, fields, b"")
        if "content-length" in fields or "transfer-encoding" in fields:
            return Said(status, fields, await read_body(self.reader, fields, bytearray()))
        return Said(status, fields, await self.reader.read())

    async def rest(self) -> bytes:
        """All that comes until the other side hangs up, also where it resets the connection then."""
        pieces = []
        with contextlib.suppress(ConnectionError):
            while piece := await self.reader.read(1 << 16):
                pieces.append(piece)
        return b"".join(pieces)

    async def close(self) -> None:
        self.out.transport.abort()
        with contextlib.suppress(OSError):
            await self.out.wait_closed()


@contextlib.asynccontextmanager
async def calling(port: int) -> AsyncIterator[Caller]:
    caller = Caller(*await asyncio.open_connection("127.0.0.1", port))
    try:
        yield caller
    finally:
        await caller.close()


def route(
    endpoints: Sequence[Endpoint] = (), service: str = "shop", hosts: Sequence[str] = (SHOP,), **fields: Any
) -> Route:
    given: dict[str, Any] = {"port": "p1", "title": service.title(), "kind": "http"} | fields
    return Route(service=service, hosts=tuple(hosts), endpoints=tuple(endpoints), **given)


class Town:
    """A router with whatever a test puts around it."""

    def __init__(self, router: BuiltinRouter, stack: contextlib.AsyncExitStack) -> None:
        self.router = router
        self._stack = stack

    async def instance(self, name: str = "one", answer: Answer | None = None, **options: Any) -> Instance:
        made = Instance(name, answer, **options)
        await made.start()
        self._stack.push_async_callback(made.stop)
        return made

    async def shop(self, *instances: Instance, **fields: Any) -> None:
        """These are the instances of the shop, from now on."""
        await self.router.set("shop", [route([each.endpoint for each in instances], **fields)])

    async def caller(self, port: int | None = None) -> Caller:
        return await self._stack.enter_async_context(calling(self.router.port if port is None else port))

    async def ask(self, data: bytes) -> Said:
        """On a connection of its own."""
        async with calling(self.router.port) as caller:
            return await caller.ask(data)

    def active(self, service: str = "shop") -> int:
        return self.router.traffic()[service].active


@contextlib.asynccontextmanager
async def make_town(
    limits: Bounds | None = None,
    *,
    trusts: Callable[[str], bool] = lambda network: False,
    https_port: int = 0,
    **bounds: Any,
) -> AsyncIterator[Town]:
    router = BuiltinRouter(
        "127.0.0.1", 0, bounds=limits or Bounds(**bounds), trusts=trusts, https_port=https_port
    )
    await router.start()
    try:
        async with contextlib.AsyncExitStack() as stack:
            yield Town(router, stack)
    finally:
        await router.stop()


def notice_leaving_clients(town: Town) -> None:
    """Clients that have closed their sending side are given up within a second, and not after five."""
    shared = town.router._shared
    shared.bounds = replace(shared.bounds, leaving_seconds=0.2)


async def until(true: Callable[[], object]) -> None:
    """Waits for something that must become true; the test's own limit of time ends it otherwise."""
    while not true():  # noqa: ASYNC110 (what is waited for is no event of ours)
        await asyncio.sleep(0.002)
