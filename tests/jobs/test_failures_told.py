"""A failing run of a timetable is told as a failing deployment is: to webhooks, in the audit and as state."""

from __future__ import annotations

from typing import Any

import pytest

from tests.jobs.sites import MINUTE, Programs, cron, deployed, ready_job, runs
from tests.world import World

RECEIVER = "https://receiver.example.com/windlass"


async def subscribe(world: World, **fields: Any) -> str:
    body = {"target_url": RECEIVER, "events": ["DEPLOYMENT_FAILED"], "enabled": True}
    return await world.made(f"/organization/{world.org}/webhook", body | fields)


async def told(world: World, webhook: str) -> list[dict[str, Any]]:
    events = (await world.get(f"/organization/{world.org}/webhook/{webhook}/event"))["results"]
    return [event["request"]["payload"] for event in events]


async def state(world: World, job: str) -> tuple[str, str]:
    status = await world.get(f"/compat/job/{job}/status")
    return status["state"], status["message"]


async def turn(world: World, minutes: int = 1) -> None:
    for _ in range(minutes):
        world.clock.turn(MINUTE)
        await world.settle()


@pytest.fixture
async def programs(world: World) -> Programs:
    return Programs(world)


async def audited(world: World) -> list[str]:
    events = (await world.get(f"/organization/{world.org}/events?pageSize=100"))["events"]
    return [event["event_type"] for event in events]


async def test_a_failed_run_reaches_webhooks_and_audit_and_sets_its_job_to_error(
    world: World, programs: Programs
) -> None:
    webhook = await subscribe(world)
    job = await ready_job(world)
    programs.codes = [3]
    await turn(world)
    [run] = await runs(world, job)
    [payload] = await told(world, webhook)
    assert (payload["action"], payload["status"]) == ("RUN", "FAILED")
    assert (payload["run_id"], payload["run_number"], payload["job_id"]) == (run["id"], 1, job)
    assert payload["message"].startswith("Look at the log of run 1, which failed: ")
    assert (payload["started_at"], payload["finished_at"]) == (run["started_at"], run["ended_at"])
    assert "RUN_FAILED" in await audited(world)
    assert await state(world, job) == ("DEPLOYMENT_ERROR", payload["message"])
    environment = (await world.get(f"/job/{job}"))["environment"]["id"]
    assert (await world.get(f"/environment/{environment}/status"))["state"] == "ERROR"


async def test_a_successful_run_after_failed_ones_ends_the_error_state_of_the_job(
    world: World, programs: Programs
) -> None:
    webhook = await subscribe(world)
    job = await ready_job(world)
    programs.codes = [3, 3]
    await turn(world, 2)
    assert len(await told(world, webhook)) == 2
    await turn(world)
    assert await state(world, job) == ("DEPLOYED", "")
    assert (await audited(world)).count("SERVICE_RECOVERED") == 1
    await turn(world)
    assert (await audited(world)).count("SERVICE_RECOVERED") == 1
    assert len(await told(world, webhook)) == 2


async def test_a_run_with_retries_reports_a_failure_only_if_the_last_try_fails(
    world: World, programs: Programs
) -> None:
    webhook = await subscribe(world)
    job = await ready_job(world, schedule=cron("0 0 * * *"), max_nb_restart=1)
    programs.codes = [3, 0]
    world.clock.turn(24 * 3600)
    await turn(world, 2)
    assert [run["status"] for run in await runs(world, job)] == ["FAILED", "SUCCEEDED"]
    assert (await told(world, webhook), await state(world, job)) == ([], ("DEPLOYED", ""))
    programs.codes = [3, 3]
    world.clock.turn(24 * 3600)
    await turn(world, 2)
    [payload] = await told(world, webhook)
    assert (payload["run_number"], (await state(world, job))[0]) == (4, "DEPLOYMENT_ERROR")


async def test_a_failed_last_try_is_reported_although_the_first_run_was_purged(
    world: World, programs: Programs
) -> None:
    webhook = await subscribe(world)
    job = await ready_job(world, schedule=cron("0 0 * * *"), max_nb_restart=1)
    programs.codes = [3, 3]
    world.clock.turn(24 * 3600)
    await world.settle()
    assert len((await world.post(f"/job/{job}/cleanFailedJob"))["clean_kubernetes_jobs"]) == 1
    await turn(world)
    [payload] = await told(world, webhook)
    assert (payload["run_number"], (await state(world, job))[0]) == (2, "DEPLOYMENT_ERROR")


async def test_a_failed_run_started_by_a_person_sends_no_webhook(world: World, programs: Programs) -> None:
    webhook = await subscribe(world)
    job = await ready_job(world, schedule=cron("0 0 1 1 *"))
    programs.codes = [3]
    assert (await world.post(f"/job/{job}/run", {})).status == 202
    await world.settle()
    assert [run["status"] for run in await runs(world, job)] == ["FAILED"]
    assert (await told(world, webhook), await state(world, job)) == ([], ("DEPLOYED", ""))
    assert "RUN_FAILED" not in await audited(world)


async def test_a_stopped_job_and_a_new_deployment_are_not_in_error(world: World, programs: Programs) -> None:
    job = await ready_job(world)
    programs.codes = [3]
    await turn(world)
    await deployed(world, job)
    assert await state(world, job) == ("DEPLOYED", "")
    programs.codes = [3]
    await turn(world)
    assert (await state(world, job))[0] == "DEPLOYMENT_ERROR"
    await deployed(world, job, "stop")
    assert await state(world, job) == ("STOPPED", "")
    await turn(world)
    assert await state(world, job) == ("STOPPED", "")


async def test_slack_messages_name_the_failed_run(world: World, programs: Programs) -> None:
    webhook = await subscribe(world, kind="SLACK")
    await ready_job(world)
    programs.codes = [3]
    await turn(world)
    events = (await world.get(f"/organization/{world.org}/webhook/{webhook}/event"))["results"]
    assert "failed in a run of its timetable" in events[0]["request"]["text"]
    assert "|Run 1>" in str(events[0]["request"]["blocks"])
