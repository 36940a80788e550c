"""The routing table: finds the service of a request by host name or external port, and by path. No I/O.

A host or port belongs to one service at a time. The store reserves each of them for one service, so that two
services claim the same host only while it moves between them: the later reservation then wins, in any order
of the claims. Among claims without a reservation, the first wins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Final
from urllib.parse import quote

from windlass.routers.builtin import pages
from windlass.routers.builtin.pages import ErrorPage
from windlass.routers.builtin.peers import Peer
from windlass.routers.builtin.route_rules import CompiledRules
from windlass.routers.builtin.service_memory import ServiceMemory
from windlass.routers.builtin.sticky_sessions import StickySessions
from windlass.routers.builtin.traffic import Traffic
from windlass.routers.router import PROOF_HEADER, Absence, Endpoint, Route
from windlass.routers.rules import NO_RULES

Port = int | str
"""An external port, or a port in another network as `address:port`."""
Key = bytes | Port
"""A host name in lower case, or a port."""

_UNESCAPED_CHARACTERS: Final = "/%:@!$&'()*+,;=-._~"


class Backend:
    """One public port of a service, and the endpoints behind it."""

    __slots__ = (
        "_cut",
        "_only",
        "_put",
        "_turn",
        "added",
        "is_special",
        "moves_to",
        "organization",
        "path",
        "peers",
        "proof",
        "route",
        "rules",
        "site",
        "sleeps",
        "sticky",
        "times",
        "title",
        "traffic",
    )

    def __init__(self, route: Route, peers: Sequence[Peer], traffic: Traffic, memory: ServiceMemory) -> None:
        self.route = route
        self.title = route.title
        self.organization = route.org or route.service
        self.site = route.site
        """The release folder of a static site, which the router serves by itself; empty for other
        services."""
        self.peers = tuple(peers)
        self._only = peers[0] if len(peers) == 1 else None
        self.sleeps = route.absence is Absence.SLEEPING and not peers and route.elsewhere is None
        """Whether requests are held until the service is woken."""
        for peer in peers:
            peer.routes += 1
            if route.kind == "http":
                peer.choose_protocol(speaks_http2=route.speaks_http2)
        self.traffic = traffic
        self.path = _path_prefix(route.path)
        self._put = None if route.rewrite is None else _path_prefix(route.rewrite)
        self._cut = len(self.path)
        self.rules = None if route.rules == NO_RULES else CompiledRules(route.rules, route.title, memory)
        self.times = route.rules.times
        key = route.rules.sticky
        self.sticky = StickySessions(key, self.path, peers) if key and peers else None
        self.moves_to = route.moves_to
        self.is_special = bool(self._put is not None or self.site or self.rules or self.moves_to)
        """Whether the request target is rewritten, a static site is served, or the route has rules or
        redirects to another host."""
        self._turn = 0
        self.proof = f"\r\n{PROOF_HEADER}: {route.proof}".encode() if route.proof else b""
        """A header line for the instances."""
        self.added = b"\r\nStrict-Transport-Security: max-age=%d" % route.hsts if route.hsts else b""
        """Header lines that are added to answers by HTTPS. Each line begins with its line break."""

    def pick(self, tried: Sequence[Peer] = ()) -> Peer | None:
        """Returns the peer with the fewest requests in progress; round-robin among equals. Peers that
        recently refused a connection are chosen only if there is no other peer."""
        if self._only is not None and not tried:
            return self._only
        peers = self.peers
        count = len(peers)
        best: Peer | None = None
        least = turn = 0
        for step in range(count):
            at = (self._turn + step) % count
            peer = peers[at]
            if peer in tried:
                continue
            burden = peer.active + peer.penalty
            if best is None or burden < least:
                best, least, turn = peer, burden, at
        if best is not None:
            self._turn = (turn + 1) % count
        return best

    def pick_for(self, fields: bytes) -> Peer | None:
        """Returns the peer of a request's session if it takes connections, otherwise as `pick`."""
        peer = self.sticky.peer_of(fields) if self.sticky is not None else None
        return peer if peer is not None and not peer.penalty else self.pick()

    def error_page(self) -> ErrorPage:
        """Returns the error page for a request that no instance accepts."""
        if self.peers:
            return pages.not_answering(self.title)
        if self.route.elsewhere is not None:
            return pages.served_elsewhere(self.title, self.route.elsewhere)
        return pages.absent(self.title, self.route.absence)

    def rewritten(self, target: bytes) -> bytes:
        if self._put is None or target == b"*":
            return target
        path = self._put + target[self._cut :]
        return path if path.startswith(b"/") else b"/" + path


