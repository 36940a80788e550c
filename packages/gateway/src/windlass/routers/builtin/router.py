"""The built-in router: HTTP by host name on one gateway port, and TCP by external port.

All work is done in callbacks on one event loop, so that a route change applies from the next request on. The
router stores nothing on disk: after a restart, it gets all routes again. Its sockets can be handed over to a
router in another process: see `leave`, `adopt` and `inherited`. If a port cannot be bound, the error explains
the reason.
"""

from __future__ import annotations

import asyncio
import errno
import math
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from typing import Any, Final

from windlass.base.held_ports import hold_other_family
from windlass.base.http_in.bounds import Bounds
from windlass.base.isolation.instance_connections import make_socket
from windlass.base.isolation.socket_server import TCP, TCP_6, SocketServerUnavailable
from windlass.base.metrics import Metric
from windlass.routers.builtin.access_log import RouterAccessLog
from windlass.routers.builtin.certificates import CertificateStore, MemoryStore
from windlass.routers.builtin.client import ClientConnection
from windlass.routers.builtin.http2_connection import Http2Connection
from windlass.routers.builtin.https_port import HttpsPort
from windlass.routers.builtin.pipes import Caller
from windlass.routers.builtin.shared_state import ClientWait, GiveAway, SecureOrigin, SharedState
from windlass.routers.builtin.table import Port, RoutingTable, is_inside, port_key
from windlass.routers.builtin.tls_client import TlsClient
from windlass.routers.builtin.traffic import Traffic
from windlass.routers.router import (
    Certificate,
    Challenge,
    Endpoint,
    IsKnown,
    Listen,
    Route,
    RouteError,
)

_BACKLOG: Final = 2048
_PRIVILEGED_PORTS: Final = 1024


def bind(host: str, port: int, *, holder: str = "another program", way_out: str) -> socket.socket:
    """Returns a listening socket. `way_out`: advice for the error message if the port is in use."""
    network, _, address = host.rpartition("/")
    try:
        listening = make_socket(network, TCP_6 if ":" in address else TCP)
    except (ProcessLookupError, SocketServerUnavailable) as error:
        raise RouteError(
            f"deploy again: port {port} cannot be listened on, since the network of its environment has ended"
        ) from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address, port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise RouteError(explain(error, host, port, holder, way_out)) from error
    listening.setblocking(False)
    return listening


def explain(error: OSError, host: str, port: int, holder: str, way_out: str) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is in use by {holder}: {way_out}"
    if error.errno in {errno.EACCES, errno.EPERM} and port < _PRIVILEGED_PORTS:
        return (
            f"port {port} needs a right that Windlass does not have, as all below {_PRIVILEGED_PORTS}: "
            f"choose a higher one, or give it the right (CAP_NET_BIND_SERVICE)"
        )
    if error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
        return (
            f"port {port} cannot be listened on, because {host} is no address of this machine: "
            f"change the setting gateway_host"
        )
    return f"port {port} cannot be listened on: {error.strerror or error}"


_LOOPBACK: Final = "127.0.0.1"
_LAST_ANSWERS_TIMEOUT, _CHECK_INTERVAL = 5.0, 0.05
"""Time limit for clients to read their last answers, and the pause between two checks, in seconds."""
_LAST_REQUESTS: Final = 10.0
"""Seconds after a handover during which the old router still answers pipelined requests."""
_ALL_ADDRESSES: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 (compared with, not bound to)

_OTHER_FAMILY: Final = "other family"
"""Pseudo-address of the socket that reserves the gateway port in the other address family (IPv4 or IPv6)."""

Addresses = set[tuple[str, int]]
Servers = dict[tuple[str, int], asyncio.Server]
Sockets = dict[tuple[str, int], socket.socket]
"""Listening and reserving sockets, by address and port."""


