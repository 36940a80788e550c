"""A clock that was ahead, and was set back while no server ran: nothing waits for the former time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jobs.sites import MINUTE, Programs, cron, images_world, ready_job, runs, states
from tests.world import NOON, HandClock
from windlass.base.clock import DAY, HOUR, stamp


@pytest.mark.parametrize("ahead", [2 * HOUR, 120 * DAY])
async def test_schedules_and_retries_continue_after_the_clock_is_set_back(
    tmp_path: Path, database_url: str, ahead: int
) -> None:
    async with images_world(database_url, folder=tmp_path, clock=HandClock(NOON + ahead)) as world:
        minutely = await ready_job(world)
        Programs(world).codes = [1, 1]
        failing = await ready_job(world, max_nb_restart=1)
        world.clock.turn(MINUTE)
        await world.settle()
        assert await states(world, failing) == [("SCHEDULE", "FAILED"), ("RETRY", "QUEUED")]
        yearly = await ready_job(world, schedule=cron("0 0 1 1 *"))
    async with images_world(database_url, folder=tmp_path) as world:
        before = len(await runs(world, minutely))
        world.clock.turn(MINUTE)
        await world.settle()
        later = await runs(world, minutely)
        assert len(later) == before + 1
        assert later[-1]["scheduled_for"] <= stamp(world.clock.now())
        assert ("RETRY", "QUEUED") not in await states(world, failing)
        assert await runs(world, yearly) == []


async def test_a_due_time_is_not_run_again_after_the_clock_is_set_back(
    tmp_path: Path, database_url: str
) -> None:
    async with images_world(database_url, folder=tmp_path) as world:
        job = await ready_job(world)
        world.clock.turn(MINUTE)
        await world.settle()
        assert len(await runs(world, job)) == 1
    async with images_world(database_url, folder=tmp_path) as world:
        world.clock.turn(MINUTE)
        await world.settle()
        assert len(await runs(world, job)) == 1
        world.clock.turn(MINUTE)
        await world.settle()
        assert len(await runs(world, job)) == 2
