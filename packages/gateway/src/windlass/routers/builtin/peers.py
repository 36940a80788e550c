"""The router's state of an endpoint: the number of requests in progress, and the pool of idle connections."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any, Final, Protocol

from windlass.base.log import log
from windlass.routers.router import Endpoint

_log = log("router")
_REFUSAL_PENALTY: Final = 1_000_000
"""Penalty that is added to the load of an endpoint that refuses connections. It exceeds any real load."""
_MAX_DOUBLINGS: Final = 4


class AnswerSource(Protocol):
    """The source of an answer in progress: a connection to an instance, or a file."""

    blocked: bool
    """Whether the source currently accepts no further bytes of the request's body."""

    @property
    def begun(self) -> bool:
        """Whether the answer has begun."""
        ...

    def write(self, data: bytes) -> None:
        """Passes further bytes of the request's body to the source."""
        ...

    def buffered(self) -> int:
        """Returns how many bytes of the request's body the source has not taken yet."""
        ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def abandon(self) -> None:
        """Aborts the answer, because the client has disconnected."""
        ...


class InstanceConnection(AnswerSource, Protocol):
    """A connection to an instance, which carries one request at a time; see `upstream`."""

    since: float
    """The time since which the connection has been idle."""
    transport: Any

    def carry(self, client: Any, request: bytes) -> None: ...

    def hang_up(self) -> None: ...


class Peer:
    __slots__ = (
        "_empty",
        "_refusals",
        "active",
        "cuts",
        "draining",
        "endpoint",
        "idle",
        "penalty",
        "retry_at",
        "routes",
        "speaks_http2",
        "unawaited",
    )

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.active = 0
        """Number of requests, tunnels and pipes in progress, including those whose connection is still being
        opened."""
        self.idle: list[InstanceConnection] = []
        self.routes = 0
        """Number of routes to this endpoint. Without routes, no idle connections are kept."""
        self.speaks_http2 = False
        """Whether the endpoint gets its requests by HTTP/2."""
        self.draining = 0
        self.unawaited = 0
        """Number of connections that are being opened although nobody waits for them any more."""
        self.penalty = 0
        self.retry_at = 0.0
        self.cuts: set[Callable[[], None]] = set()
        """Callbacks that abort long-lived connections: tunnels and pipes."""
        self._refusals = 0
        self._empty: list[asyncio.Future[None]] = []

    def ended(self) -> None:
        """Records the end of a request, tunnel or pipe."""
        self.active -= 1
        if not self.active and self._empty:
            for waiting in self._empty:
                if not waiting.done():
                    waiting.set_result(None)
            self._empty.clear()

    def refused(self, now: float, pause: float, reason: str) -> None:
        """Records a refused connection. The endpoint is avoided for a while, with exponential back-off."""
        if not self._refusals:
            where = f"{self.endpoint.address}:{self.endpoint.port}"
            _log.warning("an endpoint takes no connection", extra={"endpoint": where, "reason": reason})
        self.penalty = _REFUSAL_PENALTY
        self.retry_at = now + pause * 2 ** min(self._refusals, _MAX_DOUBLINGS)
        self._refusals += 1

    def must_be_tried(self, now: float) -> bool:
        """Returns whether a connection attempt is due, after an endpoint has been avoided for its back-off
        time. Returns True once per refusal."""
        is_due = bool(self.penalty) and self.routes > 0 and now >= self.retry_at
        if is_due:
            self.retry_at = math.inf
        return is_due

    def choose_protocol(self, *, speaks_http2: bool) -> None:
        if self.speaks_http2 is not speaks_http2:
            self.speaks_http2 = speaks_http2
            self.let_go()

    def answered(self) -> None:
        self.penalty = self._refusals = 0

    def note_unrouted(self) -> None:
        self.routes -= 1
        if not self.routes:
            self.let_go()

    def let_go(self) -> None:
        """Closes the idle connections."""
        waiting, self.idle = self.idle, []
        for upstream in waiting:
            upstream.hang_up()

    def sweep(self, oldest: float) -> None:
        # The pool is a stack: the connections that have been idle longest are at the front.
        while self.idle and self.idle[0].since < oldest:
            self.idle.pop(0).hang_up()

    async def wait_until_idle(self) -> None:
        """Waits until no request, tunnel or pipe is in progress."""
        while self.active:
            waiting = asyncio.get_running_loop().create_future()
            self._empty.append(waiting)
            await waiting

    def cut(self) -> None:
        for cut in list(self.cuts):
            cut()
