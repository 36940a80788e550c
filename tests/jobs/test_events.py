"""Jobs that run at events of their environment: on start, on stop and on delete."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.jobs.sites import Programs, cron, deployed, new_job, ready_job, states
from tests.world import World
from windlass.control.deploying import dependents


def events(*names: str) -> dict[str, Any]:
    """A schedule with these events, each with its own argument."""
    return {name: {"arguments": [name]} for name in names}


async def environment_with(world: World, *names: str) -> tuple[str, str, str, str]:
    """An environment with a database, a job with these events and an application; all are deployed."""
    environment = await world.environment()
    database = await world.database(environment)
    app = await world.application(environment)
    job = await new_job(world, environment, schedule=events(*names))
    return environment, database, job, app


async def asked(world: World, environment: str, action: str) -> None:
    assert (await world.post(f"/environment/{environment}/{action}")).status == 202
    await world.settle()


def order(world: World, *services: str) -> list[str]:
    """The services in the order in which they were first started."""
    seen = dict.fromkeys(workload.service for workload in world.engine.applied)
    return [service for service in seen if service in services]


async def test_a_deployment_of_a_job_runs_its_on_start(world: World) -> None:
    programs = Programs(world)
    job = await new_job(world, schedule=events("on_start", "on_stop"))
    deployment = await deployed(world, job)
    assert (deployment["status"], deployment["run"]["exit_code"]) == ("SUCCEEDED", 0)
    assert [workload.command for workload in programs.started] == [("on_start",)]
    assert await states(world, job) == [("EVENT", "SUCCEEDED")]
    assert await world.state(f"/job/{job}") == "RUNNING"


async def test_a_job_runs_after_databases_and_before_applications(world: World) -> None:
    environment, database, job, app = await environment_with(world, "on_start")
    await asked(world, environment, "deploy")
    assert order(world, database, job, app) == [database, job, app]
    assert (await world.get(f"/environment/{environment}/status"))["state"] == "RUNNING"


async def test_a_failing_on_start_fails_the_deployment_of_the_environment(world: World) -> None:
    programs = Programs(world)
    programs.codes = [3]
    environment, database, _, app = await environment_with(world, "on_start")
    await asked(world, environment, "deploy")
    assert (await world.get(f"/environment/{environment}/status"))["state"] == "ERROR"
    assert await world.state(f"/database/{database}") == "RUNNING"
    status = await world.get(f"/application/{app}/status")
    assert (status["state"], "which comes first" in status["message"]) == ("ERROR", True)
    assert app not in order(world, app)
    await asked(world, environment, "deploy")
    assert (await world.get(f"/environment/{environment}/status"))["state"] == "RUNNING"


async def test_a_failing_database_fails_the_waiting_services_of_its_request(world: World) -> None:
    programs = Programs(world)
    environment, database, job, app = await environment_with(world, "on_start")
    alone = await world.application(environment)
    await world.post(f"/application/{alone}/deploy")
    await world.settle()
    world.engine.broken = "there is no room"
    await asked(world, environment, "deploy")
    name = (await world.get(f"/database/{database}"))["name"]
    for waiting in (f"/job/{job}", f"/application/{app}", f"/application/{alone}"):
        status = await world.get(f"{waiting}/status")
        assert status["message"].startswith(f"Fix the database {name}, which comes first: it failed")
    assert alone in {one.service for one in world.engine.instances.values()}  # the version before serves
    assert programs.started == []
    world.engine.broken = ""
    await asked(world, environment, "deploy")
    assert (await world.get(f"/environment/{environment}/status"))["state"] == "RUNNING"


async def test_an_application_that_is_deployed_by_itself_does_not_fail_with_a_job(world: World) -> None:
    programs = Programs(world)
    programs.codes = [3]
    _, _, job, app = await environment_with(world, "on_start")
    await world.post(f"/job/{job}/deploy")
    await world.post(f"/application/{app}/deploy")
    await world.settle()
    assert await world.state(f"/job/{job}") == "ERROR"
    assert await world.state(f"/application/{app}") == "RUNNING"


async def beside_a_run(world: World, monkeypatch: pytest.MonkeyPatch, *, is_same: bool) -> str:
    """A job's deployment lasts, and its environment's application is deployed by another request. Returns
    the state of the application."""
    programs = Programs(world)
    programs.gate = asyncio.Event()
    _, _, job, app = await environment_with(world, "on_start")
    if is_same:
        monkeypatch.setattr(dependents, "_is_of_same_request", lambda one, other: True)
    await world.post(f"/job/{job}/deploy")
    await world.post(f"/application/{app}/deploy")
    await world.settle()
    return await world.state(f"/application/{app}")


async def test_an_application_waits_for_no_job_of_another_request(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await beside_a_run(world, monkeypatch, is_same=False) == "RUNNING"


async def test_an_application_deployed_in_the_same_request_waits_for_the_job(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await beside_a_run(world, monkeypatch, is_same=True) == "QUEUED"


async def test_a_deployment_says_which_service_of_its_environment_it_waits_for(world: World) -> None:
    programs = Programs(world)
    programs.gate = asyncio.Event()
    environment, _, job, app = await environment_with(world, "on_start")
    await asked(world, environment, "deploy")
    name = (await world.get(f"/job/{job}"))["name"]
    reason = f"Wait for the job {name}, which is deployed first, or cancel its deployment"
    (waiting,) = (await world.get(f"/application/{app}/deployment"))["results"]
    assert (waiting["status"], waiting["message"]) == ("QUEUED", reason)
    assert (await world.get(f"/application/{app}/status"))["message"] == reason
    programs.gate.set()
    await world.settle()
    world.clock.turn(6)
    await world.settle()
    (ended,) = (await world.get(f"/application/{app}/deployment"))["results"]
    assert (ended["status"], ended["message"]) == ("SUCCEEDED", "")


async def test_a_stop_waits_for_no_command_of_another_request(world: World) -> None:
    programs = Programs(world)
    environment, database, job, _ = await environment_with(world, "on_stop")
    await asked(world, environment, "deploy")
    programs.gate = asyncio.Event()
    await world.post(f"/job/{job}/stop")
    await world.post(f"/database/{database}/stop")
    await world.settle()
    assert await world.state(f"/database/{database}") == "STOPPED"


async def test_stopping_an_environment_runs_on_stop_between_applications_and_databases(world: World) -> None:
    programs = Programs(world)
    environment, database, _, app = await environment_with(world, "on_start", "on_stop")
    await asked(world, environment, "deploy")
    seen: list[list[str]] = []

    async def work(workload: Any) -> int:
        running = {one.service for one in world.engine.instances.values()}
        seen.append([service for service in (database, app) if service in running])
        return await programs.work(workload)

    world.engine.work = work
    await asked(world, environment, "stop")
    assert seen == [[database]]
    assert programs.started[-1].command == ("on_stop",)
    assert (await world.get(f"/environment/{environment}/status"))["state"] == "STOPPED"


async def test_a_failing_on_delete_leaves_an_error_and_is_tried_again(world: World) -> None:
    programs = Programs(world)
    environment, database, job, _ = await environment_with(world, "on_start", "on_delete")
    await asked(world, environment, "deploy")
    programs.codes = [1]
    assert (await world.delete(f"/environment/{environment}")).status == 204
    await world.settle()
    status = await world.get(f"/job/{job}/status")
    assert (status["deployment_state"], "failed at on_delete" in status["message"]) == ("DELETE_ERROR", True)
    assert (await world.get(f"/database/{database}/status"))["deployment_state"] == "DELETE_ERROR"
    assert database in {one.service for one in world.engine.instances.values()}
    assert (await world.delete(f"/environment/{environment}")).status == 204
    await world.settle()
    assert (await world.get(f"/environment/{environment}")).status == 404
    assert [workload.command for workload in programs.started] == [
        ("on_start",),
        ("on_delete",),
        ("on_delete",),
    ]


async def test_uninstalling_a_job_runs_on_delete(world: World) -> None:
    programs = Programs(world)
    job = await ready_job(world, schedule=events("on_delete"))
    assert programs.started == []
    assert (await deployed(world, job, "uninstall", {}))["status"] == "SUCCEEDED"
    assert [workload.command for workload in programs.started] == [("on_delete",)]
    assert await world.state(f"/job/{job}") == "STOPPED"


async def test_the_retry_of_an_on_start_run_decides_whether_the_deployment_succeeds(world: World) -> None:
    programs = Programs(world)
    programs.codes = [1]
    job = await new_job(world, schedule=events("on_start"), max_nb_restart=1)
    assert (await deployed(world, job))["status"] == "DEPLOYING"
    world.clock.turn(11)
    await world.settle()
    assert await states(world, job) == [("EVENT", "FAILED"), ("RETRY", "SUCCEEDED")]
    assert await world.state(f"/job/{job}") == "RUNNING"


async def test_cancelling_a_deployment_cancels_its_job_run(world: World) -> None:
    programs = Programs(world)
    programs.gate = asyncio.Event()
    job = await new_job(world, schedule=events("on_start"))
    await deployed(world, job)
    assert (await world.post(f"/job/{job}/cancelDeployment")).status == 202
    await world.settle()
    world.clock.turn(6)
    await world.settle()
    assert await states(world, job) == [("EVENT", "CANCELED")]
    assert (await world.get(f"/job/{job}/status"))["state"] == "CANCELED"
    assert not [one for one in world.engine.instances.values() if one.service == job]


@pytest.mark.parametrize(
    ("word", "argument"), [("START", "on_start"), ("STOP", "on_stop"), ("DELETE", "on_delete")]
)
@pytest.mark.parametrize("verb", ["deploy", "redeploy"])
async def test_force_event_runs_the_job_for_that_event(
    world: World, verb: str, word: str, argument: str
) -> None:
    programs = Programs(world)
    job = await ready_job(world, schedule=events("on_start", "on_stop", "on_delete"))
    programs.started.clear()
    assert (await deployed(world, job, f"{verb}?forceEvent={word}"))["status"] == "SUCCEEDED"
    assert [workload.command for workload in programs.started] == [(argument,)]
    assert (await states(world, job))[-1] == ("FORCED", "SUCCEEDED")


async def test_force_event_cron_runs_a_scheduled_job(world: World) -> None:
    job = await ready_job(world, schedule=cron("0 0 1 1 *"))
    assert (await deployed(world, job, "deploy?forceEvent=CRON"))["status"] == "SUCCEEDED"
    assert await states(world, job) == [("FORCED", "SUCCEEDED")]


@pytest.mark.parametrize(
    ("schedule", "word"), [(events("on_start"), "CRON"), (events("on_start"), "STOP"), (cron(), "START")]
)
async def test_an_event_that_the_job_does_not_have_is_refused(
    world: World, schedule: dict[str, Any], word: str
) -> None:
    job = await new_job(world, schedule=schedule)
    answer = await world.post(f"/job/{job}/deploy?forceEvent={word}")
    assert answer.status == 409
    assert answer.message.startswith("forceEvent: choose one of the events of the job")


async def variables(world: World, environment: str) -> dict[str, Any]:
    listed = await world.get(f"/environment/{environment}/environmentVariable?page_size=1000")
    return {row["key"]: row["value"] for row in listed["results"]}


@pytest.mark.parametrize(
    "output",
    [
        b"[]",
        b"{",
        b'{"A": 1}',
        b'{"a b": {"value": ""}}',
        b'{"A": {"value": {}}}',
        b'{"A": {"value": "%s"}}' % (b"x" * 65_537),
        b'{"A": {"value": "", "description": "\\u001b[2J"}}',
        b"\xff",
    ],
)
async def test_an_output_file_in_another_form_fails_the_run(world: World, output: bytes) -> None:
    world.engine.output = output
    job = await new_job(world, schedule=events("on_start"))
    deployment = await deployed(world, job)
    assert (deployment["status"], "Write an object such as" in deployment["message"]) == ("FAILED", True)
