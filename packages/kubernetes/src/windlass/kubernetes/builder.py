"""The builder of the Kubernetes engine, which refuses all builds: services on a cluster run from images."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Literal

from windlass.builders.builder import BuildError, Order, Say
from windlass.engines.workload import Artifact

_NO_BUILDS = (
    "Create a container from an image in a registry, or deploy on a cluster with a Docker engine: Windlass "
    "does not build images for Kubernetes clusters yet"
)


class NoBuilder:
    makes: Literal["native", "image"] = "image"

    async def stop(self) -> None:
        """Does nothing."""

    async def find(self, service: str, key: str) -> Artifact | None:
        return None

    async def build(self, order: Order, write_line: Say) -> Artifact:
        raise BuildError(_NO_BUILDS)

    async def discard(self, service: str) -> None:
        """Does nothing."""

    async def prune(self, service: str, kept_keys: Collection[str]) -> None:
        """Does nothing."""

    async def services(self) -> Collection[str]:
        return ()

    async def sweep(self, deleted_services: Collection[str]) -> None:
        """Does nothing."""

    async def set_aside(self, service: str, destination: Path) -> None:
        """Does nothing."""

    async def put_back(self, service: str, source: Path) -> None:
        """Does nothing."""