class Paths:
    """The backends of one host or port, by path. The longest matching path wins."""

    __slots__ = ("_backends", "only")

    def __init__(self, backends: Sequence[Backend]) -> None:
        self._backends = sorted(backends, key=lambda backend: -len(backend.path))
        self.only = backends[0] if len(backends) == 1 and not backends[0].path else None
        """The only backend, if it serves all paths (the usual case)."""

    def match(self, target: bytes) -> Backend | None:
        if target == b"*":
            target = b"/"
        for backend in self._backends:
            path = backend.path
            if target.startswith(path) and target[len(path) : len(path) + 1] in (b"", b"/", b"?"):
                return backend
        return None


class RoutingTable:
    def __init__(self, peer_at: Callable[[Endpoint], Peer]) -> None:
        self._peer_at = peer_at
        self._backends: dict[str, list[Backend]] = {}
        self._claims: dict[Key, dict[str, list[Backend]]] = {}
        self._memories: dict[str, ServiceMemory] = {}
        self._found: dict[Key, Paths] = {}
        self.traffic: dict[str, Traffic] = {}
        self._timed = False
        self._has_log: dict[str, bool] = {}
        """Whether each service has an access log of its own, so that all its requests are timed."""

    @property
    def services(self) -> Set[str]:
        return self._backends.keys()

    def host(self, name: bytes) -> Paths | None:
        entry = self._found.get(name)
        if entry is None and b"." in name:
            entry = self._found.get(b"*." + name.partition(b".")[2])
        return entry

    def port(self, number: Port) -> Paths | None:
        return self._found.get(number)

    def tcp(self, number: Port) -> Backend | None:
        """Returns the TCP backend of a port, if any."""
        holder = _reserving_backends(self._claims.get(number, {}))
        return next((backend for backend in holder if backend.route.kind == "tcp"), None)

    def sleeps(self, service: str) -> bool:
        return any(backend.sleeps for backend in self._backends.get(service, ()))

    def title(self, service: str) -> str:
        backends = self._backends.get(service)
        return backends[0].title if backends else service

    def time_all(self, timed: bool) -> None:
        """Sets whether every request is timed."""
        self._timed = timed
        for service, traffic in self.traffic.items():
            traffic.time_all(timed or self._has_log[service])

    def put(self, service: str, routes: Sequence[Route]) -> None:
        traffic = self.traffic.setdefault(service, Traffic(timed=self._timed))
        self._has_log[service] = any(route.rules.log is not None for route in routes)
        traffic.time_all(self._timed or self._has_log[service])
        memory = self._memories.setdefault(service, ServiceMemory())
        backends = [
            Backend(route, [self._peer_at(at) for at in route.endpoints], traffic, memory) for route in routes
        ]
        self._claim_keys(service, backends)

    def drop(self, service: str) -> None:
        self._claim_keys(service, [])
        self._backends.pop(service, None)
        self.traffic.pop(service, None)
        self._memories.pop(service, None)
        self._has_log.pop(service, None)

    def _claim_keys(self, service: str, backends: list[Backend]) -> None:
        touched = {key for backend in self._backends.get(service, ()) for key in _routing_keys(backend.route)}
        claimed: dict[Key, list[Backend]] = {}
        for backend in backends:
            for key in _routing_keys(backend.route):
                claimed.setdefault(key, []).append(backend)
        before, self._backends[service] = self._backends.get(service, []), backends
        for key in touched | claimed.keys():
            claims = self._claims.setdefault(key, {})
            if key in claimed:
                claims[service] = claimed[key]
            else:
                claims.pop(service, None)
            self._find(key, claims)
        for backend in before:
            for peer in backend.peers:
                peer.note_unrouted()

    def _find(self, key: Key, claims: dict[str, list[Backend]]) -> None:
        by_path: dict[bytes, Backend] = {}
        for backend in _reserving_backends(claims):
            if backend.route.kind == "http":
                by_path.setdefault(backend.path, backend)
        if by_path:
            self._found[key] = Paths(list(by_path.values()))
        else:
            self._found.pop(key, None)
        if not claims:
            del self._claims[key]


def _reserving_backends(claims: Mapping[str, Sequence[Backend]]) -> Sequence[Backend]:
    """Returns the backends of the service with the latest reservation."""
    latest = max(claims, key=lambda service: max(claim.route.held for claim in claims[service]), default="")
    return claims.get(latest, ())


def _routing_keys(route: Route) -> list[Key]:
    hosts: list[Key] = [host.lower().encode() for host in route.hosts] if route.kind == "http" else []
    return hosts if route.external is None else [*hosts, port_key(route.inside, route.external)]


def port_key(host: str, port: int) -> Port:
    """Returns the routing key of a port. A port of this machine has the same key at all addresses."""
    return f"{host}:{port}" if is_inside(host) else port


def is_inside(host: str) -> bool:
    """Returns whether an address is in another network."""
    return "/" in host


def _path_prefix(path: str) -> bytes:
    """Returns the URL-encoded path without a trailing slash, so that /api matches /api, /api/ and /api/x, but
    not /apix."""
    return quote("/" + path.strip("/") if path.strip("/") else "", safe=_UNESCAPED_CHARACTERS).encode()
