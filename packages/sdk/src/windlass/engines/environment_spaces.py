"""Spaces of environments, for engines that keep something for an environment beside the data of its services,
such as a namespace of a Kubernetes cluster."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Protocol, runtime_checkable

FindEnvironments = Callable[[Collection[str]], Awaitable[Mapping[str, str]]]
"""Returns the environments of services by their ids, without those that the database does not have. Raises
Unavailable while the database is unavailable."""


@runtime_checkable
class EnvironmentSpaces(Protocol):
    """An engine that keeps something for each environment."""

    def find_environments_with(self, find: FindEnvironments) -> None:
        """Sets how the engine learns the environments of services that another server has deployed. Called
        before `start`."""
        ...

    async def environments(self) -> Collection[str]:
        """Returns the environments for which the engine keeps something."""
        ...

    async def remove_environments(self, deleted_environments: Collection[str]) -> None:
        """Removes what is kept for these environments, unless it contains something of others."""
        ...
