"""State that all connections of a router share: limits, clock, and connections to instances.

The clock is that of the table of connections, and as coarse.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import os
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from msgspec import Struct

from windlass.base.http_in.bounds import Bounds
from windlass.base.http_in.connection_limits import allow_connections
from windlass.base.http_in.connections import ConnectionTable
from windlass.base.isolation.instance_connections import connect
from windlass.base.log import log
from windlass.routers.builtin.access_log import RouterAccessLog
from windlass.routers.builtin.peers import Peer
from windlass.routers.builtin.site_answers import SiteServer
from windlass.routers.router import Endpoint

_log = log("router")

P = TypeVar("P", bound=asyncio.BaseProtocol)


class ClientWait(Struct, frozen=True):
    """The wait of a gateway for a client that sends nothing."""

    served: bool = True
    """The client has received an answer."""
    seconds: float = 0.0


GiveAway = Callable[[int, int, ClientWait], None]
"""A function that takes a connection: its port, its file descriptor, and how long it has waited for its
client."""


class _Trial(asyncio.Protocol):
    """A connection that only tries whether an endpoint that refused accepts again."""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def hang_up(self) -> None:
        self._transport.close()


class SharedState:
    def __init__(self, bounds: Bounds, trusts: Callable[[str], bool]) -> None:
        self.bounds = bounds
        self.connections = ConnectionTable("gateway", bounds, trusts, self._sweep)
        """The connections of clients."""
        self.access_log: RouterAccessLog | None = None
        """Set only together with `RoutingTable.time_all`: a request that is not timed is not logged."""
        self.sites = SiteServer()
        """Creates the answers of static sites."""
        self.files_sent = 0
        """Large files of static sites that are being sent."""
        self.now = 0.0
        self.peers: dict[Endpoint, Peer] = {}
        self.stopping = False
        self.is_complete = True
        """True once the routes of every service are known."""
        self.give: GiveAway | None = None
        """Passes idle client connections to another process."""
        self.answers_until = math.inf
        """The time until which requests that wait behind others are answered. The routes of a router that was
        left become stale, and a client that always has another request waiting would never be given away."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._birth = os.urandom(8).hex().encode()
        self._numbers = itertools.count(1)

    def trust(self, trusts: Callable[[str], bool]) -> None:
        self.connections.trusts = trusts
        if self.access_log is not None:
            self.access_log.trusts = trusts

    def start(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.stopping = False
        self.connections.limit = allow_connections(self.bounds.connections)
        self.connections.start()
        self.now = self.connections.now

    async def stop(self) -> None:
        self.stopping = True
        self.connections.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for client in list(self.connections.members):
            client.abort()
        for peer in list(self.peers.values()):
            peer.cut()
            peer.let_go()
        self.sites.files.clear()

    def request_id(self) -> bytes:
        return b"%b-%x" % (self._birth, next(self._numbers))

    def peer(self, endpoint: Endpoint) -> Peer:
        peer = self.peers.get(endpoint)
        if peer is None:
            peer = self.peers[endpoint] = Peer(endpoint)
        return peer

    def dial(
        self, peer: Peer, make: Callable[[], P], done: Callable[[P], None], refused: Callable[[Peer], None]
    ) -> None:
        """Connects, and then calls `done` or `refused`."""
        self.do(self._dial(peer, make, done, refused))

    async def _dial(
        self, peer: Peer, make: Callable[[], P], done: Callable[[P], None], refused: Callable[[Peer], None]
    ) -> None:
        endpoint = peer.endpoint
        try:
            async with asyncio.timeout(self.bounds.connect_seconds):
                if endpoint.network:
                    connected = await connect(endpoint.network, endpoint.address, endpoint.port)
                    _, protocol = await self.loop.create_connection(make, sock=connected)
                else:
                    _, protocol = await self.loop.create_connection(make, endpoint.address, endpoint.port)
        except (OSError, TimeoutError) as error:
            peer.refused(self.loop.time(), self.bounds.pause_seconds, str(error) or "no answer in time")
            refused(peer)
        else:
            peer.answered()
            done(protocol)

    def do(self, action: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(action)
        self._tasks.add(task)
        task.add_done_callback(self._forget_task)

    def _forget_task(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            _log.error("a connection to an instance could not be used", exc_info=error)

    def _sweep(self, now: float) -> None:
        self.now = now
        for endpoint, peer in list(self.peers.items()):
            peer.sweep(now - self.bounds.pooled_seconds)
            if peer.must_be_tried(now):
                # Tried without a request: connecting to a host that is unavailable takes until the time
                # limit.
                self.dial(peer, _Trial, _Trial.hang_up, lambda _: None)
            if not (peer.routes or peer.active or peer.draining):
                del self.peers[endpoint]
