"""Messages from a server to its gateway, and from a gateway to its successor."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, msgpack

from windlass.routers.builtin.shared_state import ClientWait
from windlass.routers.router import Endpoint, Listen, Route, RouteError


class Open(Struct, frozen=True, tag=True):
    """A door is a router with one port for HTTP by host name: one for this machine, one for some clusters."""

    door: str
    host: str
    port: int
    trusted: tuple[str, ...] = ()
    """Addresses of proxies, which may use all connections."""
    access_log: str = ""
    """Absolute path of the file of its access log; empty is none."""


def is_same_place(opened: Open, wanted: Open) -> bool:
    return opened.host == wanted.host and wanted.port in {opened.port, 0}


def refuse_another_place(held: Open | None, wanted: Open) -> None:
    """Raises RouteError if another server has this door open at another address: two servers with different
    settings would move it back and forth forever."""
    if held is not None and not is_same_place(held, wanted):
        raise RouteError(
            f"set gateway_port to {held.port} and gateway_host to {held.host}, or data_dir to a folder of "
            "its own: another server uses this data directory, and has its gateway there"
        )


class Reserve(Struct, frozen=True, tag=True):
    door: str
    service: str
    ports: tuple[Listen, ...]


class SetRoutes(Struct, frozen=True, tag=True):
    door: str
    service: str
    routes: tuple[Route, ...]


class Forget(Struct, frozen=True, tag=True):
    door: str
    service: str


class Retire(Struct, frozen=True, tag=True):
    """Closes a door and all its ports. Requests in progress may continue for `patience` seconds."""

    door: str
    patience: float


class Complete(Struct, frozen=True, tag=True):
    """Announces that the routes of all services of all doors are set."""


class Keep(Struct, frozen=True, tag=True):
    """Sets whether the gateway stays without a server and without routes, to hold the ports of
    servers: services may be running that are not reached from outside."""

    stays: bool


class DrainEndpoints(Struct, frozen=True, tag=True):
    door: str
    endpoints: tuple[Endpoint, ...]
    patience: float


class Ask(Struct, frozen=True, tag=True):
    """Asks for the state of the gateway."""


class AskTraffic(Struct, frozen=True, tag=True):
    """Asks for the requests of services."""


Change = Open | Reserve | SetRoutes | Forget | Retire | Complete | Keep
"""Calls that are stored in the journal."""
Call = Change | DrainEndpoints | Ask | AskTraffic


class GatewayRequest(Struct, frozen=True):
    number: int
    call: Call


class ServiceTraffic(Struct, frozen=True, array_like=True):
    """The requests to a service since the gateway started."""

    service: str
    requests: int
    """Requests and TCP connections so far."""
    active: int
    """Requests and connections in progress."""
    answers: tuple[int, ...]
    """Requests that ended, by the first digit of the status; 0 for those whose client left before."""
    buckets: tuple[int, ...]
    """The latency histogram of the requests; see `windlass.routers.builtin.traffic`."""
    seconds: float
    """The sum of their times."""


class GatewayState(Struct, frozen=True, kw_only=True):
    build: str
    """A fingerprint of the code that the gateway runs."""
    process: int
    connections: int
    port: int = 0
    """The port of the door that was opened."""
    services: frozenset[str] = frozenset()
    """The services whose routes that door has."""
    doors: frozenset[str] = frozenset()
    """All doors that the gateway has to open."""
    held: Mapping[str, Open] = {}
    """The doors that other servers have open, and where; only in the reply to Ask."""
    traffic: tuple[ServiceTraffic, ...] = ()
    """Traffic of services with requests, the first service first; only in the reply to AskTraffic."""
    dropped_lines: int = 0
    """Lines of access logs that could not be written."""


class GatewayReply(Struct, frozen=True):
    number: int
    error: str = ""
    """The message of a RouteError."""
    state: GatewayState | None = None


# From a gateway to its successor, each with file descriptors


class ListeningSockets(Struct, frozen=True, tag=True):
    """Listening sockets: a door, an address and a port for each."""

    places: tuple[tuple[str, str, int], ...]


class SocketsEnd(Struct, frozen=True, tag=True):
    """Follows the last listening socket."""


class ClientFile(Struct, frozen=True, tag=True):
    """The idle connection of a client."""

    door: str
    port: int
    waited: ClientWait = ClientWait()


class DrainEnd(Struct, frozen=True, tag=True):
    number: int


class SuccessorServes(Struct, frozen=True, tag=True):
    """The successor accepts connections from now on."""


class ElderDrain(Struct, frozen=True, tag=True):
    number: int
    endpoints: tuple[Endpoint, ...]
    patience: float


FromElder = ListeningSockets | SocketsEnd | ClientFile | DrainEnd
FromSuccessor = SuccessorServes | ElderDrain

# Between a server and its gateway about the sockets of the API, with file descriptors


class AskSockets(Struct, frozen=True, tag=True):
    """Asks for the sockets of a server that listened here before."""

    host: str
    port: int
    listens: bool
    """True if the caller is about to listen there: sockets at other addresses with this port are closed."""


class KeepSockets(Struct, frozen=True, tag=True):
    """Gives copies of the sockets at which a server accepts from now on."""

    places: tuple[tuple[str, int], ...]


class KeptSockets(Struct, frozen=True, tag=True):
    """The sockets that were asked for, or none; or the process that accepts at them."""

    places: tuple[tuple[str, int], ...] = ()
    process: int = 0


FromServer = AskSockets | KeepSockets

encode = msgpack.encode
