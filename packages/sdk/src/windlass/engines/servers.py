"""The database servers of a place, for engines without images."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Protocol

from windlass.engines.workload import Artifact


class Servers(Protocol):
    """Database servers for engines without images."""

    def obstacle(self, type: str) -> str:
        """Returns why there can be no server of this type, whatever is installed; empty if there can."""
        ...

    async def artifact(self, type: str, version: str, service: str) -> Artifact: ...

    def ready(self, type: str) -> tuple[str, ...]:
        """Returns the probe command, which logs in and runs a query."""
        ...

    async def discard(self, service: str) -> None: ...

    async def services(self) -> Collection[str]: ...

    async def sweep(self, erase: Collection[str]) -> None: ...

    async def set_aside(self, service: str, into: Path) -> None: ...

    async def put_back(self, service: str, out: Path) -> None: ...


class NoServers:
    """The database servers of an engine with images: none, because databases run from these."""

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

    async def sweep(self, erase: Collection[str]) -> None:
        """Does nothing."""

    async def set_aside(self, service: str, into: Path) -> None:
        """Does nothing."""

    async def put_back(self, service: str, out: Path) -> None:
        """Does nothing."""
