"""The socket: uvicorn, with our answers for what is no valid request, and a stop within seconds."""

from __future__ import annotations

import asyncio
import base64
import binascii
import signal
import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from windlass.api.app import failure_response
from windlass.api.limits import stranger_at
from windlass.installation import Installation

STOP_SECONDS = 3
PING_SECONDS, PONG_SECONDS = 20.0, 60.0
"""How often a websocket is asked whether somebody is there, and how long the answer may take."""
MOST_IN_A_FRAME = 4096
"""Bytes that a client may say in a websocket, where nobody listens to it."""


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
            self._transport.writelines(parts)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


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
    await installation.start()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _stop, installation, server)
    try:
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
    listening.bind((host, port))
    listening.setblocking(False)
    return listening
