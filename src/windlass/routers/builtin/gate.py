"""What all connections of a router share: its limits, its clock, and how instances are reached.

The clock is coarse: one tick moves it, and looks after everything that may take only so long. A timer for
each request would cost more than the rest of what is done for the request.
"""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, TypeVar

from windlass.base.log import log
from windlass.routers.builtin.bounds import Bounds
from windlass.routers.builtin.peers import Peer
from windlass.routers.router import Endpoint

_log = log("router")
_OWN_FILES: Final = 128
"""That the rest of the process may have open."""
_MORE: Final = 256
"""Connections above the limit that are told so; further ones are just closed."""

P = TypeVar("P", bound=asyncio.BaseProtocol)


class Ageing(Protocol):
    """A connection of a client."""

    def age(self, now: float) -> None:
        """Looks whether it has taken too long for something."""

    def abort(self) -> None: ...


def files_for(wanted: int) -> int:
    """How many files this process may open: as many as wanted, where the machine lets it. The usual limit
    of 1024 is there for programs that use select(), which this one does not; engines give instances limits of
    their own."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if most <= soft:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError) as error:  # a sandbox may forbid even that; it serves all the same
        _log.warning("the limit of open files cannot be raised", extra={"limit": soft, "reason": str(error)})
        return soft
    return most


class Gate:
    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.now = 0.0
        self.clients: set[Ageing] = set()
        self.peers: dict[Endpoint, Peer] = {}
        self.stopping = False
        self.limit = bounds.connections
        self._tasks: set[asyncio.Task[None]] = set()
        self._ticking: asyncio.TimerHandle | None = None
        self._birth = os.urandom(8).hex().encode()
        self._numbers = 0
        shortest = min(
            bounds.head_seconds,
            bounds.idle_seconds,
            bounds.stall_seconds,
            bounds.parting_seconds,
            bounds.pooled_seconds,
            bounds.pause_seconds,
        )
        self._tick_seconds = max(0.01, min(1.0, shortest / 4))

    def start(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.stopping = False
        self.now = self.loop.time()
        files = files_for(2 * self.bounds.connections + _OWN_FILES)
        self.limit = max(1, min(self.bounds.connections, (files - _OWN_FILES) // 2))
        if self.limit < self.bounds.connections // 2:
            _log.warning(
                "fewer connections are taken than could be: raise the hard limit of open files (ulimit -Hn, "
                "LimitNOFILE)",
                extra={"connections": self.limit, "files": files, "wanted": self.bounds.connections},
            )
        self._ticking = self.loop.call_later(self._tick_seconds, self._tick)

    async def stop(self) -> None:
        self.stopping = True
        if self._ticking:
            self._ticking.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for client in list(self.clients):
            client.abort()
        for peer in list(self.peers.values()):
            peer.cut()
            peer.let_go()

    @property
    def is_full(self) -> bool:
        return len(self.clients) >= self.limit

    @property
    def is_flooded(self) -> bool:
        return len(self.clients) >= self.limit + _MORE

    def request_id(self) -> bytes:
        self._numbers += 1
        return b"%b-%x" % (self._birth, self._numbers)

    def peer(self, endpoint: Endpoint) -> Peer:
        found = self.peers.get(endpoint)
        if found is None:
            found = self.peers[endpoint] = Peer(endpoint)
        return found

    def dial(
        self, peer: Peer, make: Callable[[], P], done: Callable[[P], None], refused: Callable[[Peer], None]
    ) -> None:
        """Connects, and then calls one of the two."""
        self.do(self._dialled(peer, make, done, refused))

    async def _dialled(
        self, peer: Peer, make: Callable[[], P], done: Callable[[P], None], refused: Callable[[Peer], None]
    ) -> None:
        endpoint = peer.endpoint
        try:
            async with asyncio.timeout(self.bounds.connect_seconds):
                _, made = await self.loop.create_connection(make, endpoint.address, endpoint.port)
        except (OSError, TimeoutError) as error:
            peer.refused(self.loop.time(), self.bounds.pause_seconds, str(error) or "no answer in time")
            refused(peer)
        else:
            peer.answered()
            done(made)

    def do(self, deed: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(deed)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            _log.error("a connection to an instance could not be used", exc_info=error)

    def _tick(self) -> None:
        self._ticking = self.loop.call_later(self._tick_seconds, self._tick)
        self.now = now = self.loop.time()
        for client in list(self.clients):
            client.age(now)
        for endpoint, peer in list(self.peers.items()):
            peer.sweep(now, now - self.bounds.pooled_seconds)
            if not (peer.routes or peer.active or peer.draining):
                del self.peers[endpoint]
