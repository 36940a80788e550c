"""Messages from a server to its gateway, and from a gateway to its successor."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, msgpack

from windlass.routers.builtin.shared_state import ClientWait
from windlass.routers.router import Certificate, Challenge, Endpoint, Listen, Route, RouteError


class Open(Struct, frozen=True, tag=True):
    """Opens a door: a router with one HTTP port, which routes by host name. One door is for this machine;
    further doors are for clusters."""

    door: str
    host: str
    port: int
    trusted: tuple[str, ...] = ()
    """Addresses of trusted proxies. The connection limit per address does not apply to them."""
    access_log: str = ""
    """Absolute path of the door's access log; empty for no log."""
    https_port: int = 0
    """The port for HTTPS; 0 for no HTTPS."""
    proxy_protocol_from: tuple[str, ...] = ()
    """Addresses whose connections begin with a header of the PROXY protocol."""
    public_https_port: int = 0
    """The port that clients use for HTTPS, if it is another one; 0 otherwise."""
    offers_http2: bool = False
    """Whether HTTPS clients may speak HTTP/2."""


def is_same_place(current: Open, request: Open) -> bool:
    """Returns whether a door is open at the wanted address. Its HTTPS port can change in place."""
    return current.host == request.host and request.port in {current.port, 0}


def refuse_another_place(current_request: Open | None, request: Open) -> None:
    """Raises RouteError if another server has opened this door at another address. Otherwise, two servers
    with different settings would move the door back and forth forever."""
    if current_request is not None and not is_same_place(current_request, request):
        raise RouteError(
            f"set gateway_port to {current_request.port} and gateway_host to {current_request.host}, "
            "or data_dir to a folder of its own: another server uses this data directory, "
            "and has its gateway there"
        )
    if current_request is not None and current_request.https_port != request.https_port:
        raise RouteError(
            f"set https_port to {current_request.https_port}, or data_dir to a folder of its own: another "
            "server uses this data directory, and has its gateway there"
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
    """Sets whether the gateway keeps running without servers and routes, to reserve the API ports: services
    that are not reachable from outside may be running."""

    stays: bool


class PutCertificate(Struct, frozen=True, tag=True):
    """Serves a certificate. It is stored sealed in the gateway's folder, and not in the journal."""

    door: str
    id: str
    certificate: Certificate


class DropCertificate(Struct, frozen=True, tag=True):
    door: str
    id: str


class PutChallenge(Struct, frozen=True, tag=True):
    """Answers a challenge of a certificate authority. It is stored as a certificate is."""

    door: str
    id: str
    challenge: Challenge


class DropChallenge(Struct, frozen=True, tag=True):
    door: str
    id: str


class DrainEndpoints(Struct, frozen=True, tag=True):
    door: str
    endpoints: tuple[Endpoint, ...]
    patience: float


class Ask(Struct, frozen=True, tag=True):
    """Requests the gateway's state."""


class AskTraffic(Struct, frozen=True, tag=True):
    """Requests the traffic counters of services."""


class AskCertificates(Struct, frozen=True, tag=True):
    """Requests the certificates and the challenges of a door."""

    door: str


Change = Open | Reserve | SetRoutes | Forget | Retire | Complete | Keep
"""Calls that change the gateway's state. They are stored in the journal."""
Sealed = PutCertificate | DropCertificate | PutChallenge | DropChallenge
"""Calls that change what the gateway stores sealed."""
Call = Change | Sealed | DrainEndpoints | Ask | AskTraffic | AskCertificates


class GatewayRequest(Struct, frozen=True):
    number: int
    call: Call


class ServiceTraffic(Struct, frozen=True, array_like=True):
    """The requests to a service since the gateway started."""

    service: str
    requests: int
    """Total number of requests and TCP connections."""
    active: int
    """Requests and connections in progress."""
    answers: tuple[int, ...]
    """Completed requests, indexed by the first digit of the status. Index 0: the client disconnected before
    an answer."""
    buckets: tuple[int, ...]
    """Latency histogram of the requests; see `windlass.routers.builtin.traffic`."""
    seconds: float
    """Sum of the request durations."""
    idle: float = -1.0
    """Seconds since the service was last used; -1 if it was not used since the gateway started."""


class ServiceUses(Struct, frozen=True):
    """The traffic of the services of a gateway."""

    age: float
    """Seconds since the gateway started."""
    traffic: Mapping[str, ServiceTraffic]
    of_elders: frozenset[str] = frozenset()
    """Services with connections that have stayed with an earlier gateway."""


class GatewayState(Struct, frozen=True, kw_only=True):
    build: str
    """Fingerprint of the gateway's code."""
    process: int
    connections: int
    port: int = 0
    """Port of the opened door; only in the reply to Open."""
    services: frozenset[str] = frozenset()
    """Services whose routes the opened door has; only in the reply to Open."""
    doors: frozenset[str] = frozenset()
    """Names of all doors of the gateway."""
    held: Mapping[str, Open] = {}
    """The doors that other servers have opened, with their addresses; only in the reply to Ask."""
    traffic: tuple[ServiceTraffic, ...] = ()
    """Traffic of each service that had requests, in the order of their first route; only in the reply to
    AskTraffic."""
    age: float = 0.0
    """Seconds since the gateway started."""
    of_elders: frozenset[str] = frozenset()
    """Services with connections that have stayed with an earlier gateway; only in the reply to AskTraffic."""
    dropped_lines: int = 0
    """Number of access log lines that could not be written."""
    certificates: Mapping[str, str] = {}
    """Ids of the certificates of a door, each with the hash of the certificate; only in the reply to
    AskCertificates."""
    challenges: Mapping[str, int] = {}
    """Ids of the challenges that a door answers, each with the number of its answers; only in the reply to
    AskCertificates."""


class GatewayReply(Struct, frozen=True):
    number: int
    error: str = ""
    """The message of a RouteError."""
    state: GatewayState | None = None
    wakes: tuple[str, ...] = ()
    """Sleeping services that have requests; only in messages with the number 0, which reply to nothing."""


# From a gateway to its successor, each with file descriptors


class ListeningSockets(Struct, frozen=True, tag=True):
    """Carries listening sockets: the door, address and port of each file descriptor."""

    places: tuple[tuple[str, str, int], ...]


class SocketsEnd(Struct, frozen=True, tag=True):
    """Announces that all listening sockets were sent."""


class ClientFile(Struct, frozen=True, tag=True):
    """Carries the file descriptor of an idle client connection."""

    door: str
    port: int
    waited: ClientWait = ClientWait()


class DrainEnd(Struct, frozen=True, tag=True):
    number: int


class ElderUses(Struct, frozen=True, tag=True):
    """Names services with requests or connections that have stayed with the elder gateway."""

    services: tuple[str, ...]


class SuccessorServes(Struct, frozen=True, tag=True):
    """Announces that the successor accepts connections from now on."""


class ElderDrain(Struct, frozen=True, tag=True):
    number: int
    endpoints: tuple[Endpoint, ...]
    patience: float


FromElder = ListeningSockets | SocketsEnd | ClientFile | DrainEnd | ElderUses
FromSuccessor = SuccessorServes | ElderDrain

# Between a server and its gateway: the sockets of the API, with file descriptors


class AskSockets(Struct, frozen=True, tag=True):
    """Requests the sockets that the gateway has kept from an earlier server at this address."""

    host: str
    port: int
    listens: bool
    """Whether the caller is about to listen at the address. The gateway then closes kept sockets with this
    port at other addresses."""


class KeepSockets(Struct, frozen=True, tag=True):
    """Carries copies of the sockets at which a server accepts from now on."""

    places: tuple[tuple[str, int], ...]
    has_others: bool = False
    """Whether other servers may answer the same requests. Clients are refused while this server is away."""


class KeptSockets(Struct, frozen=True, tag=True):
    """The reply to AskSockets: the kept sockets, if any, or the process id of a server that accepts at the
    address."""

    places: tuple[tuple[str, int], ...] = ()
    process: int = 0


FromServer = AskSockets | KeepSockets

encode = msgpack.encode
