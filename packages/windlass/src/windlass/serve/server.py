"""The socket of the API: uvicorn with connections of our own, and a stop within seconds."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import uvicorn

from windlass.api.answers import Header, rate_limit_headers
from windlass.api.limits import subject_of_address
from windlass.base.http_in.bounds import Bounds
from windlass.base.http_in.connection_limits import allow_connections
from windlass.base.http_in.connections import trust_check
from windlass.base.sighup import handle_hang_ups
from windlass.install.installation import Installation
from windlass.serve.connection import Connection
from windlass.serve.port_state import PortState

STOP_SECONDS = 3
BACKLOG = 2048
PING_SECONDS, PONG_SECONDS = 20.0, 60.0
"""Seconds between two pings of a websocket, and until its client must have answered one."""
MOST_IN_A_FRAME = 4096
"""Bytes of a frame from the client. The server ignores all of them."""


def websocket(**parts: Any) -> asyncio.Protocol:
    from windlass.serve.websocket import WebSocket  # noqa: PLC0415 (with the first one; few ever see one)

    return WebSocket(**parts)


async def serve(
    installation: Installation,
    listening: socket.socket,
    announce: Callable[[int], None],
    stopping: Callable[[], None] = lambda: None,
) -> None:
    """Serves an installation that was started, until a signal asks to stop; running requests get a moment to
    finish."""
    settings = installation.ctx.settings
    bounds = Bounds(connections=allow_connections(Bounds().connections))
    config = uvicorn.Config(
        installation.app,
        **protocols(installation, bounds),
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=STOP_SECONDS,
        backlog=BACKLOG,
    )
    server = ApiServer(config, lambda: announce(listening.getsockname()[1]), installation.app.stop_streams)
    loop = asyncio.get_running_loop()
    stop = partial(_stop, installation, server, settings.leave_seconds, stopping)
    handle_hang_ups(stop)
    try:
        tune_interpreter()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop)
        await server.serve(sockets=[listening])
    finally:
        await installation.stop()


def protocols(installation: Installation, bounds: Bounds | None = None) -> dict[str, Any]:
    """Returns the protocol settings of uvicorn."""
    proxies = installation.ctx.settings.trusted_proxies
    trusts = trust_check(proxies)
    installation.app.stream_quota.most = (bounds or Bounds()).streams
    port = PortState(bounds, trusts, partial(_rate_limit_headers, installation))
    return {
        "http": partial(Connection, port=port),
        "proxy_headers": bool(proxies),
        "forwarded_allow_ips": list(proxies),
        "ws": websocket,
        "ws_max_size": MOST_IN_A_FRAME,
        "ws_per_message_deflate": False,  # one more state for each connection, and lines are short
        "ws_ping_interval": PING_SECONDS,
        "ws_ping_timeout": PONG_SECONDS,
    }


def _rate_limit_headers(installation: Installation, address: str) -> list[Header]:
    """Returns the headers of a refusal before a request was read. It does not count against the limit."""
    window, _ = installation.budgets.window_of_address(subject_of_address(address), spend=False)
    return rate_limit_headers(window)


def _stop(
    installation: Installation,
    server: uvicorn.Server,
    leave_seconds: float,
    stopping: Callable[[], None],
) -> None:
    """Handles a signal: the server is no longer ready, and after a while takes no new requests. A second one
    does not wait."""
    if installation.stopping:
        server.should_exit = server.force_exit = True
    else:
        installation.stopping = True
        stopping()
        asyncio.get_running_loop().call_later(leave_seconds, _exit, server)


def _exit(server: uvicorn.Server) -> None:
    server.should_exit = True


class ApiServer(uvicorn.Server):
    """uvicorn without its own signal handling. Announces when it listens."""

    def __init__(
        self, config: uvicorn.Config, started: Callable[[], None], stopping: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(config)
        self._announce = started
        self._stopping = stopping

    def capture_signals(self) -> Any:
        return _NoSignals()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends the streams, which have no end of their own, and lets uvicorn wait for the other requests."""
        self._stopping()
        await super().shutdown(sockets)


def tune_interpreter() -> None:
    """Lets the garbage collector run less often, and threads wait less for each other.

    Objects of the start stay to the end, and those of a few dozen requests in progress are no garbage:
    with Python's own thresholds, made for small programs, it would look at them several times for each
    request. Beside a thread that computes, such as one that unpacks a build, Python lets the event loop
    wait for 5 ms each time it wakes up, which is longer than most requests take."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()  # a start goes without
    sys.setswitchinterval(0.0005)


class _NoSignals:
    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def listen(host: str, port: int) -> socket.socket:
    """Binds the socket before anything else is begun, so that a port in use is reported at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        # A socket that is only bound leaves its port to the first socket that listens, and routers start
        # earlier.
        listening.listen(BACKLOG)
    except OSError:
        listening.close()
        raise
    listening.setblocking(False)
    return listening
