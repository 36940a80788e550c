"""The interface of routers. A router gives public ports an address, and spreads connections over
instances."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from enum import StrEnum
from typing import Literal, Protocol

from msgspec import Struct


class RouteError(Exception):
    """Raised if an address is not available. The message is for the person who deployed."""


class Endpoint(Struct, frozen=True):
    """The address where one instance answers."""

    address: str
    port: int
    network: str = ""
    """The holder of the network in which the address is; empty: it is reached from this machine."""


class Listen(Struct, frozen=True):
    """A TCP port of this machine, or of another network, that is to be listened on."""

    port: int
    local: bool = False
    """True to listen on loopback only, whatever address public ports use."""
    inside: str = ""
    """An address in another network, as `network/address`."""


class Absence(StrEnum):
    """Why no instance serves a route, for the page that is shown then."""

    UNREADY = "unready"
    """The service should run, but no instance is ready."""
    NONE_WANTED = "none wanted"
    """The service is scaled to 0 instances."""
    FILES_MISSING = "files missing"
    """The service is a static site whose files are missing, as after a restore of a backup."""
    FIRST = "first"
    """The service is being deployed for the first time."""
    DEPLOYING = "deploying"
    FAILED = "failed"
    """The last deployment of the service failed, and no earlier version serves."""
    STOPPED = "stopped"
    UNDEPLOYED = "undeployed"


class ServedElsewhere(Struct, frozen=True):
    """The machine that serves a route at its own gateway."""

    machine: str
    """The name of the machine."""
    url: str
    """The address there; empty if that is not known."""


class Route(Struct, frozen=True, kw_only=True):
    """One public port of one service."""

    service: str
    port: str
    """The port's name."""
    title: str
    """The display name of the service, on pages."""
    org: str = ""
    """The organization of the service, for the access log."""
    kind: Literal["http", "tcp"]
    """Keyed by host name on the gateway, or all that arrives at `external`."""
    hosts: tuple[str, ...] = ()
    """Host names in lower case, without port. A name that begins with `*.` matches every name with one
    more label."""
    held: int = 0
    """The number of the reservation of `hosts`. All of a host belongs to the service with the greatest."""
    path: str = "/"
    """The path prefix of the route; the longest matching prefix of a host is used."""
    rewrite: str | None = None
    """The replacement of `path` on the way to the instance; None leaves it."""
    external: int | None = None
    """TCP port to listen on. An http route with one is reached there whatever the host name, too."""
    inside: str = ""
    """The address of `external` in another network, as in `Listen`."""
    endpoints: tuple[Endpoint, ...] = ()
    site: str = ""
    """The folder of a release of a static site, which the router serves by itself, without endpoints."""
    absence: Absence = Absence.UNREADY
    elsewhere: ServedElsewhere | None = None
    """The machine that serves the route, instead of endpoints, if it is another one."""


IsKnown = Callable[[str], Awaitable[bool]]
"""Takes the name of a router; returns true if a cluster has this router."""


class Router(Protocol):
    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def reserve(self, service: str, ports: Sequence[Listen]) -> None:
        """Listens on these (and no other) ports for this service from now on. Raises RouteError naming a port
        and its holder; then nothing has changed."""
        ...

    async def set(self, service: str, routes: Sequence[Route]) -> None:
        """Replaces the routes of this service. Requests in progress stay with their instances."""
        ...

    async def drain(self, endpoints: Sequence[Endpoint], patience: float) -> None:
        """Returns when nothing is in progress to these endpoints any more, or after `patience` seconds."""
        ...

    async def forget(self, service: str) -> None: ...

    async def complete(self) -> None:
        """Announces that the routes of all services are set. Until then, an unknown host may belong to a
        service."""
        ...

    async def services(self) -> Collection[str]:
        """Returns the services that have ports or routes."""
        ...

    async def close_others(self, is_known: IsKnown, patience: float) -> None:
        """Closes routers that were opened beside this one, for clusters that are not known."""
        ...
