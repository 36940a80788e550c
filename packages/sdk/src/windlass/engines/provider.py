"""How a server gets an engine: each package that has one names its provider as an entry point of the group
`windlass.engines`.

A provider is asked by everything that concerns an engine beyond its verbs: whether `auto` takes it, what
`windlass doctor` says about it, and how one at another address is connected.
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
from windlass.engines.engine import Engine
from windlass.engines.findings import Finding
from windlass.engines.servers import Servers

PROVIDERS = "windlass.engines"
"""The group of entry points."""


class Server(Struct, frozen=True, kw_only=True):
    """The arguments that a server passes to an engine when it opens it."""

    folder: Path
    """The data directory. An engine keeps its files in folders of its own there."""
    clock: Clock
    installation: str
    """Distinguishes objects of this installation from those of another one on the same engine."""
    calls: BoundedCalls
    """The functions that read files of commits."""


class OpenedEngine(Struct, frozen=True, kw_only=True):
    """An engine, with its builder and its database servers."""

    engine: Engine
    builder: Builder
    servers: Servers
    reconnect: Callable[[RemoteEngine], Awaitable[None]] | None = None
    """Switches to another address or other credentials, if it is a remote engine."""


class Availability(Struct, frozen=True):
    """Tells if an engine can be used on this machine, and why, such as `Docker answers at …`."""

    is_there: bool
    why: str


class RemoteEngine(Struct, frozen=True, kw_only=True):
    """An engine at another address, as a cluster names it."""

    cluster: str
    name: str
    """The name of the cluster, for messages."""
    address: str
    ca_certificate: str
    certificate: str
    key: str
    engine_id: str = ""
    """The id of the engine that the cluster was connected to: no other engine is trusted. Empty for any."""


class EngineReport(Struct, frozen=True, kw_only=True):
    """The answers of an engine at another address."""

    title: str
    """The product and version of the engine."""
    ahead: float
    """Seconds by which its clock is ahead of this one."""
    instances: dict[str, int]
    """Running instances, by service."""
    certificate_end: float
    """The end of the certificate that it shows, in seconds since 1970."""


class StartReport(Struct, frozen=True):
    """Information about an engine that the server logs when it starts."""

    warnings: Sequence[str] = ()
    protection: Sequence[str] = ()
    """The isolation of each service, such as `its own user`."""


class SharedResource(Struct, frozen=True):
    """A resource of the machine that services of all organizations share without a limit."""

    what: str
    """The shared resource, and what one service can do to others with it."""
    advice: str


class EngineProvider(Protocol):
    """One kind of engine. `settings` of its methods are values of its `settings_type`."""

    name: str
    """The word of the setting `engine`."""
    rank: int
    """The rank: `auto` chooses the available engine with the highest rank."""
    is_of_server: bool
    """True if it runs on the machine of a server, for that server alone."""

    @property
    def takes(self) -> Literal["native", "image"]:
        """The kind of artifact that it runs."""
        ...

    @property
    def settings_type(self) -> type[Struct]:
        """The settings that it reads. Names and types are those of the settings of the server."""
        ...

    async def presence(self, settings: Any) -> Availability:
        """Returns whether the engine can be used here. Loads nothing that only an open engine needs."""
        ...

    async def open(self, settings: Any, server: Server) -> OpenedEngine:
        """Creates the engine without connecting. Raises BadSetting if the settings are wrong."""
        ...

    def folders(self, data: Path) -> Sequence[Path]:
        """Returns the folders of a data directory in which it records removed generations."""
        ...

    async def start_report(self, settings: Any) -> StartReport: ...

    def diagnose(self, settings: Any) -> AsyncIterator[Finding]:
        """Checks the machine for an engine that is in use, for `windlass doctor`. Changes nothing."""
        ...

    async def diagnose_presence(self, settings: Any, *, is_used: bool) -> Finding | None:
        """Reports what answers on this machine, in use or not; None if there is nothing to report."""
        ...

    async def shared_resource(self, settings: Any) -> SharedResource | None:
        """Returns a resource with which one organization can stop services of another; None if there is no
        such."""
        ...

    async def server_host(self, settings: Any) -> str:
        """Returns the name by which instances find the machine of the server; see `Engine.server_host`."""
        ...

    def service_of(self, pid: int, data: Path) -> str:
        """Returns the service to which a process of this machine belongs; empty if to none."""
        ...


class RemoteProvider(EngineProvider, Protocol):
    """An engine that can be at another address."""

    word: str
    """The word of the field `engine` of a cluster."""

    def connect(
        self, remote: RemoteEngine, reach: Reach, settings: Any, server: Server, folder: Path
    ) -> OpenedEngine:
        """Creates the engine of a cluster without connecting; its files are stored in `folder`. `reach`:
        the allowed addresses."""
        ...

    async def identity(self, remote: RemoteEngine, reach: Reach) -> str:
        """Connects, and returns the id of the engine; raises Invalid with the problem and the remedy."""
        ...

    async def report(self, remote: RemoteEngine, reach: Reach, installation: str) -> EngineReport:
        """Asks the engine how it is, and what of an installation runs there. Raises EngineError."""
        ...
