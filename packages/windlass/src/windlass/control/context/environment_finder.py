"""Tells engines the environments of services, for those that keep each environment in a space of its own.

An engine sees the services that run on it, but only by marks that the members of one environment may forge.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from windlass.base.ids import is_id
from windlass.engines.engine import Engine
from windlass.engines.environment_spaces import EnvironmentSpaces
from windlass.store import Reads


def introduce(engine: Engine, reads: Reads) -> None:
    """Lets an engine look up the environments of services. Called before it is started."""

    async def find(services: Collection[str]) -> Mapping[str, str]:
        # A cluster may report any text as the id of a service.
        return await reads.resources.parents_of([service for service in services if is_id(service)])

    if isinstance(engine, EnvironmentSpaces):
        engine.find_environments_with(find)
