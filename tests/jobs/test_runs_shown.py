"""Runs of jobs in the API: listed, read, logged, started by hand, cancelled and purged."""

from __future__ import annotations

import asyncio
import json

from msgspec.structs import force_setattr

from tests.jobs.sites import (
    MINUTE,
    Programs,
    cron,
    deployed,
    images_world,
    new_job,
    ready_job,
    runs,
    states,
)
from tests.world import Answer, World
from windlass.engines.workload import OutputLine

YEARLY = cron("0 0 1 1 *")


async def test_a_job_is_run_once_with_other_arguments(world: World) -> None:
    programs = Programs(world)
    job = await ready_job(world, schedule=YEARLY)
    answer = await world.post(f"/job/{job}/run", {"arguments": ["--only", "orders"], "entrypoint": "sh -c"})
    assert (answer.status, answer["status"], answer["cause"]) == (202, "QUEUED", "FORCED")
    await world.settle()
    (started,) = programs.started
    assert (started.entrypoint, started.command) == (("sh", "-c"), ("--only", "orders"))
    run = (await world.get(f"/job/{job}/run/{answer['id']}")).json
    assert (run["status"], run["exit_code"], run["arguments"]) == ("SUCCEEDED", 0, ["--only", "orders"])
    assert run["ended_at"] is not None
    assert (await world.get(f"/job/{job}"))["schedule"]["cronjob"]["arguments"] == ["report", "--all"]


async def test_a_run_without_a_body_has_the_command_of_the_job(world: World) -> None:
    programs = Programs(world)
    job = await ready_job(world, schedule=YEARLY)
    assert (await world.post(f"/job/{job}/run")).status == 202
    await world.settle()
    assert programs.started[0].command == ("report", "--all")


async def test_a_job_is_not_run_before_it_is_deployed_or_while_it_runs(world: World) -> None:
    programs = Programs(world)
    programs.gate = asyncio.Event()
    job = await new_job(world, schedule=YEARLY)
    answer = await world.post(f"/job/{job}/run", {})
    assert (answer.status, "first: no version of it is ready" in answer.message) == (409, True)
    await world.post(f"/job/{job}/deploy")
    await world.settle()
    assert (await world.post(f"/job/{job}/run", {})).status == 202
    again = await world.post(f"/job/{job}/run", {})
    assert (again.status, "a job has one run at a time" in again.message) == (409, True)


async def test_a_run_says_what_it_waits_for_while_its_engine_is_away(world: World) -> None:
    job = await ready_job(world, schedule=YEARLY)
    world.engine.away = True
    run = (await world.post(f"/job/{job}/run"))["id"]
    await world.settle()
    shown = await world.get(f"/job/{job}/run/{run}")
    assert (shown["status"], shown["message"]) == ("RUNNING", "The engine does not answer")
    world.engine.away = False
    world.clock.turn(MINUTE)
    await world.settle()
    shown = await world.get(f"/job/{job}/run/{run}")
    assert (shown["status"], shown["message"]) == ("SUCCEEDED", "exited with code 0")


async def test_a_run_whose_time_passes_while_its_engine_is_away_says_what_it_waited_for(world: World) -> None:
    Programs(world).gate = asyncio.Event()
    job = await ready_job(world, schedule=YEARLY, max_duration_seconds=10)
    world.engine.away = True
    run = (await world.post(f"/job/{job}/run"))["id"]
    await world.settle()
    world.engine.away = False
    world.clock.turn(MINUTE)
    await world.settle()
    shown = await world.get(f"/job/{job}/run/{run}")
    waited = "The engine does not answer. The time limit of the run passed meanwhile"
    assert (shown["status"], shown["message"]) == ("FAILED", waited)


async def test_a_running_job_run_can_be_cancelled(world: World) -> None:
    programs = Programs(world)
    programs.gate = asyncio.Event()
    job = await ready_job(world, schedule=YEARLY, max_nb_restart=3)
    run = (await world.post(f"/job/{job}/run", {}))["id"]
    await world.settle()
    assert (await world.post(f"/job/{job}/run/{run}/cancel")).status == 202
    await world.settle()
    shown = (await world.get(f"/job/{job}/run/{run}")).json
    assert shown["status"] == "CANCELED"
    assert shown["message"].startswith("Cancelled by")
    assert len(await runs(world, job)) == 1
    assert not [one for one in world.engine.instances.values() if one.service == job]
    again = await world.post(f"/job/{job}/run/{run}/cancel")
    assert (again.status, "is CANCELED" in again.message) == (409, True)


