"""The database servers of engines without images."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Protocol

from windlass.engines.workload import Artifact


class Servers(Protocol):
    """Database servers of an engine without images."""

    def obstacle(self, type: str) -> str:
        """Returns why this type of server is not supported at all; empty if it is supported."""
        ...

    async def artifact(self, type: str, version: str, service: str) -> Artifact: ...

    def ready(self, type: str) -> tuple[str, ...]:
        """Returns the readiness probe command, which logs in and runs a query."""
        ...

    async def discard(self, service: str) -> None: ...

    async def services(self) -> Collection[str]: ...

    async def sweep(self, deleted_services: Collection[str]) -> None: ...

    async def set_aside(self, service: str, destination: Path) -> None: ...

    async def put_back(self, service: str, source: Path) -> None: ...


class NoServers:
    """A placeholder for engines with images, whose databases run from images."""

    def obstacle(self, type: str) -> str:
        return ""

    async def artifact(self, type: str, version: str, service: str) -> Artifact:
        raise NotImplementedError("databases run from images")

    def ready(self, type: str) -> tuple[str, ...]:
        raise NotImplementedError("databases run from images")

    async def discard(self, service: str) -> None:
        """Does nothing."""

    async def services(self) -> Collection[str]:
        return ()

    async def sweep(self, deleted_services: Collection[str]) -> None:
        """Does nothing."""

    async def set_aside(self, service: str, destination: Path) -> None:
        """Does nothing."""

    async def put_back(self, service: str, source: Path) -> None:
        """Does nothing."""
