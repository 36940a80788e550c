"""The interface of builders for engines that cannot build: images are pushed to a registry, from which the
engine pulls them by digest.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from windlass.base.addresses import Reach
from windlass.builders.builder import Builder
from windlass.engines.registries import BuildRegistry
from windlass.engines.workload import Artifact


class ImagePublisher(Builder, Protocol):
    """A builder whose artifacts name an image in a registry, with its digest."""

    def use(self, registry: BuildRegistry | None) -> None:
        """Sets the registry for images. Without one, builds are refused."""
        ...

    async def export(self, artifact: Artifact, folder: str, destination: Path) -> Path:
        """Copies a folder of a published image to `destination`, as `Engine.export` does. Raises
        EngineError."""
        ...


OpenPublisher = Callable[[str, Path, Reach | None], ImagePublisher]
"""Opens a publisher, with the id that distinguishes its images on a shared engine, a folder for its files,
and the addresses at which registries may be; None if the operator has chosen the registry."""
