"""A town of services with variables."""

from __future__ import annotations

from typing import Any

from tests.world import World
from windlass.control.variables.inputs import inputs_of
from windlass.core.words.variables import Inputs
from windlass.engines.workload import ServiceAddress
from windlass.store import Row

PORT = {"internal_port": 8080, "protocol": "HTTP", "publicly_accessible": True}


async def whereabouts(environment: str, service: str, name: str, internal: int) -> ServiceAddress:
    return ServiceAddress(f"{name}.inside", internal + 10_000)


async def row_of(world: World, service: str) -> Row:
    row = await world.installation.ctx.store.reads.resources.get(service)
    assert row is not None
    return row


async def inputs(world: World, service: str) -> Inputs:
    ctx = world.installation.ctx
    found, _ = await inputs_of(ctx, ctx.store.reads, await row_of(world, service), whereabouts)
    return found


class Town:
    """A project, an environment and an application, with something to say at each level."""

    def __init__(self, world: World, project: str, env: str, app: str) -> None:
        self.world, self.project, self.env, self.app = world, project, env, app
        self.levels = {
            "project": f"/project/{project}",
            "environment": f"/environment/{env}",
            "application": f"/application/{app}",
        }

    async def says(
        self, level: str, key: str, value: str = "", kind: str = "environmentVariable", **more: Any
    ) -> str:
        return await self.world.made(f"{self.levels[level]}/{kind}", {"key": key, "value": value} | more)

    async def alias(self, key: str) -> str:
        """Under another key, for the application."""
        path = f"{self.levels['application']}/environmentVariable"
        listed = (await self.world.get(f"/compat{path}"))["results"]
        found = next(one["id"] for one in listed if one["key"] == key)
        return await self.world.made(f"{path}/{found}/alias", {"key": "ALIAS"})


async def settled(world: World) -> Town:
    project = await world.project()
    env = await world.environment(project, name="blue")
    return Town(world, project, env, await world.application(env, name="shop", ports=[PORT]))
