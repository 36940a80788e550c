"""The builder for Kubernetes clusters where no package of the server can build images. It refuses all
builds."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Literal

from windlass.builders.builder import FILES_BUILDER, BuildError, Order, Say
from windlass.engines.engine import EngineError
from windlass.engines.registries import BuildRegistry
from windlass.engines.workload import Artifact

_NO_BUILDS = (
    "Ask the operator to install the package windlass-docker and a Docker engine, or create a container from "
    "an image in a registry: nothing builds images for this cluster"
)
_NO_FILES = (
    "Start the server with the engine docker or process, and connect this cluster to it with its kubeconfig: "
    "a server with the engine kubernetes has no place for the files of a program that runs on the "
    "machine of the server"
)


class NoBuilder:
    makes: Literal["native", "image"] = "image"

    def use(self, registry: BuildRegistry | None) -> None:
        """Does nothing."""

    async def export(self, artifact: Artifact, folder: str, destination: Path) -> Path:
        raise EngineError(_NO_BUILDS)

    async def stop(self) -> None:
        """Does nothing."""

    async def find(self, service: str, key: str) -> Artifact | None:
        return None

    async def build(self, order: Order, write_line: Say) -> Artifact:
        raise BuildError(_NO_FILES if order.settings.builder == FILES_BUILDER else _NO_BUILDS)

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