class BuiltinRouter:
    def __init__(
        self,
        host: str,
        port: int,
        *,
        bounds: Bounds | None = None,
        trusts: Callable[[str], bool] = lambda network: False,
        inherited_sockets: Sockets | None = None,
        is_complete: bool = True,
        store: CertificateStore | None = None,
        https_port: int = 0,
    ) -> None:
        """`port`: 0 chooses a free port, which the property `port` returns after the start. `trusts` returns
        whether an address belongs to a trusted proxy, which is exempt from the connection limit per address.
        `inherited_sockets`: sockets that already listen. `is_complete`: False if routes may be missing until
        `complete` is called. `store`: where certificates are kept; in memory by default. `https_port`: 0 for
        no HTTPS."""
        self._host = host
        self._wanted_port = port
        self._wanted_https_port = https_port
        self._gateway: asyncio.Server | None = None
        self._https: HttpsPort | None = None
        self._held_https: socket.socket | None = None
        self._held: socket.socket | None = None
        self._port = port
        self._shared = SharedState(bounds or Bounds(), trusts, store or MemoryStore())
        self._shared.is_complete = is_complete
        self._table = RoutingTable(self._shared.peer)
        self._listening: dict[str, Servers] = {}
        self._held_external: dict[int, socket.socket | None] = {}
        """The sockets that reserve external ports in the other address family."""
        self._inherited = inherited_sockets or {}
        self._changing = asyncio.Lock()
        self._log_file = ""
        self._dropped_before = 0

    @property
    def port(self) -> int:
        return self._port

    @property
    def connections(self) -> int:
        """Number of open client connections."""
        greetings = len(self._https.greetings.members) if self._https else 0
        return len(self._shared.connections.members) + greetings

    def traffic(self) -> Mapping[str, Traffic]:
        """Returns the traffic counters of each service."""
        return self._table.traffic

    async def start(self) -> None:
        if self._gateway is not None:
            return
        way_out = "stop that program, or choose another port with the setting gateway_port"
        listening = self._bind(self._host, self._wanted_port, way_out)
        self._port = self._shared.http_port = listening.getsockname()[1]
        self._shared.start()
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self._shared.stop)
            self._gateway = await _start_server(listening, self._client_connection)
            undo.pop_all()
        self._held = self._hold_other_family(self._port)
        self._shared.certificates.load()
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self.stop)
            self.set_https_port(self._wanted_https_port)
            undo.pop_all()

    def _hold_other_family(self, port: int) -> socket.socket | None:
        at = _OTHER_FAMILY, port
        return self._inherited.pop(at, None) or hold_other_family(self._host, port)

    def _hold_external(self, before: Collection[int], ports: Collection[int]) -> None:
        """Reserves the external ports of a service in the other address family, and releases former ones."""
        for port in set(before) - set(ports):
            self._release_external(port)
        for port in ports:
            if port not in self._held_external:
                self._held_external[port] = self._hold_other_family(port)

    def _release_external(self, port: int) -> None:
        if (held := self._held_external.pop(port, None)) is not None:
            held.close()

    def set_https_port(self, port: int, public: int = 0) -> None:
        """Listens for HTTPS at a port, or at none if it is 0. `public`: the port that clients use, if another
        one leads here; 0 otherwise. Raises RouteError; nothing has changed then."""
        self._shared.public_https_port = public
        if port == self._shared.https_port:
            return
        listening = None
        if port:
            self._check_https_port(port)
            way_out = "stop that program, or choose another port with the setting https_port"
            listening = self._bind(self._host, port, way_out)
        self._release_https()
        self._shared.https_port = port
        if listening is not None:
            self._https = HttpsPort(self._shared, listening, self._secure_connection)
            self._held_https = self._hold_other_family(port)

    def _check_https_port(self, port: int) -> None:
        if port == self._port:
            raise RouteError(f"https_port: choose another port than {port}, which is the gateway_port")
        if any(
            port == taken for held in self._listening.values() for host, taken in held if not is_inside(host)
        ):
            raise RouteError(f"https_port: choose another port than {port}, which is the port of a service")

    def _release_https(self) -> None:
        if self._https is not None:
            self._https.stop()
            self._https = None
        if self._held_https is not None:
            self._held_https.close()
            self._held_https = None

    async def stop(self) -> None:
        async with self._changing:
            servers = [server for held in self._listening.values() for server in held.values()]
            self._listening.clear()
            for port in [*self._held_external]:
                self._release_external(port)
            if self._gateway is not None:
                servers.append(self._gateway)
                self._gateway = None
            self._release_held_port()
            for server in servers:
                server.close()
            self._release_https()
            self._shared.https_port = 0
            await self._shared.stop()
            if self._log_file:
                # Aborted connections write their log entry in the next iteration of the event loop.
                await asyncio.sleep(0)
                await self.log_to("")

    async def retire(self, timeout: float) -> None:
        """Stops accepting connections. Stops the router when all requests in progress have ended, or after
        `timeout` seconds."""
        if self._gateway is not None:
            self._gateway.close()
        self._release_held_port()
        if self._https is not None:
            self._https.close()
        self._shared.stopping = True
        try:
            await self.drain([*self._shared.peers], timeout)
            async with asyncio.timeout(timeout):
                while self._shared.files_sent:  # noqa: ASYNC110 (the end of a file is no event)
                    await asyncio.sleep(_CHECK_INTERVAL)
            async with asyncio.timeout(min(timeout, _LAST_ANSWERS_TIMEOUT)):
                while self.connections:  # noqa: ASYNC110 (the end of a connection is no event)
                    await asyncio.sleep(_CHECK_INTERVAL)
        except TimeoutError:
            pass  # The remaining clients are idle, or do not read their answers.
        finally:
            await self.stop()

    async def reserve(self, service: str, ports: Sequence[Listen]) -> None:
        async with self._changing:
            wanted = self._listen_addresses(ports)
            self._check(service, wanted)
            held = self._listening.get(service, {})
            before = {port for host, port in held if host == self._host}
            fresh = wanted - held.keys()
            # A port that moves to another address has to be released before it can be bound again.
            taken = {port for host, port in fresh if not is_inside(host)}
            moving = {at for at in held if at not in wanted and not is_inside(at[0]) and at[1] in taken}
            for at in moving:
                held.pop(at).close()
            async with AsyncExitStack() as undo:
                undo.push_async_callback(self._open_again, moving, held)
                opened = await self._open(fresh)
                undo.pop_all()
            for at in held.keys() - wanted:
                held.pop(at).close()
            held.update(opened)
            if held:
                self._listening[service] = held
            else:
                self._listening.pop(service, None)
            self._hold_external(before, {port for host, port in held if host == self._host})

    async def set(self, service: str, routes: Sequence[Route]) -> None:
        ports = {port_key(host, port) for host, port in self._listening.get(service, ())}
        for route in routes:
            if route.external is not None and port_key(route.inside, route.external) not in ports:
                raise RouteError(f"port {route.external} has not been reserved for {route.title}")
        self._table.put(service, routes)
        if not self._table.sleeps(service):
            self._shared.held.release(service)

    async def drain(self, endpoints: Sequence[Endpoint], timeout: float) -> None:
        peers = [peer for at in endpoints if (peer := self._shared.peers.get(at))]
        for peer in peers:
            peer.draining += 1
            peer.let_go()
        try:
            async with asyncio.timeout(timeout):
                for peer in peers:
                    await peer.wait_until_idle()
        except TimeoutError:
            for peer in peers:
                peer.cut()
        finally:
            for peer in peers:
                peer.draining -= 1

    async def forget(self, service: str) -> None:
        self._table.drop(service)
        self._shared.held.release(service)
        await self.reserve(service, ())

    def wake_with(self, ask: Callable[[str], bool]) -> None:
        """Sets what asks for a sleeping service to be woken; it returns whether anything can do so."""
        self._shared.held.ask = ask

    @property
    def awaited(self) -> Collection[str]:
        """Returns the sleeping services for which requests wait."""
        return self._shared.held.services

    def idle_seconds(self, traffic: Traffic) -> float:
        """Returns the time since a service was last used; -1 if it was not used since the start."""
        return -1.0 if traffic.used == -math.inf else max(0.0, self._shared.now - traffic.used)

    async def complete(self) -> None:
        self._shared.is_complete = True

    async def keep(self, *, stays: bool) -> None:
        """Does nothing, because this router does not keep the server's API ports."""

    async def metrics(self) -> Sequence[Metric]:
        """Returns no metrics. The server derives them from `traffic`."""
        return ()

    async def services(self) -> Collection[str]:
        return self._listening.keys() | self._table.services

    async def put_certificate(self, id: str, certificate: Certificate) -> None:
        self._shared.certificates.put(id, certificate)

    async def drop_certificate(self, id: str) -> None:
        self._shared.certificates.drop(id)

    async def certificates(self) -> Mapping[str, str]:
        return self._shared.certificates.digests()

    async def put_challenge(self, id: str, challenge: Challenge) -> None:
        self._shared.certificates.put_challenge(id, challenge)

    async def drop_challenge(self, id: str) -> None:
        self._shared.certificates.drop_challenge(id)

    async def challenges(self) -> Mapping[str, int]:
        return self._shared.certificates.answers()

    async def close_others(self, is_known: IsKnown, timeout: float) -> None:
        """Does nothing: other routers of an earlier process ended with that process."""

    def _release_held_port(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None

    # Handing over to another process

    def listening(self) -> Sockets:
        """Returns all listening sockets, and the socket that reserves the gateway port."""
        servers = {at: server for held in self._listening.values() for at, server in held.items()}
        if self._gateway is not None:
            servers[self._host, self._port] = self._gateway
        sockets = {at: server.sockets[0] for at, server in servers.items()}
        if self._https is not None:
            sockets[self._host, self._shared.https_port] = self._https.listening
        reserving = [
            (self._port, self._held),
            (self._shared.https_port, self._held_https),
            *self._held_external.items(),
        ]
        for port, held in reserving:
            if held is not None:
                sockets[_OTHER_FAMILY, port] = held
        return sockets

    def leave(self, give_away: GiveAway) -> None:
        """Stops accepting connections. Passes each client connection to `give_away` as soon as it is idle.
        Tunnels and pipes stay in this process until they end."""
        self._shared.give = give_away
        self._shared.answers_until = self._shared.loop.time() + _LAST_REQUESTS
        self._shared.held.give_up_all()
        for held in self._listening.values():
            for server in held.values():
                server.close()
        if self._gateway is not None:
            self._gateway.close()
        if self._https is not None:
            self._https.close()
        for client in list(self._shared.connections.members):
            if isinstance(client, (TlsClient, Http2Connection)):
                client.leave()

    def adopt(self, connection: socket.socket, port: int, client_wait: ClientWait) -> None:
        """Continues an idle client connection that another process has handed over."""
        if client_wait.secure is not None:
            client = self._relayed_connection(client_wait.secure, port)
            self._shared.do(self._adopt_connection(connection, client, client_wait))
            return
        make = self._client_connection if port == self._port else self._protocol_for(port)
        self._shared.do(self._adopt_connection(connection, make(), client_wait))

    async def _adopt_connection(
        self, connection: socket.socket, protocol: asyncio.Protocol, client_wait: ClientWait
    ) -> None:
        if isinstance(protocol, ClientConnection):
            origin = client_wait.secure
            told = origin.address if origin else client_wait.address or str(connection.getpeername()[0])
            protocol.continue_after(client_wait, told)
        connection.setblocking(False)
        await self._shared.loop.connect_accepted_socket(lambda: protocol, connection)

    def close_inherited(self) -> None:
        """Closes inherited sockets that no door or service uses."""
        for listening in self._inherited.values():
            listening.close()
        self._inherited.clear()

    def trust(self, trusts: Callable[[str], bool]) -> None:
        self._shared.trust(trusts)

    def await_headers(self, sends_header: Callable[[str], bool]) -> None:
        """Sets from which addresses connections to the gateway's ports begin with a header of the PROXY
        protocol. They are closed without one. From other addresses, a header is no valid request."""
        self._shared.sends_header = sends_header

    def offer_http2(self, is_offered: bool) -> None:
        """Offers HTTP/2 to HTTPS clients that connect from now on, or no longer."""
        if is_offered is not self._shared.offers_http2:
            self._shared.offers_http2 = is_offered
            if self._https is not None:
                self._https.choose_protocols()

    # The access log

    @property
    def dropped_lines(self) -> int:
        """Number of access log lines that could not be written."""
        log = self._shared.access_log
        return self._dropped_before + (log.dropped if log else 0)

    async def log_to(self, file: str) -> None:
        """Sets the access log file. An empty name disables the access log."""
        if file == self._log_file:
            return
        before, self._log_file = self._shared.access_log, file
        trusts = self._shared.connections.trusts
        self._shared.access_log = RouterAccessLog(file, trusts) if file else None
        self._table.time_all(bool(file))
        if before is not None:
            await before.close()
            self._dropped_before += before.dropped

    # Ports

    def _listen_addresses(self, ports: Sequence[Listen]) -> Addresses:
        addresses = {
            (listen.inside or (_LOOPBACK if listen.local else self._host), listen.port) for listen in ports
        }
        if self._host in _ALL_ADDRESSES:
            addresses -= {(_LOOPBACK, port) for host, port in addresses if host == self._host}
        return addresses

    def _check(self, service: str, addresses: Addresses) -> None:
        """Raises RouteError if the gateway or another service uses one of these ports. The message does not
        name the other service, which may belong to another organization."""
        ports = {port_key(*at) for at in addresses}
        if self._gateway is not None and self._port in ports:
            raise RouteError(
                f"port {self._port} is the one on which all services are reached by name "
                f"(setting gateway_port): choose another one"
            )
        if (port := self._shared.https_port) and port in ports:
            raise RouteError(f"port {port} is the one for HTTPS (setting https_port): choose another one")
        for other, held in self._listening.items():
            if other == service:
                continue
            for host, port in held:
                if port_key(host, port) in ports:
                    raise RouteError(
                        f"Choose another external_port: port {port} is in use by another service"
                    )

    async def _open(self, addresses: Addresses) -> Servers:
        """Listens on all of these addresses, or on none if one fails."""
        servers: Servers = {}
        with ExitStack() as undo:
            for host, port in sorted(addresses):
                listening = self._bind(host, port, "choose another one, or stop that program")
                servers[host, port] = await _start_server(listening, self._protocol_for(port_key(host, port)))
                undo.callback(servers[host, port].close)
            undo.pop_all()
        return servers

    async def _open_again(self, addresses: Addresses, current_servers: Servers) -> None:
        current_servers.update(await self._open(addresses))

    def _bind(self, host: str, port: int, way_out: str) -> socket.socket:
        return self._inherited.pop((host, port), None) or bind(host, port, way_out=way_out)

    def _client_connection(self) -> ClientConnection:
        return ClientConnection(self._shared, self._table.host, self._port)

    def _secure_connection(
        self, names: Sequence[str], address: str, speaks_http2: bool
    ) -> TlsClient | Http2Connection:
        make = Http2Connection if speaks_http2 else TlsClient
        return make(self._shared, self._table.host, self._shared.https_port, names, address)

    def _relayed_connection(self, origin: SecureOrigin, port: int) -> TlsClient:
        return TlsClient(self._shared, self._table.host, port, origin.names, origin.address, is_relayed=True)

    def _protocol_for(self, key: Port) -> Callable[[], asyncio.Protocol]:
        """Returns a protocol factory for an external port. The factory chooses between HTTP and TCP for each
        connection, by the current routes of the port."""

        def protocol() -> asyncio.Protocol:
            port = key if isinstance(key, int) else int(key.rpartition(":")[2])
            if self._table.port(key) is not None:
                return ClientConnection(self._shared, lambda _: self._table.port(key), port)
            return Caller(self._shared, lambda: self._table.tcp(key), port)

        return protocol


async def _start_server(listening_socket: Any, protocol: Callable[[], asyncio.Protocol]) -> asyncio.Server:
    with ExitStack() as undo:
        undo.callback(listening_socket.close)
        server = await asyncio.get_running_loop().create_server(protocol, sock=listening_socket, backlog=2048)
        undo.pop_all()
    return server
