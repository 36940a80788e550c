"""The interface of routers. A router listens on public ports, and distributes connections among instances."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from enum import StrEnum
from typing import Final, Literal, Protocol

from msgspec import Struct

from windlass.routers.rules import NO_RULES, RouteRules


class RouteError(Exception):
    """Raised if an address is not available. The message is for the user who deployed the service."""


class Endpoint(Struct, frozen=True):
    """The address of one instance."""

    address: str
    port: int
    network: str = ""
    """The network namespace of the address (identifies its `NamespaceHolder`); empty for the machine's own
    network."""


class Listen(Struct, frozen=True):
    """A TCP port to listen on, of this machine or of another network."""

    port: int
    local: bool = False
    """Whether to listen on loopback only, instead of the address of public ports."""
    inside: str = ""
    """An address in another network, as `network/address`."""


class Absence(StrEnum):
    """Reason why no instance serves a route; selects the error page."""

    UNREADY = "unready"
    """The service should run, but no instance is ready."""
    NONE_WANTED = "none wanted"
    """The service is scaled to 0 instances."""
    FILES_MISSING = "files missing"
    """The service is a static site whose files are missing, for example after restoring a backup."""
    FIRST = "first"
    """The first deployment of the service is in progress."""
    DEPLOYING = "deploying"
    FAILED = "failed"
    """The last deployment of the service failed, and no earlier version runs."""
    SLEEPING = "sleeping"
    """The service was stopped because it had no requests, or it is being started again. Its requests are
    held."""
    STOPPED = "stopped"
    UNDEPLOYED = "undeployed"


class ServedElsewhere(Struct, frozen=True):
    """The machine that serves a route at its own gateway."""

    machine: str
    """The name of the machine."""
    url: str
    """URL of the service at that machine's gateway; empty if not known."""


class Route(Struct, frozen=True, kw_only=True):
    """One public port of one service."""

    service: str
    port: str
    """The port's name."""
    title: str
    """Display name of the service, for error pages."""
    org: str = ""
    """The organization of the service, for the access log."""
    kind: Literal["http", "tcp"]
    """`http` routes by host name on the gateway port; `tcp` forwards all connections to `external`."""
    hosts: tuple[str, ...] = ()
    """Host names in lower case, without port. A name that begins with `*.` matches every name with one
    additional label."""
    held: int = 0
    """Number of the reservation of `hosts`. A host belongs to the service with the highest number."""
    path: str = "/"
    """Path prefix of the route. The longest matching prefix of a host wins."""
    rewrite: str | None = None
    """Prefix that replaces `path` in the request to the instance; None leaves the path unchanged."""
    external: int | None = None
    """External TCP port of the route. An http route with an external port is reachable there under every host
    name, in addition to its own hosts."""
    inside: str = ""
    """Address of `external` in another network, in the format of `Listen.inside`."""
    endpoints: tuple[Endpoint, ...] = ()
    site: str = ""
    """Release folder of a static site, which the router serves without endpoints."""
    absence: Absence = Absence.UNREADY
    elsewhere: ServedElsewhere | None = None
    """The other machine that serves the route, in place of endpoints."""
    rules: RouteRules = NO_RULES
    speaks_http2: bool = False
    """Whether the endpoints get requests by HTTP/2, as gRPC demands."""
    redirect: bool = True
    """Whether requests by HTTP are redirected to HTTPS, for the hosts that have a certificate."""
    moves_to: str = ""
    """Host name to which all requests are redirected; empty for none."""
    proof: str = ""
    """Secret that the endpoints get with each request, in the header of `PROOF_HEADER`: they then believe the
    addresses that the router forwards. Empty for services, which get no such header."""
    hsts: int = 0
    """Value of `max-age` in Strict-Transport-Security, for answers by HTTPS; 0 for no such header."""


PROOF_HEADER: Final = "X-Windlass-Gateway"


class Certificate(Struct, frozen=True):
    """A certificate with its private key."""

    names: tuple[str, ...]
    """Host names in lower case, IDNA-encoded. A name that begins with `*.` matches every name with one
    additional label."""
    chain: bytes
    """The certificate and its intermediate certificates (PEM), the certificate itself first."""
    key: bytes
    """The private key (PEM), unencrypted."""

    def __repr__(self) -> str:
        return f"Certificate(names={self.names})"  # the key must not appear in a log


class Challenge(Struct, frozen=True):
    """A proof for a certificate authority that a host is served here (ACME, RFC 8555)."""

    host: str
    path: str = ""
    """Path that HTTP requests to the host ask for (http-01), such as `/.well-known/acme-challenge/TOKEN`."""
    answer: bytes = b""
    """The body of the answer to these requests."""
    certificate: Certificate | None = None
    """Certificate for TLS connections that ask for the host with the protocol `acme-tls/1` (tls-alpn-01,
    RFC 8737)."""


CHECK_PREFIX: Final = "check "
"""The beginning of the ids of challenges of no authority, by which a server finds out whether a host leads
here. They never take the place of an authority's challenge for the same host."""

IsKnown = Callable[[str], Awaitable[bool]]
"""Returns whether a cluster uses the router with this name."""


class Router(Protocol):
    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def reserve(self, service: str, ports: Sequence[Listen]) -> None:
        """Makes the router listen on exactly these ports for a service. Raises RouteError with the port and
        the reason on failure; nothing has changed then."""
        ...

    async def set(self, service: str, routes: Sequence[Route]) -> None:
        """Replaces the routes of a service. Requests in progress continue at their instances."""
        ...

    async def drain(self, endpoints: Sequence[Endpoint], timeout: float) -> None:
        """Waits until no requests to these endpoints are in progress. After `timeout` seconds, cuts the
        remaining tunnels and pipes."""
        ...

    async def forget(self, service: str) -> None: ...

    async def complete(self) -> None:
        """Announces that the routes of all services are set. Until then, a request for an unknown host gets
        status 503 instead of 404."""
        ...

    async def services(self) -> Collection[str]:
        """Returns the services that have ports or routes."""
        ...

    async def put_certificate(self, id: str, certificate: Certificate) -> None:
        """Serves a certificate, in place of the one with the same id. Raises RouteError if it is not usable;
        the former certificate is then still served."""
        ...

    async def drop_certificate(self, id: str) -> None: ...

    async def certificates(self) -> Mapping[str, str]:
        """Returns the ids of the served certificates, each with the SHA-256 hash of the certificate itself
        (DER), in hexadecimal digits."""
        ...

    async def put_challenge(self, id: str, challenge: Challenge) -> None:
        """Answers a challenge, in place of the one with the same id."""
        ...

    async def drop_challenge(self, id: str) -> None: ...

    async def challenges(self) -> Mapping[str, int]:
        """Returns the ids of the challenges that are answered, each with the number of its answers."""
        ...

    async def close_others(self, is_known: IsKnown, timeout: float) -> None:
        """Closes routers of other clusters, unless `is_known` confirms them."""
        ...
