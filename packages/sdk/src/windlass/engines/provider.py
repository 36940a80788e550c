"""Providers of engines. Each package with an engine registers its provider as an entry point of the group
`windlass.engines`.

A provider handles everything about an engine except running services: whether the setting `auto` chooses it,
the checks of `windlass doctor`, and connections to remote engines.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from msgspec import Struct

from windlass.base.addresses import Reach
from windlass.base.bounded import BoundedCalls
from windlass.base.clock import Clock
from windlass.builders.builder import Builder
from windlass.builders.publisher import OpenPublisher
from windlass.engines.engine import Engine
from windlass.engines.findings import Finding
from windlass.engines.registries import BuildRegistry
from windlass.engines.servers import Servers

PROVIDERS_GROUP = "windlass.engines"
"""Name of the entry point group."""


class Server(Struct, frozen=True, kw_only=True):
    """Values that a server passes to an engine when opening it."""

    folder: Path
    """The server's data directory, in which an engine has its own folders."""
    clock: Clock
    installation: str
    """Id that distinguishes this installation's objects on a shared engine."""
    calls: BoundedCalls
    """Runs functions that read files of commits, with resource limits."""
    open_publisher: OpenPublisher | None = None
    """Opens a builder for engines that do not build; None if no package has one."""


class OpenedEngine(Struct, frozen=True, kw_only=True):
    """An open engine, with its builder and database servers."""

    engine: Engine
    builder: Builder
    servers: Servers
    reconnect: Callable[[RemoteEngine], Awaitable[None]] | None = None
    """Switches a remote engine to another address or other credentials; None for a local engine."""


class Availability(Struct, frozen=True):
    """Whether an engine can be used on this machine, and the reason, such as `Docker answers at …`."""

    is_there: bool
    why: str


class RemoteEngine(Struct, frozen=True, kw_only=True):
    """The address and credentials of a cluster's remote engine."""

    cluster: str
    name: str
    """Name of the cluster, for messages."""
    address: str
    ca_certificate: str
    certificate: str
    key: str
    config: str = ""
    """Address and credentials as one text, for engines that have a usual form of it, such as a kubeconfig."""
    engine_id: str = ""
    """Id of the engine to which the cluster was connected; other engines are rejected. Empty: any engine is
    accepted."""
    registry: BuildRegistry | None = None
    """The organization's registry for images that are built for the cluster."""
    allow_from: tuple[str, ...] = ()
    """Namespaces and networks from which services accept connections, for engines that refuse others."""


class EngineReport(Struct, frozen=True, kw_only=True):
    """The state of a remote engine."""

    title: str
    """Product and version of the engine."""
    ahead: float
    """Seconds by which the engine's clock is ahead of this server's clock."""
    instances: dict[str, int]
    """Number of running instances by service."""
    certificate_end: float
    """Expiry time of the engine's certificate, in seconds since 1970."""


class StartReport(Struct, frozen=True):
    """Information about an engine that the server logs when it starts."""

    warnings: Sequence[str] = ()
    protection: Sequence[str] = ()
    """Isolation measures for each service, such as `its own user`."""


class SharedResource(Struct, frozen=True):
    """A resource of the machine that services of all organizations share without a limit."""

    what: str
    """The resource, and how one service can harm others through it."""
    advice: str


class EngineProvider(Protocol):
    """A kind of engine. The arguments `settings` have the type `settings_type`."""

    name: str
    """Value of the setting `engine` that selects this engine."""
    rank: int
    """Priority: `auto` chooses the available engine with the highest rank."""
    is_of_server: bool
    """Whether the engine runs on a server's machine, for that server only."""

    @property
    def takes(self) -> Literal["native", "image"]:
        """The kind of artifact that the engine runs."""
        ...

    @property
    def settings_type(self) -> type[Struct]:
        """Type of the engine's settings. Its fields have the names and types of the server's settings."""
        ...

    async def presence(self, settings: Any) -> Availability:
        """Returns whether the engine can be used here. Does not import modules that only an open engine
        needs."""
        ...

    async def open(self, settings: Any, server: Server) -> OpenedEngine:
        """Creates the engine without connecting. Raises BadSetting for invalid settings."""
        ...

    def folders(self, data: Path) -> Sequence[Path]:
        """Returns the folders of a data directory in which the engine records removed generations."""
        ...

    async def start_report(self, settings: Any) -> StartReport: ...

    def diagnose(self, settings: Any) -> AsyncIterator[Finding]:
        """Checks the machine for an engine that is in use, for `windlass doctor`. Does not change
        anything."""
        ...

    async def diagnose_presence(self, settings: Any, *, is_used: bool) -> Finding | None:
        """Reports whether the engine answers on this machine, even if it is not in use; None if there is
        nothing to report."""
        ...

    async def shared_resource(self, settings: Any) -> SharedResource | None:
        """Returns a resource with which one organization can stop the services of another; None if there is
        none."""
        ...

    async def server_host(self, settings: Any) -> str:
        """Returns the host name under which instances reach the server's machine; see
        `Engine.server_host`."""
        ...

    def service_of(self, pid: int, data: Path) -> str:
        """Returns the service to which a local process belongs; empty if it belongs to no service."""
        ...


class RemoteProvider(EngineProvider, Protocol):
    """A kind of engine that can be remote."""

    word: str
    """Value of a cluster's field `engine` that selects this engine."""

    def connect(
        self, remote: RemoteEngine, allowed_addresses: Reach, settings: Any, server: Server, folder: Path
    ) -> OpenedEngine:
        """Creates a cluster's engine without connecting. `folder`: the folder for its files.
        `allowed_addresses`: the addresses that may be contacted."""
        ...

    async def identity(self, remote: RemoteEngine, allowed_addresses: Reach) -> str:
        """Connects to the engine and returns its id. Raises Invalid with the problem and the remedy."""
        ...

    async def report(self, remote: RemoteEngine, allowed_addresses: Reach, installation: str) -> EngineReport:
        """Returns the state of the engine and the number of an installation's instances. Raises
        EngineError."""
        ...