async def test_a_queued_retry_of_a_job_run_can_be_cancelled(world: World) -> None:
    programs = Programs(world)
    programs.codes = [1]
    job = await ready_job(world, schedule=YEARLY, max_nb_restart=3)
    await world.post(f"/job/{job}/run", {})
    await world.settle()
    waiting = (await runs(world, job))[1]
    assert waiting["status"] == "QUEUED"
    await world.post(f"/job/{job}/run/{waiting['id']}/cancel")
    await world.settle()
    world.clock.turn(MINUTE)
    await world.settle()
    assert await states(world, job) == [("FORCED", "FAILED"), ("RETRY", "CANCELED")]
    assert len(programs.started) == 1


async def test_the_log_of_a_job_run_has_only_lines_of_that_run(world: World) -> None:
    job = await ready_job(world)
    for message in ("first", "second"):
        world.engine.writes = message
        world.clock.turn(MINUTE)
        await world.settle()
    for run, message in zip(await runs(world, job), ("first", "second"), strict=True):
        log = await world.get(f"/job/{job}/run/{run['id']}/log")
        assert [line["message"] for line in log["results"]] == [message]
        assert run["output"] == [message]


async def test_secrets_are_hidden_in_the_log_of_a_run(world: World) -> None:
    environment = await world.environment()
    await world.made(f"/environment/{environment}/secret", {"key": "KEY", "value": "s3cret-of-the-shop"})
    job = await ready_job(world, environment)
    world.engine.writes = "the key is s3cret-of-the-shop"
    world.clock.turn(MINUTE)
    await world.settle()
    (run,) = await runs(world, job)
    log = await world.get(f"/job/{job}/run/{run['id']}/log")
    assert "s3cret" not in str(log.json) + str(run)
    assert "the key is" in str(log.json)


async def test_secrets_are_masked_in_the_log_of_a_run_started_by_another_server(world: World) -> None:
    environment = await world.environment()
    await world.made(f"/environment/{environment}/secret", {"key": "KEY", "value": "s3cret-of-the-shop"})
    job = await ready_job(world, environment)
    world.clock.turn(MINUTE)
    await world.settle()
    (run,) = await runs(world, job)
    world.installation.ctx.logs.masks._known.clear()
    line = OutputLine(at=world.clock.now(), message="s3cret-of-the-shop", version=run["id"])
    world.engine.says(job, line)
    await asyncio.sleep(0.05)
    log = await world.get(f"/job/{job}/run/{run['id']}/log")
    assert log["results"]
    assert "s3cret" not in str(log.json)


async def test_failed_runs_are_purged(world: World) -> None:
    programs = Programs(world)
    environment = await world.environment()
    job, other = [await ready_job(world, environment) for _ in range(2)]
    for codes in ([1, 1], [], [1, 1]):
        programs.codes = codes
        world.clock.turn(MINUTE)
        await world.settle()
    failed = [run["id"] for run in await runs(world, job) if run["status"] == "FAILED"]
    answer = await world.post(f"/job/{job}/cleanFailedJob")
    assert (answer.status, sorted(answer["clean_kubernetes_jobs"])) == (200, sorted(failed))
    assert await states(world, job) == [("SCHEDULE", "SUCCEEDED")]
    answer = await world.post(f"/environment/{environment}/cleanFailedJobs", {"job_ids": []})
    assert (answer["clean_job_ids"], len(answer["clean_kubernetes_jobs"])) == ([other], 2)
    programs.codes = []
    world.clock.turn(MINUTE)
    await world.settle()
    assert (await runs(world, job))[-1]["number"] == 4


