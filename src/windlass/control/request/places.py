"""Places where services run: an engine, and the builder, router and database servers that go with it.

An environment names its cluster, and a cluster names its place. Everything that starts, builds, routes or
erases something of a service asks the place of that service.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct

from windlass.builders.builder import Builder
from windlass.core.deploy.workload import Artifact
from windlass.engines.engine import Engine
from windlass.routers.router import Router
from windlass.store import Reads

LOCAL: Final = "local"
"""The id of the place that every server has: the engine of its own machine."""


class Servers(Protocol):
    """Where database servers come from, on engines without images; see `builders.databases`."""

    async def artifact(self, type: str, version: str, service: str) -> Artifact: ...

    def ready(self, type: str) -> tuple[str, ...]:
        """The command of a probe that logs in and asks."""
        ...

    async def discard(self, service: str) -> None: ...

    async def services(self) -> Collection[str]: ...

    async def sweep(self, erase: Collection[str]) -> None: ...

    async def set_aside(self, service: str, into: Path) -> None: ...

    async def put_back(self, service: str, out: Path) -> None: ...


class Gateway(Router, Protocol):
    """A router with one port for HTTP by host name."""

    @property
    def port(self) -> int: ...


class Place(Struct, frozen=True, kw_only=True):
    """An engine with the parts that serve it."""

    id: str
    engine: Engine
    builder: Builder
    router: Gateway
    servers: Servers
    public_host: str
    """The host under which public ports are reached."""


class Places:
    """All places that this server reaches."""

    def __init__(self, local: Place) -> None:
        self.local = local

    def all(self) -> Sequence[Place]:
        return [self.local]

    async def of(self, service: str) -> Place:
        """Returns the place of a service, also of one that was deleted a moment ago."""
        return self.local

    async def of_environment(self, source: Reads, environment: str) -> Place:
        """Returns the place where services of an environment are deployed."""
        return self.local
