"""A time zone that a machine no longer knows: the data of zones is the machine's, and changes with it."""

from __future__ import annotations

import msgspec
import pytest

from tests.jobs.sites import MINUTE, cron, new_job, ready_job, runs, states
from tests.world import World
from windlass.core.words.due_times import UnknownZone, zone
from windlass.store import Tx

GONE = "US/Pacific-New"
"""A name that was in the database of time zones until 2020."""


async def lose_zone(world: World, *jobs: str) -> None:
    """Makes jobs such as an earlier version of the data of zones has let in."""

    async def change(tx: Tx) -> None:
        for job in jobs:
            row = await tx.resources.get(job)
            timetable = await tx.timetables.get(job)
            assert row
            document = msgspec.json.decode(row.body)
            document["schedule"]["cronjob"]["timezone"] = GONE
            await tx.resources.rewrite(job, msgspec.json.encode(document))
            if timetable:
                plan = msgspec.json.encode({**msgspec.json.decode(timetable.body), "timezone": GONE})
                await tx.timetables.set(msgspec.structs.replace(timetable, body=plan))

    await world.installation.ctx.store.write(change)


def test_the_removed_time_zone_of_these_tests_is_unknown() -> None:
    with pytest.raises(UnknownZone):
        zone(GONE)


async def test_jobs_with_an_unknown_time_zone_do_not_stop_other_schedules(world: World) -> None:
    lost = [await ready_job(world) for _ in range(3)]
    other = await ready_job(world)
    await lose_zone(world, *lost)
    for _ in range(2):
        world.clock.turn(MINUTE)
        await world.settle()
    assert await states(world, other) == [("SCHEDULE", "SUCCEEDED")] * 2
    for job in lost:
        (run,) = await runs(world, job)
        assert (run["status"], GONE in run["message"]) == ("SKIPPED", True)


async def find_zone(world: World, job: str) -> None:
    """Makes the zone of a job known again, under another name."""

    async def change(tx: Tx) -> None:
        timetable = await tx.timetables.get(job)
        assert timetable
        plan = msgspec.json.encode({**msgspec.json.decode(timetable.body), "timezone": "Etc/UTC"})
        await tx.timetables.set(msgspec.structs.replace(timetable, body=plan))

    await world.installation.ctx.store.write(change)


async def test_when_its_time_zone_is_known_again_a_job_runs_only_at_its_due_times(world: World) -> None:
    job = await ready_job(world, schedule=cron("0 */6 * * *"))
    await lose_zone(world, job)
    for minutes in (6 * 60, 61, 61):
        world.clock.turn(minutes * MINUTE)
        await world.settle()
        assert await states(world, job) == [("SCHEDULE", "SKIPPED")]
    await find_zone(world, job)
    world.clock.turn(61 * MINUTE)
    await world.settle()
    assert await states(world, job) == [("SCHEDULE", "SKIPPED")]
    world.clock.turn(6 * 60 * MINUTE)
    await world.settle()
    *_, last = await runs(world, job)
    assert (last["status"], last["scheduled_for"][14:16]) == ("SUCCEEDED", "00")
    assert len(await runs(world, job)) == 2


async def test_when_its_time_zone_is_known_again_a_job_continues_to_run(world: World) -> None:
    job = await ready_job(world)
    await lose_zone(world, job)
    world.clock.turn(MINUTE)
    await world.settle()
    await find_zone(world, job)
    world.clock.turn(61 * MINUTE)
    await world.settle()
    assert (await states(world, job))[-1] == ("SCHEDULE", "SUCCEEDED")


async def test_a_deployment_in_a_zone_that_is_gone_fails_and_says_why(world: World) -> None:
    job = await new_job(world, schedule=cron())
    await lose_zone(world, job)
    answer = await world.post(f"/job/{job}/deploy")
    await world.settle()
    deployment = await world.get(f"/job/{job}/deployment/{answer['id']}")
    assert (deployment["status"], GONE in deployment["message"]) == ("FAILED", True)


async def test_due_times_in_an_unknown_time_zone_are_answered_with_503_and_the_zone(world: World) -> None:
    job = await ready_job(world)
    assert (await world.get(f"/job/{job}/dueTimes")).status == 200
    await lose_zone(world, job)
    answer = await world.get(f"/job/{job}/dueTimes")
    assert (answer.status, GONE in answer.message) == (503, True)
