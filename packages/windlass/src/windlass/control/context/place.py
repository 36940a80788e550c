"""A place where services run, and the protocol of the connector that opens places."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from msgspec import Struct

from windlass.base.metrics import Metric
from windlass.builders.builder import Builder
from windlass.engines.engine import UNKNOWN_LIMITS, Engine, EngineLimits
from windlass.engines.provider import RemoteEngine
from windlass.engines.registries import BuildRegistry
from windlass.engines.servers import Servers
from windlass.gateway.messages import ServiceTraffic, ServiceUses
from windlass.routers.router import Router
from windlass.store import Surroundings

NOT_CONNECTED: Final = (
    "Connect the cluster to an engine first (its field engine), or use an environment on another cluster: "
    "nothing reaches this one"
)


class HttpRouter(Router, Protocol):
    """A router that serves all HTTP routes on one port, by host name."""

    @property
    def port(self) -> int: ...

    async def metrics(self) -> Sequence[Metric]:
        """Returns request metrics of services, including those of other router processes. Never raises."""
        ...

    async def service_traffic(self) -> Sequence[ServiceTraffic]:
        """Returns the request counts of services, including those of other router processes. Raises
        RouteError."""
        ...

    async def service_uses(self) -> ServiceUses:
        """Returns the same, and since when the requests were counted. Raises RouteError."""
        ...

    def hear_wakes(self, hear: Callable[[Sequence[str]], None]) -> None:
        """Sets what is called with sleeping services that have requests, again and again while these
        wait."""
        ...

    async def keep(self, *, stays: bool) -> None:
        """Sets whether programs of services run or may be started. If `stays` is true, the router keeps this
        server's ports reserved even after the server has ended, so that the programs cannot bind them."""
        ...

    async def retire(self, timeout: float) -> None:
        """Stops accepting connections. Stops when all requests in progress have finished, or after `timeout`
        seconds."""
        ...


class EngineAccess(Struct, frozen=True, kw_only=True):
    """The engine that is configured for a cluster, with the address and credentials to connect to it."""

    cluster: str
    org: str
    name: str
    engine: str
    """The configured engine; empty if the cluster has none."""
    is_elsewhere: bool = False
    """Indicates whether the engine is at another address."""
    address: str = ""
    ca_certificate: str = ""
    certificate: str = ""
    key: str = ""
    config: str = ""
    """Address and credentials as one text, instead of the fields above."""
    registry: BuildRegistry | None = None
    """The organization's registry for images that are built for the cluster."""
    allow_from: tuple[str, ...] = ()
    """Namespaces and networks from which services accept connections, for engines that refuse others."""
    router_port: int = 0
    engine_id: str = ""
    """The id of the engine that the cluster was connected to first. An engine with another id is not
    trusted."""
    place: str = ""
    """The place of the server that runs the engine; empty for a remote engine."""
    surroundings: Surroundings | None = None
    """The facts about the server's machine, if the engine belongs to another server."""

    @property
    def remote(self) -> RemoteEngine:
        return RemoteEngine(
            cluster=self.cluster,
            name=self.name,
            address=self.address,
            ca_certificate=self.ca_certificate,
            certificate=self.certificate,
            key=self.key,
            config=self.config,
            engine_id=self.engine_id,
            registry=self.registry,
            allow_from=self.allow_from,
        )

    @property
    def door(self) -> str:
        """The key of the cluster's router. A change of the port leads to a new router; the former router
        keeps running for a while."""
        return f"{self.cluster}:{self.router_port}"


class Place(Struct, frozen=True, kw_only=True):
    """An engine with the builder, router and database servers that belong to it."""

    id: str
    """The id of the cluster; `local` for the machine of this server."""
    engine: Engine
    builder: Builder
    router: HttpRouter
    servers: Servers
    public_host: str
    """The host name or address at which public ports are reached."""
    is_connected: bool = True
    """Indicates whether the cluster has an engine. Without an engine, nothing can be deployed and nothing
    exists there."""
    reconnect: Callable[[EngineAccess], Awaitable[None]] | None = None
    """Switches to another address or other credentials; None for the machines of servers."""
    machine: str = ""
    """The setting `place` of the server that runs the engine; empty for a remote engine."""
    elsewhere: Surroundings | None = None
    """The facts about the machine of another server, if that server runs the place. The engine, builder,
    router and database servers in this object then belong to this server, and have no data of the place's
    services."""

    @property
    def domain(self) -> str:
        """The domain of service host names; empty for the domain in the settings."""
        return "" if self.elsewhere is None else self.elsewhere.domain

    @property
    def takes(self) -> str:
        """The kind of artifact that the engine runs; empty if the kind is unknown."""
        return self.engine.takes if self.elsewhere is None else self.elsewhere.takes

    @property
    def limits(self) -> EngineLimits:
        return self.engine.limits if self.elsewhere is None else UNKNOWN_LIMITS

    @property
    def http_port(self) -> int:
        return self.router.port if self.elsewhere is None else self.elsewhere.port

    @property
    def refusal(self) -> str:
        """The reason why deployments to the place are refused; empty if they are possible."""
        return "" if self.is_connected else NOT_CONNECTED


class Connector(Protocol):
    """Connects to engines at other addresses; see `install.connecting`."""

    def place(self, access: EngineAccess, local: Place) -> Place:
        """Creates the place of a cluster, with the router of the local place. Does not connect yet."""
        ...

    def router(self, access: EngineAccess) -> HttpRouter:
        """Creates the router of a cluster that has its own port."""
        ...

    async def check_port(self, access: EngineAccess, local: Place) -> None:
        """Raises Invalid if the cluster's router cannot listen on its port."""
        ...

    async def identity(self, access: EngineAccess) -> str:
        """Connects to the engine and returns its id. Raises Invalid with the problem and its remedy."""
        ...
