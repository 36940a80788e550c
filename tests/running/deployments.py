"""Deployments of a world: asking for them, waiting for them, and reading how they went."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.world import World

PORT = {"internal_port": 8080, "protocol": "HTTP", "publicly_accessible": True}


async def deployed(world: World, **fields: Any) -> str:
    """An application that runs, or that is stopped because it is to have no instances."""
    app = await world.application(**{"ports": [PORT]} | fields)
    await deploy(world, app)
    await world.settle()
    status = await world.get(f"/application/{app}/status")
    wanted = "STOPPED" if fields.get("min_running_instances") == 0 else "RUNNING"
    assert status["state"] == wanted, status.json
    return app


async def deploy(world: World, app: str, **body: Any) -> str:
    answer = await world.post(f"/application/{app}/deploy", body or None)
    assert answer.status == 202, answer
    return str(answer["id"])


async def deployment(world: World, app: str, id: str) -> Any:
    return (await world.get(f"/application/{app}/deployment/{id}")).json


async def deployments(world: World, app: str) -> list[Any]:
    """Newest first."""
    return list((await world.get(f"/application/{app}/deployment"))["results"])


def generations(world: World, app: str) -> list[int]:
    return sorted(one.generation for one in world.engine.instances.values() if one.service == app)


async def under_way(world: World, done: Any) -> None:
    """Lets work begin, and go on until this is so."""
    await world.installation.worker.start_due()
    async with asyncio.timeout(30):
        while not done():  # noqa: ASYNC110 (the fakes do not notify)
            await asyncio.sleep(0.01)
