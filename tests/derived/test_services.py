"""Services of every family: deployed, broken, cancelled, rolled back and deleted on the fake engine.

No test here knows the name of a family, so that a family that is added is tried by being there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.derived.operations import for_families
from tests.derived.plots import to_deploy
from tests.derived.stage import Stage
from tests.derived.things import Thing
from tests.world import Answer
from windlass.core.declare.registry import is_service, runs_once
from windlass.core.declare.resource import Family
from windlass.engines.workload import OutputLine, Workload
from windlass.families import registry

every_family = for_families(is_service)
those_that_run_on = for_families(lambda family: is_service(family) and not runs_once(family))


async def do(stage: Stage, service: Thing, verb: str, body: Any = None) -> Answer:
    return await stage.world.post(f"/{service.family.name}/{service.id}/{verb}", body)


async def done(stage: Stage, service: Thing, verb: str, body: Any = None) -> str:
    """The status in which a deployment of this sort ends."""
    answer = await do(stage, service, verb, body)
    assert answer.status == 202, answer
    await stage.world.settle()
    return await outcome(stage, service, answer["id"])


async def outcome(stage: Stage, service: Thing, deployment: str) -> str:
    return await stage.plot.outcome(service, deployment)


async def state(stage: Stage, service: Thing) -> str:
    return await stage.world.state(f"/{service.family.name}/{service.id}")


def running(service: Thing, generation: int) -> list[int]:
    """The generations that are there after a deployment: of what runs once, none stays."""
    return [] if runs_once(service.family) else [generation]


def generations(stage: Stage, service: Thing) -> list[int]:
    instances = stage.world.engine.instances.values()
    return sorted(one.generation for one in instances if one.service == service.id)


def applied(stage: Stage, service: Thing) -> list[Workload]:
    """Returns the starts of a service, in order."""
    return [workload for workload in stage.world.engine.applied if workload.service == service.id]


@asynccontextmanager
async def broken(stage: Stage) -> AsyncIterator[None]:
    stage.world.engine.broken = "there is no room"
    try:
        yield
    finally:
        stage.world.engine.broken = ""


@asynccontextmanager
async def exiting(stage: Stage, code: int) -> AsyncIterator[None]:
    async def work(workload: Workload) -> int:
        return code

    engine = stage.world.engine
    engine.work, engine.exits = work, f"exited with code {code}"
    try:
        yield
    finally:
        engine.work, engine.exits = None, ""


@asynccontextmanager
async def starting_waits(stage: Stage) -> AsyncIterator[None]:
    gate = stage.world.engine.gate = asyncio.Event()
    try:
        yield
    finally:
        stage.world.engine.gate = None
        gate.set()


@every_family
async def test_a_new_service_is_stopped_and_never_deployed(stage: Stage, family: Family) -> None:
    one = await stage.plot.fresh(family)
    status = await stage.world.get(f"/{one.family.name}/{one.id}/status")
    assert (status["state"], status["service_deployment_status"]) == ("STOPPED", "NEVER_DEPLOYED")
    assert generations(stage, one) == []


@every_family
async def test_a_deployed_service_runs_and_is_up_to_date(stage: Stage, family: Family) -> None:
    one = await stage.plot.fresh(family)
    assert await done(stage, one, "deploy") == "SUCCEEDED"
    status = await stage.world.get(f"/{one.family.name}/{one.id}/status")
    assert (status["state"], status["service_deployment_status"]) == ("RUNNING", "UP_TO_DATE")
    assert generations(stage, one) == running(one, 1)


@every_family
async def test_each_deployment_starts_one_instance_of_a_service_once(stage: Stage, family: Family) -> None:
    one = await stage.plot.fresh(family)
    begun = stage.world.engine.begun
    for number in (1, 2):
        assert await done(stage, one, "deploy") == "SUCCEEDED"
        assert stage.world.engine.begun == begun + number


@every_family
async def test_a_program_that_exits_with_a_failure_fails_its_deployment(stage: Stage, family: Family) -> None:
    one = await stage.plot.fresh(family)
    async with exiting(stage, 3):
        assert await done(stage, one, "deploy") == "FAILED"
    status = await stage.world.get(f"/{one.family.name}/{one.id}/status")
    assert (status["state"], "exited with code 3" in status["message"]) == ("ERROR", True)
    assert generations(stage, one) == []


@every_family
async def test_a_service_is_in_the_statuses_of_its_environment_and_in_the_overview(
    stage: Stage, family: Family
) -> None:
    one = await stage.plot.fresh(family)
    assert one.parent is not None
    statuses = await stage.world.get(f"/environment/{one.parent.id}/statuses")
    assert one.id in {status["id"] for status in statuses[f"{one.family.name}s"]}
    services = await stage.world.get(f"/organization/{stage.plot.tenant.org}/services?page_size=1000")
    assert one.id in {shown["id"] for shown in services["results"]}


@every_family
async def test_output_of_a_service_is_in_its_log(stage: Stage, family: Family) -> None:
    one = await stage.plot.fresh(family)
    await done(stage, one, "deploy")
    stage.world.engine.says(one.id, OutputLine(at=stage.world.clock.now(), message=f"ready {one.id}"))
    lines = await stage.world.get(f"/{one.family.name}/{one.id}/log")
    assert f"ready {one.id}" in {line["message"] for line in lines["results"]}


@every_family
async def test_a_deployment_that_fails_to_start_keeps_the_earlier_one_running(
    stage: Stage, family: Family
) -> None:
    one = await stage.plot.fresh(family)
    await done(stage, one, "deploy")
    async with broken(stage):
        assert await done(stage, one, "deploy") == "FAILED"
    status = await stage.world.get(f"/{one.family.name}/{one.id}/status")
    assert (status["state"], "no room" in status["message"]) == ("ERROR", True)
    await stage.world.run(31)
    assert generations(stage, one) == running(one, 1)


@every_family
async def test_a_deployment_that_waits_is_cancelled_and_nothing_runs(stage: Stage, family: Family) -> None:
    one = await stage.plot.fresh(family)
    deployment = (await do(stage, one, "deploy"))["id"]
    assert (await do(stage, one, "cancelDeployment")).status == 202
    await stage.world.settle()
    assert await outcome(stage, one, deployment) == "CANCELED"
    assert generations(stage, one) == []


@every_family
async def test_a_deployment_under_way_is_cancelled_and_nothing_of_it_runs(
    stage: Stage, family: Family
) -> None:
    one = await stage.plot.fresh(family)
    engine = stage.world.engine
    async with starting_waits(stage):
        deployment = (await do(stage, one, "deploy"))["id"]
        begun = engine.begun
        working = asyncio.create_task(stage.world.settle())
        while engine.begun == begun:  # noqa: ASYNC110 (what is waited for happens elsewhere)
            await asyncio.sleep(0.01)
        assert (await do(stage, one, "cancelDeployment")).status == 202
        await working
    await stage.world.settle()
    assert await outcome(stage, one, deployment) == "CANCELED"
    assert generations(stage, one) == []


@every_family
async def test_a_stopped_service_runs_no_more_and_can_be_deployed_again(stage: Stage, family: Family) -> None:
    one = await stage.plot.fresh(family)
    await done(stage, one, "deploy")
    assert await done(stage, one, "stop") == "SUCCEEDED"
    assert (await state(stage, one), generations(stage, one)) == ("STOPPED", [])
    assert await done(stage, one, "redeploy") == "SUCCEEDED"
    assert generations(stage, one) == running(one, 3)


@those_that_run_on
async def test_a_stopped_service_cannot_be_restarted(stage: Stage, family: Family) -> None:
    one = await stage.plot.fresh(family)
    await done(stage, one, "deploy")
    await done(stage, one, "stop")
    assert (await do(stage, one, "restart-service")).status == 409


@those_that_run_on
async def test_a_restart_replaces_the_running_generation(stage: Stage, family: Family) -> None:
    one = await stage.plot.fresh(family)
    await done(stage, one, "deploy")
    assert await done(stage, one, "restart-service") == "SUCCEEDED"
    assert (await state(stage, one), generations(stage, one)) == ("RUNNING", [2])


@every_family
async def test_a_rollback_starts_the_artifact_of_the_earlier_deployment(stage: Stage, family: Family) -> None:
    one = await stage.plot.fresh(family)
    first = (await do(stage, one, "deploy"))["id"]
    await stage.world.settle()
    artifact = applied(stage, one)[-1].artifact
    await done(stage, one, "deploy")
    assert await done(stage, one, "rollback", {"deployment_id": first}) == "SUCCEEDED"
    assert generations(stage, one) == running(one, 3)
    assert applied(stage, one)[-1].artifact == artifact
    generations_ = [workload.generation for workload in applied(stage, one)]
    assert generations_ == sorted(set(generations_))
    assert len(generations_) == 3


@every_family
async def test_an_uninstalled_service_leaves_only_its_settings(stage: Stage, family: Family) -> None:
    one = await stage.plot.fresh(family)
    await done(stage, one, "deploy")
    assert await done(stage, one, "uninstall") == "SUCCEEDED"
    assert (await state(stage, one), generations(stage, one)) == ("STOPPED", [])
    assert one.id in stage.world.engine.discarded
    assert (await stage.world.get(f"/{one.family.name}/{one.id}")).status == 200


@every_family
async def test_deleting_a_running_service_removes_its_instances_and_data(
    stage: Stage, family: Family
) -> None:
    one = await stage.plot.fresh(family)
    await done(stage, one, "deploy")
    assert (await stage.world.delete(f"/{one.family.name}/{one.id}")).status == 204
    await stage.world.settle()
    assert (await stage.world.get(f"/{one.family.name}/{one.id}")).status == 404
    assert generations(stage, one) == []
    assert one.id in stage.world.engine.discarded


@every_family
async def test_the_audit_records_creation_and_deployment_of_a_service(stage: Stage, family: Family) -> None:
    one = await stage.plot.fresh(family)
    await done(stage, one, "deploy")
    kinds = {row.kind for row in await stage.world.events() if row.subject == one.id}
    assert kinds >= {"CREATE", "DEPLOY_QUEUED", "DEPLOYMENT_STARTED", "DEPLOYMENT_SUCCEEDED"}


async def environment_with_all(stage: Stage) -> tuple[Thing, list[Thing]]:
    environment = await stage.plot.fresh(registry()["environment"])
    return environment, [await stage.plot.below(environment, family) for family in registry().services]


async def test_deploying_an_environment_starts_services_in_order_of_precedence(stage: Stage) -> None:
    environment, services = await environment_with_all(stage)
    answer = await stage.world.post(f"/environment/{environment.id}/deploy")
    assert answer.status == 202, answer
    await stage.world.settle()
    began = [wanted.service for wanted in stage.world.engine.applied]
    kinds = stage.world.installation.ctx.kinds
    for one in services:
        assert await state(stage, one) == "RUNNING"
        own = kinds[one.family.name].precedence
        waited_for = [other for other in services if kinds[other.family.name].precedence < own]
        assert all(began.index(other.id) < began.index(one.id) for other in waited_for)


async def test_chosen_services_of_every_family_are_deployed_and_stopped_together(stage: Stage) -> None:
    environment, services = await environment_with_all(stage)
    chosen: dict[str, Any] = {f"{one.family.name}s": [to_deploy(one)] for one in services}
    answer = await stage.world.post(f"/environment/{environment.id}/service/deploy", chosen)
    assert answer.status == 202, answer
    await stage.world.settle()
    assert {await state(stage, one) for one in services} == {"RUNNING"}
    ids = {f"{one.family.name}_ids": [one.id] for one in services}
    assert (await stage.world.post(f"/environment/{environment.id}/service/stop", ids)).status == 200
    await stage.world.settle()
    assert {await state(stage, one) for one in services} == {"STOPPED"}
