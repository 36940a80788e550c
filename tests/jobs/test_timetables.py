"""Jobs of a timetable: each due time is one run, whatever servers do."""

from __future__ import annotations

import asyncio

import pytest

from tests.jobs.sites import MINUTE, Programs, cron, deployed, new_job, ready_job, runs, states
from tests.world import World


async def test_a_scheduled_job_runs_once_at_each_due_time(world: World) -> None:
    job = await ready_job(world)
    assert await runs(world, job) == []
    for _ in range(3):
        world.clock.turn(MINUTE)
        await world.settle()
    found = await runs(world, job)
    assert [(run["cause"], run["status"], run["number"]) for run in found] == [
        ("SCHEDULE", "SUCCEEDED", number) for number in (1, 2, 3)
    ]
    assert len({run["scheduled_for"] for run in found}) == 3
    assert all(run["scheduled_for"].endswith(":00.000Z") for run in found)


async def test_a_scheduled_run_uses_the_entrypoint_and_arguments_of_its_schedule(world: World) -> None:
    programs = Programs(world)
    await ready_job(world, schedule=cron(entrypoint="python -u", arguments=["job.py", "two words"]))
    world.clock.turn(MINUTE)
    await world.settle()
    (started,) = programs.started
    assert (started.entrypoint, started.command) == (("python", "-u"), ("job.py", "two words"))
    assert started.artifact.ref == "acme/report:1.0"


async def test_a_job_that_was_not_deployed_does_not_run(world: World) -> None:
    job = await new_job(world)
    world.clock.turn(5 * MINUTE)
    await world.settle()
    assert await runs(world, job) == []


async def test_a_stopped_job_does_not_run_until_it_is_deployed_again(world: World) -> None:
    job = await ready_job(world)
    assert (await deployed(world, job, "stop"))["status"] == "SUCCEEDED"
    assert await world.state(f"/job/{job}") == "STOPPED"
    world.clock.turn(5 * MINUTE)
    await world.settle()
    assert await runs(world, job) == []
    await deployed(world, job)
    world.clock.turn(MINUTE)
    await world.settle()
    assert await states(world, job) == [("SCHEDULE", "SUCCEEDED")]


@pytest.mark.parametrize("end", ["uninstall", "delete"])
async def test_an_uninstalled_or_deleted_job_has_no_scheduled_runs(world: World, end: str) -> None:
    programs = Programs(world)
    job = await ready_job(world)
    if end == "uninstall":
        await deployed(world, job, "uninstall", {})
    else:
        assert (await world.delete(f"/job/{job}")).status == 204
        await world.settle()
        assert (await world.get(f"/job/{job}")).status == 404
    world.clock.turn(5 * MINUTE)
    await world.settle()
    assert programs.started == []


async def test_a_due_run_is_skipped_while_the_previous_one_runs(world: World) -> None:
    programs = Programs(world)
    programs.gate = asyncio.Event()
    job = await ready_job(world)
    world.clock.turn(MINUTE)
    await world.settle()
    world.clock.turn(MINUTE)
    await world.settle()
    assert await states(world, job) == [("SCHEDULE", "RUNNING"), ("SCHEDULE", "SKIPPED")]
    assert (await runs(world, job))[1]["message"] == "Run 1 had not ended when this one was due"
    programs.gate.set()
    programs.gate = None
    world.clock.turn(10)
    await world.settle()
    world.clock.turn(MINUTE - 10)
    await world.settle()
    assert [state for _, state in await states(world, job)] == ["SUCCEEDED", "SKIPPED", "SUCCEEDED"]
    assert len(programs.started) == 2


async def test_missed_due_times_are_made_up_for_by_one_run(world: World) -> None:
    job = await ready_job(world, schedule=cron("*/10 * * * *"))
    world.clock.turn(3600 + 5 * MINUTE)
    await world.settle()
    (run,) = await runs(world, job)
    assert (run["status"], run["missed"] > 3) == ("SUCCEEDED", True)


async def test_missed_due_times_are_skipped_if_missed_runs_is_skip(world: World) -> None:
    job = await ready_job(world, schedule=cron("0 * * * *", missed_runs="SKIP"))
    world.clock.turn(3 * 3600 + 17 * MINUTE)
    await world.settle()
    (run,) = await runs(world, job)
    assert run["status"] == "SKIPPED"
    assert run["message"].startswith("Missed: no server of Windlass ran when it was due, and ")


