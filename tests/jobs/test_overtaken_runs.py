"""A worker that is overtaken at any point of a run, as after a pause that is longer than its lease, starts
nothing again and changes no final state."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from tests.jobs.sites import MINUTE, Programs, cron, left, new_job, points, ready_job, runs
from tests.world import World
from windlass.control.background.worker import Worker

pytestmark = pytest.mark.slow

LEASE = 90
"""Milliseconds."""


class Overtaken:
    """A worker that pauses at a point until another worker has done all that is due."""

    def __init__(self, world: World, point: str) -> None:
        self.happened = False
        self._world, self._point = world, point
        self._worker = Worker(replace(world.installation.ctx, point=self._come_to), lease=LEASE)

    async def go(self) -> None:
        await self._worker.settle()
        await self._worker.stop()
        await self._world.settle()

    async def _come_to(self, point: str) -> None:
        if point == self._point and not self.happened:
            self.happened = True
            self._world.clock.ms += LEASE + 1
            await self._world.settle()


@pytest.mark.parametrize("point", points())
async def test_a_due_time_starts_one_run_even_if_the_worker_loses_its_lease_at_any_failpoint(
    world: World, point: str
) -> None:
    programs = Programs(world)
    job = await ready_job(world, schedule=cron("0 * * * *"))
    overtaken = Overtaken(world, point)
    world.clock.turn(60 * MINUTE)
    await overtaken.go()
    assert [run["status"] for run in await runs(world, job)] == ["SUCCEEDED"]
    assert len(programs.started) == 1
    assert left(world, job) == []


@pytest.mark.parametrize("point", points())
async def test_an_event_starts_one_run_even_if_the_worker_loses_its_lease_at_any_failpoint(
    world: World, point: str
) -> None:
    programs = Programs(world)
    job = await new_job(world, schedule={"on_start": {"arguments": ["migrate"]}})
    overtaken = Overtaken(world, point)
    await world.post(f"/job/{job}/deploy")
    await overtaken.go()
    assert [run["status"] for run in await runs(world, job)] == ["SUCCEEDED"]
    assert len(programs.started) == 1
    assert await world.state(f"/job/{job}") == "RUNNING"
    assert left(world, job) == []


@pytest.mark.parametrize("point", points())
async def test_a_cancelled_run_ends_once_wherever_a_worker_is_overtaken(world: World, point: str) -> None:
    programs = Programs(world)
    programs.gate = asyncio.Event()
    job = await ready_job(world, schedule=cron("0 0 1 * *"), max_nb_restart=2)
    run = (await world.post(f"/job/{job}/run", {}))["id"]
    await world.settle()
    assert (await world.post(f"/job/{job}/run/{run}/cancel")).status == 202
    await Overtaken(world, point).go()
    assert [run["status"] for run in await runs(world, job)] == ["CANCELED"]
    assert len(programs.started) == 1
    assert left(world, job) == []


async def test_the_lost_lease_tests_reach_every_failpoint_of_a_scheduled_run(world: World) -> None:
    """The control of the tests above."""
    for point in ("due runs started", "run begun", "run ended", "run recorded", "run removed"):
        await ready_job(world, schedule=cron("0 * * * *"))
        overtaken = Overtaken(world, point)
        world.clock.turn(60 * MINUTE)
        await overtaken.go()
        assert overtaken.happened, point
