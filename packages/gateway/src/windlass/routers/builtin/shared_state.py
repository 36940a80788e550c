"""State that all connections of a router share: limits, a coarse clock, and connections to instances.

The clock advances with each tick of the connection table.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import os
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar
from urllib.parse import quote

from msgspec import Struct

from windlass.base.http_in.bounds import Bounds
from windlass.base.http_in.connection_limits import allow_connections
from windlass.base.http_in.connections import ConnectionTable
from windlass.base.isolation.instance_connections import connect
from windlass.base.log import log
from windlass.routers.builtin.access_log import RouterAccessLog
from windlass.routers.builtin.certificates import CertificateStore, CertificateTable
from windlass.routers.builtin.challenge_answers import CHALLENGE_PREFIX
from windlass.routers.builtin.compression import Compressors
from windlass.routers.builtin.held_requests import HeldRequests
from windlass.routers.builtin.http2_limits import Http2Limits
from windlass.routers.builtin.memory_shares import MAX_LARGE_HEADS_BYTES, MAX_WAITING_BYTES, MemoryShares
from windlass.routers.builtin.organization_shares import OrganizationShares
from windlass.routers.builtin.peers import Peer
from windlass.routers.builtin.retries import MAX_KEPT_BYTES
from windlass.routers.builtin.service_log import ServiceLogs
from windlass.routers.builtin.site_answers import SiteServer
from windlass.routers.router import Endpoint

_log = log("router")

_HTTPS: Final = 443
_MAX_UNAWAITED_DIALS: Final = 8
"""Maximum number of connections to one endpoint that are being opened although nobody waits for them."""
_VISIBLE_CHARACTERS: Final = "".join(map(chr, range(0x21, 0x7F)))
P = TypeVar("P", bound=asyncio.BaseProtocol)


class SecureOrigin(Struct, frozen=True):
    """A client whose TLS is in another process, which passes decrypted bytes on."""

    address: str
    """The client's address."""
    names: tuple[str, ...]
    """The names of the certificate that the client has seen."""


class ClientWait(Struct, frozen=True):
    """How long a gateway has waited for an idle client. Passed on with the connection in a handover."""

    served: bool = True
    """Whether the client has received an answer."""
    seconds: float = 0.0
    secure: SecureOrigin | None = None
    """Set if the connection is one of HTTPS; its file descriptor is then a Unix socket."""
    address: str = ""
    """The client's address. It is not that of the connection if a proxy has told it; empty in a handover from
    an older version."""


GiveAway = Callable[[int, int, ClientWait], None]
"""Callback that receives a connection: its port, its file descriptor, and its idle time."""


class _TrialConnection(asyncio.Protocol):
    """A connection that tests whether an endpoint accepts connections again."""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def hang_up(self) -> None:
        self._transport.close()