async def test_the_latest_due_time_is_run_even_if_missed_runs_is_skip(world: World) -> None:
    job = await ready_job(world, schedule=cron("* * * * *", missed_runs="SKIP"))
    world.clock.turn(10 * MINUTE)
    await world.settle()
    assert await states(world, job) == [("SCHEDULE", "SUCCEEDED")]


async def test_a_changed_timetable_takes_effect_with_the_next_deployment(world: World) -> None:
    job = await ready_job(world, schedule=cron("0 0 1 1 *"))
    await world.patch(f"/job/{job}", {"schedule": {"cronjob": {"scheduled_at": "* * * * *"}}})
    world.clock.turn(2 * MINUTE)
    await world.settle()
    assert await runs(world, job) == []
    assert (await world.get(f"/job/{job}/status"))["service_deployment_status"] == "OUT_OF_DATE"
    await deployed(world, job)
    world.clock.turn(MINUTE)
    await world.settle()
    assert await states(world, job) == [("SCHEDULE", "SUCCEEDED")]


async def test_next_due_times_are_shown_in_the_clock_of_the_zone(world: World) -> None:
    job = await ready_job(world, schedule=cron("30 2 * * *", timezone="Europe/Berlin"))
    answer = await world.get(f"/job/{job}/dueTimes?count=3")
    assert answer.status == 200, answer
    assert (answer["is_active"], answer["timezone"], len(answer["due_at"])) == (True, "Europe/Berlin", 3)
    assert all("T02:30:00+02:00" in time for time in answer["local_times"])
    await deployed(world, job, "stop")
    assert (await world.get(f"/job/{job}/dueTimes"))["is_active"] is False


async def test_a_failing_run_is_tried_again_as_often_as_the_job_says(world: World) -> None:
    programs = Programs(world)
    programs.codes = [1, 1, 1, 1, 1]
    job = await ready_job(world, schedule=cron("0 0 * * *"), max_nb_restart=2)
    world.clock.turn(24 * 3600)
    await world.settle()
    assert await states(world, job) == [("SCHEDULE", "FAILED"), ("RETRY", "QUEUED")]
    world.clock.turn(10)
    await world.settle()
    assert [state for _, state in await states(world, job)] == ["FAILED", "FAILED", "QUEUED"]
    world.clock.turn(20)
    await world.settle()
    found = await runs(world, job)
    assert [(run["cause"], run["status"], run["attempt"], run["exit_code"]) for run in found] == [
        ("SCHEDULE", "FAILED", 0, 1),
        ("RETRY", "FAILED", 1, 1),
        ("RETRY", "FAILED", 2, 1),
    ]
    assert {run["retry_of"] for run in found[1:]} == {found[0]["id"]}


async def test_a_run_past_its_longest_duration_is_ended_and_not_tried_again(world: World) -> None:
    programs = Programs(world)
    programs.gate = asyncio.Event()
    job = await ready_job(world, schedule=cron("0 0 * * *"), max_duration_seconds=90, max_nb_restart=3)
    world.clock.turn(24 * 3600)
    await world.settle()
    world.clock.turn(91)
    await world.settle()
    (run,) = await runs(world, job)
    assert run["status"] == "FAILED"
    assert "did not end within 90 seconds" in run["message"]
    assert not [one for one in world.engine.instances.values() if one.service == job]


async def test_an_ended_run_leaves_no_instance_on_the_engine(world: World) -> None:
    job = await ready_job(world)
    world.clock.turn(MINUTE)
    await world.settle()
    assert not [one for one in world.engine.instances.values() if one.service == job]


async def test_a_new_version_starts_with_the_next_run(world: World) -> None:
    programs = Programs(world)
    job = await ready_job(world)
    assert (await deployed(world, job, "deploy", {"image_tag": "2.0"}))["image_tag"] == "2.0"
    world.clock.turn(MINUTE)
    await world.settle()
    assert [workload.artifact.ref for workload in programs.started] == ["acme/report:2.0"]
    assert (await world.get(f"/job/{job}"))["source"]["image"]["tag"] == "2.0"
