"""A worker that is killed at any point of a run starts nothing twice, and every run has one final state."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import force_setattr

from tests.jobs.sites import MINUTE, Programs, cron, left, new_job, points, ready_job, runs
from tests.world import World

pytestmark = pytest.mark.slow

LEASE = 16
"""Seconds after which work of a killed worker is due again."""


class Death:
    """Kills the worker that comes to a point first: its lease goes on, and nothing is let go."""

    def __init__(self, world: World, point: str) -> None:
        self.reached: list[str] = []
        self._point = point
        force_setattr(world.installation.ctx, "point", self._come_to)

    @property
    def happened(self) -> bool:
        return not self._point

    async def _come_to(self, point: str) -> None:
        self.reached.append(point)
        if point == self._point:
            self._point = ""
            raise asyncio.CancelledError


async def recover(world: World, seconds: int = 3 * LEASE) -> None:
    for _ in range(seconds // LEASE):
        await world.settle()
        world.clock.turn(LEASE)
    await world.settle()


@pytest.mark.parametrize("point", points())
async def test_a_due_time_starts_one_run_even_if_the_worker_is_killed_at_any_failpoint(
    world: World, point: str
) -> None:
    programs = Programs(world)
    job = await ready_job(world, schedule=cron("0 * * * *"))
    death = Death(world, point)
    world.clock.turn(60 * MINUTE)
    await recover(world)
    assert [run["status"] for run in await runs(world, job)] == ["SUCCEEDED"]
    assert len(programs.started) == 1
    assert left(world, job) == []
    assert death.happened or point not in death.reached


@pytest.mark.parametrize("point", points())
async def test_an_event_starts_one_run_even_if_the_worker_is_killed_at_any_failpoint(
    world: World, point: str
) -> None:
    programs = Programs(world)
    job = await new_job(world, schedule={"on_start": {"arguments": ["migrate"]}})
    world.engine.output = b'{"BUCKET": {"value": "shop"}}'
    Death(world, point)
    await world.post(f"/job/{job}/deploy")
    await recover(world)
    (run,) = await runs(world, job)
    assert (run["status"], run["output_variables"]) == (
        "SUCCEEDED",
        [f"WINDLASS_JOB_Z{job[:8].upper()}_BUCKET"],
    )
    assert len(programs.started) == 1
    assert await world.state(f"/job/{job}") == "RUNNING"
    assert left(world, job) == []


@pytest.mark.parametrize("point", points())
async def test_a_run_times_out_once_even_if_the_worker_is_killed_at_any_failpoint(
    world: World, point: str
) -> None:
    programs = Programs(world)
    programs.gate = asyncio.Event()
    job = await ready_job(world, schedule=cron("0 0 1 * *"), max_duration_seconds=10)
    Death(world, point)
    await world.post(f"/job/{job}/run", {})
    await recover(world, 5 * LEASE)
    (run,) = await runs(world, job)
    assert run["status"] == "FAILED"
    assert "did not end within 10 seconds" in run["message"]
    assert len(programs.started) == 1
    assert left(world, job) == []


@pytest.mark.parametrize("point", points())
async def test_a_cancelled_run_ends_once_wherever_the_worker_is_killed(world: World, point: str) -> None:
    programs = Programs(world)
    programs.gate = asyncio.Event()
    job = await ready_job(world, schedule=cron("0 0 1 * *"), max_nb_restart=2)
    run = (await world.post(f"/job/{job}/run", {}))["id"]
    await world.settle()
    Death(world, point)
    assert (await world.post(f"/job/{job}/run/{run}/cancel")).status == 202
    await recover(world)
    assert [run["status"] for run in await runs(world, job)] == ["CANCELED"]
    assert len(programs.started) == 1
    assert left(world, job) == []


async def test_the_killed_worker_tests_reach_every_failpoint_of_runs(world: World) -> None:
    """The control of the tests above."""
    programs = Programs(world)
    death = Death(world, "")
    job = await ready_job(world, schedule={"on_start": {"arguments": ["migrate"]}})
    await ready_job(world, schedule=cron("* * * * *"))
    world.clock.turn(MINUTE)
    await world.settle()
    programs.gate = asyncio.Event()
    slow = await ready_job(world, schedule=cron("0 0 1 1 *"), max_duration_seconds=10)
    await world.post(f"/job/{slow}/run", {})
    await recover(world, 4 * LEASE)
    assert await world.state(f"/job/{job}") == "RUNNING"
    assert set(points()) <= set(death.reached)
