"""Spaces of environments, for engines that keep something for an environment beside the data of its services,
such as a namespace of a Kubernetes cluster."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol, runtime_checkable


@runtime_checkable
class EnvironmentSpaces(Protocol):
    """An engine that keeps something for each environment."""

    async def environments(self) -> Collection[str]:
        """Returns the environments for which the engine keeps something."""
        ...

    async def remove_environments(self, deleted_environments: Collection[str]) -> None:
        """Removes what is kept for these environments, unless it contains something of others."""
        ...