class SharedState:
    def __init__(self, bounds: Bounds, trusts: Callable[[str], bool], store: CertificateStore) -> None:
        self.bounds = bounds
        self.certificates = CertificateTable(store)
        self.http_port = 0
        """The port on which services are reached by host name over HTTP."""
        self.https_port = 0
        """The port for HTTPS; 0 for no HTTPS."""
        self.offers_http2 = False
        """Whether HTTPS clients may speak HTTP/2."""
        self.http2_limits = Http2Limits()
        self.public_https_port = 0
        """The port that clients use for HTTPS, if it is another one; 0 otherwise."""
        self.successor = Peer(Endpoint("successor", 0))
        """Counts the TLS connections whose decrypted bytes go to a successor."""
        self.connections = ConnectionTable("gateway", bounds, trusts, self._sweep)
        """The open client connections."""
        self.shares = OrganizationShares(self.connections)
        self.access_log: RouterAccessLog | None = None
        """The access log. Set only together with `RoutingTable.time_all`, because only timed requests are
        logged."""
        self.closed_log = RouterAccessLog.closed(trusts)
        """Takes the place of the access log for services with a log of their own."""
        self.service_logs = ServiceLogs()
        self.sites = SiteServer()
        """Creates the answers of static sites."""
        self.files_sent = 0
        """Number of large files of static sites that are being sent."""
        self.large_heads = MemoryShares(MAX_LARGE_HEADS_BYTES)
        self.waiting_requests = MemoryShares(MAX_WAITING_BYTES)
        """The large requests that wait for a connection to an instance, or for a sleeping service."""
        self.kept_requests = MemoryShares(MAX_KEPT_BYTES)
        """The large requests that are kept to be sent once more."""
        self.held = HeldRequests()
        """The requests to sleeping services."""
        self.compressors = Compressors()
        self.now = 0.0
        self.peers: dict[Endpoint, Peer] = {}
        self.stopping = False
        self.sends_header: Callable[[str], bool] = lambda host: False
        """Whether connections from an address to the gateway's ports have to begin with a header of the PROXY
        protocol."""
        self.is_complete = True
        """Whether the routes of all services were received."""
        self.give: GiveAway | None = None
        """Callback that passes an idle client connection to another process; None before a handover."""
        self.answers_until = math.inf
        """The time until which pipelined requests are answered. After a handover, this router's routes become
        outdated, and a client that always has another request waiting would never be handed over."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._birth = os.urandom(8).hex().encode()
        self._numbers = itertools.count(1)

    def trust(self, trusts: Callable[[str], bool]) -> None:
        self.connections.trusts = trusts
        self.closed_log.trusts = trusts
        if self.access_log is not None:
            self.access_log.trusts = trusts

    def location_at(self, host: str, port: str, target: bytes, network: str, *, is_secure: bool) -> str:
        """Returns the address of a request at another host: with HTTPS if that host has a certificate, and
        otherwise with the scheme of the client and this `port` (with its colon). Empty for requests of
        certificate authorities, and if the client would lose HTTPS."""
        if target.startswith(CHALLENGE_PREFIX):
            return ""
        if self.https_port and (secure := self.secure_location(host.encode(), target, network)):
            return secure
        keeps_scheme = not is_secure or self.connections.trusts(network)
        return f"//{host}{port}{_path_of(target)}" if keeps_scheme else ""

    def secure_location(self, host: bytes, target: bytes, network: str) -> str:
        """Returns the HTTPS address of a request by HTTP; empty if there is no certificate, or if a proxy has
        sent the request: its client may have used HTTPS."""
        name = host.decode()
        if target.startswith(CHALLENGE_PREFIX) or self.connections.trusts(network):
            return ""
        if not self.certificates.is_live(name):
            return ""
        number = self.public_https_port or self.https_port
        port = "" if number == _HTTPS else f":{number}"
        return f"https://{name}{port}{_path_of(target)}"

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
        for peer in [*self.peers.values(), self.successor]:
            peer.cut()
            peer.let_go()
        self.sites.files.clear()
        await self.service_logs.close()

    def request_id(self) -> bytes:
        return b"%b-%x" % (self._birth, next(self._numbers))

    def peer(self, endpoint: Endpoint) -> Peer:
        peer = self.peers.get(endpoint)
        if peer is None:
            peer = self.peers[endpoint] = Peer(endpoint)
        return peer

    def dial(
        self,
        peer: Peer,
        create_protocol: Callable[[], P],
        on_connected: Callable[[P], None],
        on_refused: Callable[[Peer], None],
        seconds: float = 0,
    ) -> asyncio.Task[None]:
        """Connects to an endpoint. Calls `on_connected` with the new protocol object, or `on_refused` on
        failure.
        `seconds`: a time limit in place of the usual one. Returns the task, for `leave_dial`."""
        seconds = seconds or self.bounds.connect_seconds
        return self.do(self._connect_to_peer(peer, create_protocol, on_connected, on_refused, seconds))

    @staticmethod
    def leave_dial(peer: Peer, dial: asyncio.Task[None]) -> None:
        """Called when nobody waits for a connection any more. A few are still opened, since they show whether
        the endpoint accepts connections. Further ones are given up: clients that come and go could otherwise
        use up the descriptors of the router, while an instance accepts none."""
        if dial.done():
            return
        if peer.unawaited >= _MAX_UNAWAITED_DIALS:
            dial.cancel()
            peer.ended()
            return

        def note_end(_: asyncio.Task[None]) -> None:
            peer.unawaited -= 1

        peer.unawaited += 1
        dial.add_done_callback(note_end)

    async def _connect_to_peer(
        self,
        peer: Peer,
        create_protocol: Callable[[], P],
        on_connected: Callable[[P], None],
        on_refused: Callable[[Peer], None],
        seconds: float,
    ) -> None:
        endpoint = peer.endpoint
        try:
            async with asyncio.timeout(seconds):
                if endpoint.network:
                    connected = await connect(endpoint.network, endpoint.address, endpoint.port)
                    _, protocol = await self.loop.create_connection(create_protocol, sock=connected)
                else:
                    _, protocol = await self.loop.create_connection(
                        create_protocol, endpoint.address, endpoint.port
                    )
        except (OSError, TimeoutError) as error:
            peer.refused(self.loop.time(), self.bounds.pause_seconds, str(error) or "no answer in time")
            on_refused(peer)
        else:
            peer.answered()
            on_connected(protocol)

    def do(self, action: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self.loop.create_task(action)
        self._tasks.add(task)
        task.add_done_callback(self._forget_task)
        return task

    def _forget_task(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            _log.error("a connection to an instance could not be used", exc_info=error)

    def _sweep(self, now: float) -> None:
        self.now = now
        for endpoint, peer in list(self.peers.items()):
            peer.sweep(now - self.bounds.pooled_seconds)
            if peer.must_be_tried(now):
                # Test without a request: connecting to an unavailable host takes until the time
                # limit.
                self.dial(peer, _TrialConnection, _TrialConnection.hang_up, lambda _: None)
            if not (peer.routes or peer.active or peer.draining):
                del self.peers[endpoint]


def _path_of(target: bytes) -> str:
    return "/" if target == b"*" else quote(target, safe=_VISIBLE_CHARACTERS)
