"""The server of the API: uvicorn with the connections of `serve.connection`, and a stop within seconds."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import uvicorn

from windlass.api.answers import Header, rate_limit_headers
from windlass.api.limits import subject_of_address
from windlass.base.http_in.bounds import Bounds
from windlass.base.http_in.connection_limits import allow_connections
from windlass.base.http_in.connections import trust_check
from windlass.base.sighup import handle_hang_ups
from windlass.control.deploying.console_route import gateway_proof
from windlass.install.installation import Installation
from windlass.serve.connection import Connection
from windlass.serve.gateway_requests import GatewayRequests
from windlass.serve.port_state import PortState

STOP_SECONDS = 3
BACKLOG = 2048
_DATE_INTERVAL = 1.0
PING_SECONDS, PONG_SECONDS = 20.0, 60.0
"""Seconds between two pings of a websocket, and seconds within which the client must answer a ping."""
MAX_FRAME_BYTES = 4096
"""Largest frame from a client, in bytes. The server ignores the content of frames."""


def websocket(**parts: Any) -> asyncio.Protocol:
    from windlass.serve.websocket import WebSocket  # noqa: PLC0415 (few installations use websockets)

    return WebSocket(**parts)


async def serve(
    installation: Installation,
    listening_socket: socket.socket,
    announce: Callable[[int], None],
    on_stop: Callable[[], None] = lambda: None,
) -> None:
    """Serves a started installation until a signal asks to stop. Requests in progress get a moment to
    finish."""
    settings = installation.ctx.settings
    bounds = Bounds(connections=allow_connections(Bounds().connections))
    config = uvicorn.Config(
        _app_of(installation),
        **protocols(installation, bounds),
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=STOP_SECONDS,
        backlog=BACKLOG,
    )
    server = ApiServer(
        config, lambda: announce(listening_socket.getsockname()[1]), installation.app.stop_streams
    )
    loop = asyncio.get_running_loop()
    stop = partial(_stop, installation, server, settings.leave_seconds, on_stop)
    handle_hang_ups(stop)
    try:
        tune_interpreter()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop)
        await server.serve(sockets=[listening_socket])
    finally:
        await installation.stop()


def _app_of(installation: Installation) -> Any:
    ctx = installation.ctx
    settings = ctx.settings
    if not settings.console_domain:
        return installation.app
    return GatewayRequests(
        installation.app, gateway_proof(ctx), settings.trusted_proxies, needs_https=bool(settings.https_port)
    )


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
        "ws_max_size": MAX_FRAME_BYTES,
        "ws_per_message_deflate": False,  # compression needs memory per connection, and messages are short
        "ws_ping_interval": PING_SECONDS,
        "ws_ping_timeout": PONG_SECONDS,
    }


def _rate_limit_headers(installation: Installation, address: str) -> list[Header]:
    """Returns the rate limit headers for a refusal that is sent before a request was parsed. The refusal is
    not charged to the rate limit."""
    window, _ = installation.budgets.window_of_address(subject_of_address(address), spend=False)
    return rate_limit_headers(window)


def _stop(
    installation: Installation,
    server: ApiServer,
    leave_seconds: float,
    on_stop: Callable[[], None],
) -> None:
    """Handles a signal.

    The first signal makes the server report that it is not ready, and stops it after `leave_seconds`. A
    second signal stops it at once.
    """
    if installation.stopping:
        server.force_exit = True
        server.end()
    else:
        installation.stopping = True
        on_stop()
        asyncio.get_running_loop().call_later(leave_seconds, server.end)


class ApiServer(uvicorn.Server):
    """uvicorn without its signal handlers. Calls a function when it starts to listen."""

    def __init__(
        self, config: uvicorn.Config, started: Callable[[], None], on_stop: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(config)
        self._announce = started
        self._stopping = on_stop
        self._ended = asyncio.Event()

    def end(self) -> None:
        self.should_exit = True
        self._ended.set()

    async def main_loop(self) -> None:
        """Renews the `date` of responses each second. The loop of uvicorn wakes up ten times as often, which
        was most of what an idle server computed."""
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                async with asyncio.timeout(_DATE_INTERVAL):
                    await self._ended.wait()

    def capture_signals(self) -> Any:
        return _NoSignals()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends the streams, which have no end of their own, before uvicorn waits for the other requests."""
        self._stopping()
        await super().shutdown(sockets)


def tune_interpreter() -> None:
    """Reduces the frequency of garbage collection, and shortens the interval between thread switches.

    Objects created at the start live until the end, and the objects of a few dozen requests in progress are
    not garbage. With Python's default thresholds, the collector would scan them several times for each
    request.

    While another thread computes, for example unpacks a build, Python's default switch interval delays the
    event loop by 5 ms at each wake-up, which is longer than most requests take.
    """
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()  # garbage collection is disabled during the start
    sys.setswitchinterval(0.0005)


class _NoSignals:
    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def listen(host: str, port: int) -> socket.socket:
    """Returns a non-blocking socket that listens at an address. Raises OSError if the port is in use."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        # A socket that is only bound loses its port to the first socket that listens, and the routers start
        # before this server.
        listening.listen(BACKLOG)
    except OSError:
        listening.close()
        raise
    listening.setblocking(False)
    return listening
