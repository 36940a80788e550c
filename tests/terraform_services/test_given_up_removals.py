"""A removal whose run takes too long destroys once, wherever the worker is killed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.jobs.test_killed_runs import Death, recover
from tests.terraform_services.test_moved_states import Modules, ran, service_of
from tests.world import World, make_world

LONG = 3 * 3600


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with make_world() as made_world:
        yield made_world


@pytest.mark.parametrize("end", ["delete", "uninstall"])
@pytest.mark.parametrize("point", ["", "given up"])
async def test_a_removal_that_takes_too_long_fails_and_destroys_once(world: World, end: str, point: str):
    modules = Modules(world)
    service = await service_of(world)
    path = f"/terraform/{service}"
    assert (await ran(world, service))[0] == "SUCCEEDED"
    modules.gate = asyncio.Event()
    await (world.delete(path) if end == "delete" else world.post(f"{path}/uninstall"))
    await world.settle()
    death = Death(world, point)
    world.clock.turn(LONG)
    await recover(world)
    assert death.happened
    assert len(modules.started) == 2, "one to apply, and one to destroy"
    assert await world.state(path) == "ERROR"
    assert "did not end within" in (await world.get(f"{path}/status"))["message"]
    modules.gate = None
    await world.delete(path)
    await world.settle()
    assert (await world.get(path)).status == 404
