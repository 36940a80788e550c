"""The socket: uvicorn, with our answers for what is no valid request, and a stop within seconds."""

from __future__ import annotations

import asyncio
import base64
import binascii
import gc
import signal
import socket
from collections.abc import Awaitable, Callable
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from windlass.api.app import failure_response
from windlass.api.limits import stranger_at
from windlass.installation import Installation

STOP_SECONDS = 3
PING_SECONDS, PONG_SECONDS = 20.0, 60.0
"""How often a websocket is asked whether somebody is there, and how long the answer may take."""
MOST_IN_A_FRAME = 4096
"""Bytes that a client may say in a websocket, where nobody listens to it."""
# Answers with a body whose length is announced.
_USUAL = {200: b"HTTP/1.1 200 OK", 201: b"HTTP/1.1 201 Created"}


class Corked:
    """A transport that sends what one turn of the loop wrote with one system call: head and body travel
    together, and the reader is woken once."""

    __slots__ = ("_call_soon", "_parts", "_transport")

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._call_soon = loop.call_soon
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        if not self._parts:
            self._call_soon(self._flush)
        self._parts.append(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        parts, self._parts = self._parts, []
        if parts and not self._transport.is_closing():
            self._transport.write(parts[0] if len(parts) == 1 else b"".join(parts))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Whole:
    """The application, for one request: what it answers in one piece is put together here, in one step.

    uvicorn looks at each header by itself, which takes longer than the rest of sending it. What is not the
    usual answer, to a client that stays, is left to uvicorn."""

    __slots__ = ("_app", "_cycle", "_start")

    def __init__(self, app: Any, cycle: RequestResponseCycle) -> None:
        self._app = app
        self._cycle = cycle
        self._start: Any = None

    def __call__(self, scope: Any, receive: Any, send: Any) -> Awaitable[None]:
        return cast(Awaitable[None], self._app(scope, receive, self._send))

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            return
        start, self._start = self._start, None
        if start is not None:
            if answer := self._put_together(start, message):
                await self._answer(answer)
                return
            await self._cycle.send(start)
        await self._cycle.send(message)

    def _put_together(self, start: Any, message: Any) -> bytes | None:
        """The usual answer, or none: it is whole, says how long it is, and closes nothing."""
        cycle, line = self._cycle, _USUAL.get(start["status"])
        if not line or message.get("more_body") or not cycle.keep_alive or cycle.scope["method"] == "HEAD":
            return None
        body: bytes = message["body"]
        headers = [*cycle.default_headers, *start["headers"]]
        head = b"\r\n".join((line, *map(b": ".join, headers), b"\r\n"))
        if head.count(b"\n") != len(headers) + 2:
            raise ValueError("a header with a line break in it would be two")
        if b"\r\ncontent-length: %d\r\n" % len(body) not in head or b"\r\nconnection:" in head:
            return None
        return head + body

    async def _answer(self, answer: bytes) -> None:
        """As uvicorn's own, which keeps in these fields how far an answer is."""
        cycle = self._cycle
        if cycle.flow.write_paused and not cycle.disconnected:
            await cycle.flow.drain()
        if cycle.disconnected:
            return
        cycle.response_started = cycle.response_complete = True
        cycle.transport.write(answer)
        cycle.message_event.set()
        cycle.on_response()


class Protocol(HttpToolsProtocol):
    """What is not HTTP gets JSON and the rate-limit headers too."""

    installation: Installation

    def connection_made(self, transport: Any) -> None:
        super().connection_made(Corked(transport, self.loop))  # type: ignore[arg-type]

    def _should_upgrade(self) -> bool:
        """What is no proper opening of a websocket is an ordinary request, and answered like one."""
        return super()._should_upgrade() and opens_websocket(self.scope["method"], self.headers)

    def _unsupported_upgrade_warning(self) -> None:
        """Whoever asks for another protocol goes on with this one, as HTTP has it."""

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        super()._start_asgi_task(cycle, Whole(app, cycle))

    def send_400_response(self, msg: str) -> None:
        address = stranger_at(str(self.client[0] if self.client else "unknown"))
        window, _ = self.installation.budgets.stranger(address, spend=False)
        headers = [
            (b"x-ratelimit-limit", window.limit_text),
            (b"x-ratelimit-remaining", b"%d" % window.remaining),
            (b"x-ratelimit-reset", window.reset_text),
        ]
        self.transport.write(failure_response(400, "This is not a valid HTTP request", headers))
        self.transport.close()


def opens_websocket(method: str, headers: list[tuple[bytes, bytes]]) -> bool:
    """As RFC 6455 has it, in its section 4.2.1."""
    given = {name: value.strip() for name, value in headers}
    return (
        method == "GET"
        and given.get(b"sec-websocket-version") == b"13"
        and b"host" in given
        and _is_key(given.get(b"sec-websocket-key", b""))
    )


def _is_key(key: bytes) -> bool:
    try:
        return len(base64.b64decode(key, validate=True)) == 16
    except binascii.Error:
        return False


def websocket(**parts: Any) -> asyncio.Protocol:
    from windlass.websocket import WebSocket  # noqa: PLC0415 (with the first one; few ever see one)

    return WebSocket(**parts)


async def serve(
    installation: Installation, listening: socket.socket, announce: Callable[[int], None]
) -> None:
    """Serves until a signal asks to stop; running requests get a moment to finish."""
    settings = installation.ctx.settings
    config = uvicorn.Config(
        installation.app,
        **protocols(installation),
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies),
        timeout_graceful_shutdown=STOP_SECONDS,
        timeout_keep_alive=65,
        backlog=2048,
    )
    server = Server(config, lambda: announce(listening.getsockname()[1]), installation.app.stop_streams)
    loop = asyncio.get_running_loop()
    try:
        await installation.start()
        look_less_for_garbage()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, _stop, installation, server)
        await server.serve(sockets=[listening])
    finally:
        await installation.stop()


def protocols(installation: Installation) -> dict[str, Any]:
    """What is spoken on a connection."""
    return {
        "http": type("BoundProtocol", (Protocol,), {"installation": installation}),
        "ws": websocket,
        "ws_max_size": MOST_IN_A_FRAME,
        "ws_per_message_deflate": False,  # one more state for each connection, and lines are short
        "ws_ping_interval": PING_SECONDS,
        "ws_ping_timeout": PONG_SECONDS,
    }


def _stop(installation: Installation, server: uvicorn.Server) -> None:
    """First not ready, then no new requests; a second signal does not wait."""
    if installation.stopping:
        server.force_exit = True
    installation.stopping = True
    server.should_exit = True


class Server(uvicorn.Server):
    """uvicorn without its own signal handling; says when it is listening."""

    def __init__(
        self, config: uvicorn.Config, started: Callable[[], None], stopping: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(config)
        self._announce = started
        self._stopping = stopping

    def capture_signals(self) -> Any:
        return _Nothing()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """uvicorn waits for requests to end; what has no end of its own is told to."""
        self._stopping()
        await super().shutdown(sockets)


def look_less_for_garbage() -> None:
    """All that is there at the start stays to the end. And what a few dozen requests under way hold is no
    garbage: Python's own thresholds, made for small programs, look at it several times for each of them."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


class _Nothing:
    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def listen(host: str, port: int) -> socket.socket:
    """Bound before anything else is begun, so that a port in use is said at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError:
        listening.close()
        raise
    listening.setblocking(False)
    return listening
