"""A place where services run, and what connects to one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from msgspec import Struct

from windlass.base.metrics import Metric
from windlass.builders.builder import Builder
from windlass.engines.engine import UNKNOWN, Engine, EngineLimits
from windlass.engines.provider import RemoteEngine
from windlass.engines.servers import Servers
from windlass.gateway.messages import ServiceTraffic
from windlass.routers.router import Router
from windlass.store import Surroundings

NOT_CONNECTED: Final = (
    "Connect the cluster to an engine first (its field engine), or use an environment on another cluster: "
    "nothing reaches this one"
)


class HttpRouter(Router, Protocol):
    """A router with one port for HTTP by host name."""

    @property
    def port(self) -> int: ...

    async def metrics(self) -> Sequence[Metric]:
        """Returns metrics of the requests to services, also of routers beside this one. Never raises."""
        ...

    async def service_traffic(self) -> Sequence[ServiceTraffic]:
        """Returns the requests of services so far, also of routers beside this one. Raises RouteError."""
        ...

    async def keep(self, *, stays: bool) -> None:
        """Announces whether programs of services run or may be started. While they do, ports of this server
        are held from them, also when it has ended."""
        ...

    async def retire(self, patience: float) -> None:
        """Takes no more connections. Stops when all in progress has finished, or after `patience` seconds."""
        ...


class EngineAccess(Struct, frozen=True, kw_only=True):
    """The engine that a cluster names, and what is needed to connect to it."""

    cluster: str
    org: str
    name: str
    engine: str
    """The word of the engine; empty if the cluster names none."""
    is_elsewhere: bool = False
    """True for an engine at another address."""
    address: str = ""
    ca_certificate: str = ""
    certificate: str = ""
    key: str = ""
    router_port: int = 0
    engine_id: str = ""
    """The id of the engine that the cluster was connected to: no other engine is trusted."""
    place: str = ""
    """The name of the machine, if the engine is that of a server."""
    surroundings: Surroundings | None = None
    """The facts about the machine, if it is that of another server."""

    @property
    def remote(self) -> RemoteEngine:
        return RemoteEngine(
            cluster=self.cluster,
            name=self.name,
            address=self.address,
            ca_certificate=self.ca_certificate,
            certificate=self.certificate,
            key=self.key,
            engine_id=self.engine_id,
        )

    @property
    def door(self) -> str:
        """The name of its router. At another port it is another router; the former one keeps running for a
        while."""
        return f"{self.cluster}:{self.router_port}"


class Place(Struct, frozen=True, kw_only=True):
    """An engine with the parts that serve it."""

    id: str
    """The id of its cluster; `local` for the machine of this server."""
    engine: Engine
    builder: Builder
    router: HttpRouter
    servers: Servers
    public_host: str
    """The host under which public ports are reached."""
    is_connected: bool = True
    """False for a cluster without an engine, where nothing can be deployed."""
    reconnect: Callable[[EngineAccess], Awaitable[None]] | None = None
    """Switches to another address or other credentials; None for the machines of servers."""
    machine: str = ""
    """The name of the machine, if the engine is that of a server: the setting `place` of that server."""
    elsewhere: Surroundings | None = None
    """The facts about the machine of another server. The other parts are those of this server: they have
    nothing of its services."""

    @property
    def domain(self) -> str:
        """The end of host names of services; empty for that of the settings."""
        return "" if self.elsewhere is None else self.elsewhere.domain

    @property
    def takes(self) -> str:
        """The kind of artifact that its engine runs; empty if that is not known here."""
        return self.engine.takes if self.elsewhere is None else self.elsewhere.takes

    @property
    def limits(self) -> EngineLimits:
        return self.engine.limits if self.elsewhere is None else UNKNOWN

    @property
    def http_port(self) -> int:
        return self.router.port if self.elsewhere is None else self.elsewhere.port

    @property
    def refusal(self) -> str:
        """Returns why nothing can be deployed there; empty if deployments are possible."""
        return "" if self.is_connected else NOT_CONNECTED


class Connector(Protocol):
    """Connects to engines at other addresses; see `install.connecting`."""

    def place(self, access: EngineAccess, local: Place) -> Place:
        """Creates the place of a cluster, with the router of the local place. Opens no connection."""
        ...

    def router(self, access: EngineAccess) -> HttpRouter:
        """Creates the router of a cluster with its own port."""
        ...

    async def check_port(self, access: EngineAccess, local: Place) -> None:
        """Raises Invalid if the router of the cluster cannot have its port."""
        ...

    async def identity(self, access: EngineAccess) -> str:
        """Connects, and returns the id of the engine; raises Invalid with the problem and the remedy."""
        ...