async def test_purging_failed_runs_records_an_audit_event_only_if_runs_were_deleted(world: World) -> None:
    programs = Programs(world)
    environment = await world.environment()
    job = await ready_job(world, environment)
    programs.codes = [1, 1]
    for _ in range(2):
        world.clock.turn(MINUTE)
        await world.settle()
    path = f"/organization/{world.org}/events?eventType=FAILED_RUNS_DELETED"
    for purge in (f"/job/{job}/cleanFailedJob", f"/environment/{environment}/cleanFailedJobs"):
        assert (await world.post(purge, {"job_ids": []} if "environment" in purge else None)).status == 200
        [event] = (await world.get(path))["events"]
        assert (event["target_id"], json.loads(event["change"])["runs"]) == (job, 2)


async def test_a_run_that_its_deployment_still_waits_for_is_not_purged(world: World) -> None:
    """The deployment would find no run, and run its command once more."""
    programs = Programs(world)
    job = await new_job(world, schedule={"on_start": {"arguments": ["migrate"]}})
    programs.codes = [1]
    answers: list[Answer] = []

    async def purge(point: str) -> None:
        if point == "run recorded":
            answers.append(await world.post(f"/job/{job}/cleanFailedJob"))

    force_setattr(world.installation.ctx, "point", purge)
    assert (await deployed(world, job))["status"] == "FAILED"
    assert len(programs.started) == 1
    assert [answer["clean_kubernetes_jobs"] for answer in answers] == [[]]
    assert len((await world.post(f"/job/{job}/cleanFailedJob"))["clean_kubernetes_jobs"]) == 1


async def test_jobs_of_another_environment_are_not_purged(world: World) -> None:
    job = await ready_job(world)
    other = await world.environment()
    answer = await world.post(f"/environment/{other}/cleanFailedJobs", {"job_ids": [job]})
    assert (answer.status, answer.message.startswith("job_ids: ")) == (400, True)


async def test_runs_of_another_job_are_not_found(world: World) -> None:
    job, other = await ready_job(world), await ready_job(world)
    world.clock.turn(MINUTE)
    await world.settle()
    run = (await runs(world, job))[0]["id"]
    for path in ("", "/log"):
        assert (await world.get(f"/job/{other}/run/{run}{path}")).status == 404
    assert (await world.post(f"/job/{other}/run/{run}/cancel")).status == 404


async def test_a_new_tag_is_deployed_to_the_jobs_that_ask_for_it(world: World) -> None:
    job = await ready_job(world, auto_deploy=True)
    other = await ready_job(world)
    body = {"image_name": "acme/report", "tag": "7"}
    answer = await world.post(f"/organization/{world.org}/job/deploy", body)
    assert (answer.status, answer["deployment_requests_count"]) == (202, 1)
    await world.settle()
    tags = [(await world.get(f"/job/{id}"))["source"]["image"]["tag"] for id in (job, other)]
    assert tags == ["7", "1.0"]
    again = await world.post(f"/organization/{world.org}/job/deploy", body)
    assert (again.status, again["deployment_requests_count"]) == (202, 0)


async def test_a_deleted_job_leaves_no_run_behind(database_url: str) -> None:
    async with images_world(database_url) as world:
        job = await ready_job(world)
        world.clock.turn(MINUTE)
        await world.settle()
        await world.delete(f"/job/{job}")
        await world.settle()
        reads = world.installation.ctx.store.reads
        assert (await reads.runs.count(job), await reads.timetables.get(job)) == (0, None)


async def test_starting_and_cancelling_a_run_are_recorded_in_the_audit(world: World) -> None:
    programs = Programs(world)
    programs.gate = asyncio.Event()
    job = await ready_job(world)
    run = (await world.post(f"/job/{job}/run", {"arguments": ["--token", "not-for-the-audit"]})).json
    assert (await world.post(f"/job/{job}/run/{run['id']}/cancel")).status == 202
    for kind in ("FORCE_RUN_QUEUED", "TRIGGER_CANCEL"):
        listed = await world.get(f"/organization/{world.org}/events?eventType={kind}")
        (event,) = listed.json["events"]
        assert event["target_id"] == job
        assert run["id"] in str(event)
        assert "not-for-the-audit" not in str(event)
    programs.gate.set()
    await world.settle()
