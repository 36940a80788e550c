"""An organization with nothing under way waits for no deployments of another: it gets a slot besides."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from tests.world import REPOSITORY, World, make_world

SLOTS = 2
MORE = 3


async def application_of(world: World, org: str, token: str) -> str:
    project = await world.made(f"/organization/{org}/project", {"name": "shop"}, token=token)
    environment = await world.made(f"/project/{project}/environment", {"name": "production"}, token=token)
    body = {"name": "web", "git_repository": {"url": REPOSITORY, "branch": "main"}}
    return await world.made(f"/environment/{environment}/application", body, token=token)


async def another_deploys(world: World) -> None:
    org, token = await world.organization()
    app = await application_of(world, org, token)
    assert (await world.post(f"/application/{app}/deploy", token=token)).status == 202


async def has_begun(world: World, count: int) -> None:
    await reaches(lambda: world.engine.begun, count)


async def reaches(begun: Callable[[], int], count: int) -> None:
    """Waits until so many have begun, and looks that no more do after a while."""
    async with asyncio.timeout(20):
        while begun() < count:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    for _ in range(50):
        await asyncio.sleep(0.001)
    assert begun() == count


@asynccontextmanager
async def busy(database_url: str) -> AsyncIterator[World]:
    """A world in which the engine starts nothing until it is let go, and one organization has deployed more
    applications than there are slots."""
    async with make_world(database_url, parallel_deployments=SLOTS) as world:
        world.engine.gate = asyncio.Event()
        environment = await world.environment()
        for app in [await world.application(environment) for _ in range(SLOTS + MORE)]:
            assert (await world.post(f"/application/{app}/deploy")).status == 202
        working = asyncio.create_task(world.installation.worker.run())
        await has_begun(world, SLOTS)
        yield world
        world.engine.gate.set()
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        await world.settle()


async def test_an_organization_with_nothing_under_way_waits_for_no_slot_of_another(database_url: str):
    async with busy(database_url) as world:
        await another_deploys(world)
        await has_begun(world, SLOTS + 1)
    assert world.engine.begun == SLOTS + MORE + 1


async def test_there_is_one_spare_slot_and_it_is_for_no_second_deployment(database_url: str):
    async with busy(database_url) as world:
        await another_deploys(world)
        await another_deploys(world)
        more = await world.application()
        assert (await world.post(f"/application/{more}/deploy")).status == 202
        await has_begun(world, SLOTS + 1)
    assert world.engine.begun == SLOTS + MORE + 3


@pytest.mark.parametrize("waits", [True, False])
async def test_builds_that_wait_for_builds_of_others_keep_no_further_organization_waiting(
    database_url: str, waits: bool
):
    async with make_world(database_url, parallel_deployments=SLOTS) as world:
        builder = world.builder
        held = asyncio.Event()
        builder.turn, builder.gate = (held, None) if waits else (None, held)
        environment = await world.environment()
        for app in [await world.application(environment) for _ in range(SLOTS + MORE)]:
            assert (await world.post(f"/application/{app}/deploy")).status == 202
        working = asyncio.create_task(world.installation.worker.run())
        await reaches(lambda: len(builder.built), SLOTS)
        for _ in range(3):
            await another_deploys(world)
        await reaches(lambda: len(builder.built), SLOTS + (3 if waits else 1))
        held.set()
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        await world.settle()
    assert len(builder.built) >= SLOTS + MORE + 3
