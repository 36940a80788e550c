"""Deleting is a deployment: it takes its time, can fail, is told of, and can be repeated or forced."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.running.deployments import deploy, deployed, deployments, under_way
from tests.world import World
from windlass.control.deploying.retry_later import MIN_ATTEMPTS
from windlass.core.access import Scope, permits
from windlass.core.words.events import Event


async def environment_of(world: World, app: str) -> str:
    return str((await world.get(f"/application/{app}"))["environment"]["id"])


async def project_of(world: World, environment: str) -> str:
    return str((await world.get(f"/environment/{environment}"))["project"]["id"])


async def deletion_under_way(world: World, app: str) -> None:
    """Its engine is unavailable, so that it cannot come to its end."""
    world.engine.away = True
    assert (await world.delete(f"/application/{app}")).status == 204

    async def exact() -> str:
        return str((await world.get(f"/application/{app}/status"))["deployment_state"])

    assert await exact() == "DELETE_QUEUED"
    await world.installation.worker.start_due()
    async with asyncio.timeout(30):
        while await exact() != "DELETING":  # noqa: ASYNC110 (a status does not notify)
            await asyncio.sleep(0.01)


async def failed_deletion(world: World) -> str:
    app = await deployed(world)
    world.engine.keeps = "a volume is in use"
    await world.delete(f"/application/{app}")
    await world.settle()
    return app


async def test_a_service_is_deleting_until_it_is_gone(world: World):
    app = await deployed(world)
    await deletion_under_way(world, app)
    assert (await world.get(f"/application/{app}")).status == 200
    status = await world.get(f"/application/{app}/status")
    assert (status["state"], status["status_details"]["action"]) == ("DELETING", "DELETE")
    assert (await deployments(world, app))[0]["action"] == "DELETE"
    world.engine.away = False
    await world.settle()
    for path in (f"/application/{app}", f"/application/{app}/status", f"/application/{app}/deployment"):
        assert (await world.get(path)).status == 404
    assert world.engine.instances == {}
    assert app in world.engine.discarded
    (event,) = await world.events(Event.DELETED)
    assert json.loads(event.body)["before"]["id"] == app


async def test_a_never_deployed_service_is_deleted_immediately(world: World):
    app = await world.application()
    assert (await world.delete(f"/application/{app}")).status == 204
    assert (await world.get(f"/application/{app}")).status == 404


async def test_repeated_delete_requests_create_one_deletion(world: World):
    app = await deployed(world)
    for _ in range(3):
        assert (await world.delete(f"/application/{app}")).status == 204
    assert [one["action"] for one in await deployments(world, app)] == ["DELETE", "DEPLOY"]


async def uninstalled_with(world: World, *scopes: str) -> set[int]:
    """Tries each way to uninstall; returns the statuses of the answers."""
    app = await deployed(world)
    place, token = f"/environment/{await environment_of(world, app)}", await world.new_token(*scopes)
    ways = {f"{place}/service/uninstall": {"application_ids": [app]}, f"{place}/uninstall": {}}
    ways[f"/application/{app}/uninstall"] = {}
    answers = [await world.post(path, body, token=token) for path, body in ways.items()]
    await world.settle()
    assert (app in world.engine.discarded) == any(answer.status < 300 for answer in answers)
    return {answer.status for answer in answers}


async def test_the_scopes_write_and_deploy_do_not_allow_uninstalling_a_service(world: World):
    assert await uninstalled_with(world, "Write", "Deploy") == {403}


async def test_if_admin_operations_required_only_the_deploy_scope_data_could_be_erased(
    world: World, monkeypatch
):
    monkeypatch.setitem(permits._ALLOWED_BY, Scope.ADMIN.value, (Scope.ADMIN | Scope.DEPLOY).value)
    assert await uninstalled_with(world, "Deploy") == {200, 202}


@pytest.mark.parametrize("deed", ["deploy", "redeploy", "restart-service", "stop", "uninstall", "rollback"])
async def test_other_actions_on_a_service_that_is_being_deleted_are_refused(world: World, deed: str):
    app = await deployed(world)
    await deploy(world, app)
    await world.settle()
    await world.delete(f"/application/{app}")
    answer = await world.post(f"/application/{app}/{deed}")
    assert answer.status == 409
    assert "being deleted" in answer["message"] or "no earlier version" in answer["message"]
    assert len(await deployments(world, app)) == 3


@pytest.mark.parametrize("family", ["environmentVariable", "secret"])
async def test_no_variable_is_added_to_a_service_that_is_being_deleted(world: World, family: str):
    app = await deployed(world)
    environment = await environment_of(world, app)
    above = await world.made(f"/environment/{environment}/{family}", {"key": "ABOVE", "value": "1"})
    await world.delete(f"/application/{app}")
    path = f"/application/{app}/{family}"
    for answer in (
        await world.post(path, {"key": "LATE", "value": "1"}),
        await world.post(f"{path}/{above}/override", {"value": "2"}),
        await world.post(f"{path}/{above}/alias", {"key": "OTHER"}),
    ):
        assert (answer.status, "is being deleted" in answer.message) == (409, True), answer
    await world.settle()
    assert (await world.get(f"/application/{app}")).status == 404


async def test_a_deletion_cannot_be_cancelled(world: World):
    app = await deployed(world)
    await world.delete(f"/application/{app}")
    newest = (await deployments(world, app))[0]["id"]
    for path in (f"/application/{app}/cancelDeployment", f"/application/{app}/deployment/{newest}/cancel"):
        answer = await world.post(path)
        assert answer.status == 409
        assert "cannot be cancelled" in answer["message"]
    await world.settle()
    assert (await world.get(f"/application/{app}")).status == 404


async def test_a_deletion_ends_a_deployment_in_progress(world: World):
    world.engine.gate = asyncio.Event()
    app = await world.application()
    first = await deploy(world, app)
    await under_way(world, lambda: world.engine.applied)
    second = await deploy(world, app)
    assert (await world.delete(f"/application/{app}")).status == 204
    world.engine.gate.set()
    await world.settle()
    assert (await world.get(f"/application/{app}")).status == 404
    assert world.engine.instances == {}
    ended = [json.loads(event.body) for event in await world.events(Event.DEPLOYMENT_CANCELLED)]
    assert {event["deployment_id"] for event in ended} == {first, second}


async def test_a_services_name_stays_taken_until_its_deletion_completes(world: World):
    app = await deployed(world, name="shop")
    environment = await environment_of(world, app)
    await world.delete(f"/application/{app}")
    body = {"name": "Shop", "git_repository": {"url": "https://git.example/shop", "branch": "main"}}
    assert (await world.post(f"/environment/{environment}/application", body)).status == 409
    await world.settle()
    assert (await world.post(f"/environment/{environment}/application", body)).status == 201


# It fails


@pytest.mark.usefixtures("short_hold")
async def test_a_deletion_waits_without_a_worker_slot_for_an_unavailable_engine(world: World):
    app = await deployed(world)
    world.engine.away = True
    await world.delete(f"/application/{app}")
    await world.settle()  # comes back: the work waits for a later time
    assert (await deployments(world, app))[0]["status"] == "DEPLOYING"
    world.engine.away = False
    await world.run(10)
    assert (await world.get(f"/application/{app}")).status == 404


@pytest.mark.usefixtures("short_hold")
async def test_a_deletion_fails_when_its_engine_stays_away(world: World):
    app = await deployed(world)
    world.engine.away = True
    await world.delete(f"/application/{app}")
    await world.settle()
    world.clock.turn(world.installation.ctx.settings.ready_seconds)
    for _ in range(MIN_ATTEMPTS):
        await world.settle()
        world.clock.turn(10)
    newest = (await deployments(world, app))[0]
    assert (newest["status"], newest["message"]) == ("FAILED", "The engine does not answer")
    world.engine.away = False


@pytest.mark.usefixtures("short_hold")
async def test_time_during_which_the_server_was_stopped_does_not_fail_a_deletion(world: World):
    app = await deployed(world)
    world.engine.away = True
    await world.delete(f"/application/{app}")
    await world.settle()
    world.clock.turn(10 * world.installation.ctx.settings.ready_seconds)
    await world.settle()
    assert (await deployments(world, app))[0]["status"] == "DEPLOYING"
    world.engine.away = False
    await world.run(10)
    assert (await world.get(f"/application/{app}")).status == 404


async def test_a_failed_deletion_shows_its_reason_and_keeps_the_service(world: World):
    app = await failed_deletion(world)
    status = await world.get(f"/application/{app}/status")
    assert (status["state"], status["deployment_state"]) == ("ERROR", "DELETE_ERROR")
    assert status["message"] == "a volume is in use"
    newest = (await deployments(world, app))[0]
    assert (newest["action"], newest["status"], newest["message"]) == (
        "DELETE", "FAILED", "a volume is in use",
    )  # fmt: skip
    log = (await world.get(f"/application/{app}/deployment/{newest['id']}/log"))["results"]
    assert log[-1]["message"] == "Failed: a volume is in use"
    (event,) = await world.events(Event.DELETE_FAILED)
    assert json.loads(event.body)["deployment_id"] == newest["id"]
    assert await world.events(Event.DELETED) == []


async def test_a_deletion_that_failed_can_be_repeated(world: World):
    app = await failed_deletion(world)
    world.engine.keeps = ""
    assert (await world.delete(f"/application/{app}")).status == 204
    await world.settle()
    assert (await world.get(f"/application/{app}")).status == 404


async def test_a_forced_deletion_completes_immediately_and_erases_data_later(world: World):
    app = await failed_deletion(world)
    assert (await world.delete(f"/application/{app}?skipReconcile=true")).status == 204
    assert (await world.get(f"/application/{app}")).status == 404
    assert await world.installation.ctx.store.reads.deletions.is_deleted(app)
    await world.settle()
    assert app not in world.engine.discarded
    world.engine.keeps = ""
    await world.run(10)
    assert app in world.engine.discarded


async def test_a_service_can_be_deployed_again_after_its_deletion_failed(world: World):
    app = await failed_deletion(world)
    world.engine.keeps = ""
    await deploy(world, app)
    await world.settle()
    assert await world.state(f"/application/{app}") == "RUNNING"


# With all that is in it


async def town(world: World) -> dict[str, Any]:
    """An environment with two services that run and one that was never deployed."""
    first = await deployed(world)
    environment = await environment_of(world, first)
    second = await deployed_in(world, environment)
    idle = await world.application(environment)
    return {
        "first": first,
        "second": second,
        "idle": idle,
        "environment": environment,
        "project": await project_of(world, environment),
    }


async def deployed_in(world: World, environment: str) -> str:
    app = await world.application(environment)
    await deploy(world, app)
    await world.settle()
    return app


@pytest.mark.parametrize("family", ["environment", "project"])
async def test_a_project_or_environment_is_deleted_after_its_last_service(world: World, family: str):
    it = await town(world)
    path = f"/{family}/{it[family]}"
    assert (await world.delete(path)).status == 204
    assert (await world.get(path)).status == 200
    assert await world.state(f"/environment/{it['environment']}") == "QUEUED"
    await world.settle()
    assert (await world.get(path)).status == 404
    for app in (it["first"], it["second"], it["idle"]):
        assert (await world.get(f"/application/{app}")).status == 404
    assert {it["first"], it["second"]} <= set(world.engine.discarded)
    gone = [event.target for event in await world.events(Event.DELETED)]
    assert sorted(gone[:2]) == sorted([it["first"], it["second"]])
    assert gone[2:] == [it[family]]


async def test_nothing_is_added_to_an_environment_that_is_being_deleted(world: World):
    it = await town(world)
    await world.delete(f"/environment/{it['environment']}")
    body = {"name": "late", "type": "POSTGRESQL", "version": "16", "mode": "CONTAINER"}
    answer = await world.post(f"/environment/{it['environment']}/database", body)
    assert answer.status == 409
    assert "being deleted" in answer["message"]
    answer = await world.post(f"/application/{it['idle']}/deploy")
    assert answer.status == 409
    assert "being deleted" in answer["message"]


async def test_no_environment_is_added_to_a_project_that_is_being_deleted(world: World):
    app = await deployed(world)
    environment = (await world.get(f"/application/{app}"))["environment"]["id"]
    project = (await world.get(f"/environment/{environment}"))["project"]["id"]
    world.engine.away = True
    assert (await world.delete(f"/project/{project}")).status == 204
    answer = await world.post(f"/project/{project}/environment", {"name": "late"})
    assert (answer.status, "being deleted" in answer.message) == (409, True)
    world.engine.away = False


async def test_an_environment_stays_when_a_service_of_it_cannot_be_deleted(world: World):
    it = await town(world)
    world.engine.keeps = "a volume is in use"
    await world.delete(f"/environment/{it['environment']}")
    await world.settle()
    assert (await world.get(f"/environment/{it['environment']}")).status == 200
    exact = (await world.get(f"/environment/{it['environment']}/status"))["deployment_state"]
    assert exact == "DELETE_ERROR"
    world.engine.keeps = ""
    await deploy(world, it["idle"])  # nothing waits for its end any more
    await world.settle()
    await world.delete(f"/environment/{it['environment']}")
    await world.settle()
    assert (await world.get(f"/environment/{it['environment']}")).status == 404


async def test_a_forced_deletion_of_the_last_service_ends_the_environment_that_waits_for_it(world: World):
    app = await deployed(world)
    environment = await environment_of(world, app)
    await deletion_under_way(world, app)
    await world.delete(f"/environment/{environment}")
    assert (await world.get(f"/environment/{environment}")).status == 200
    await world.delete(f"/application/{app}?skipReconcile=true")
    assert (await world.get(f"/environment/{environment}")).status == 404
    world.engine.away = False
    await world.settle()
    await world.run(10)
    assert world.engine.instances == {}


async def test_deleting_chosen_services_of_an_environment_keeps_the_others(world: World):
    it = await town(world)
    chosen = {"application_ids": [it["first"], it["idle"]], "database_ids": []}
    await world.post(f"/environment/{it['environment']}/service/delete", chosen)
    assert (await world.get(f"/application/{it['first']}")).status == 200
    assert (await world.get(f"/application/{it['idle']}")).status == 404
    await world.settle()
    assert (await world.get(f"/application/{it['first']}")).status == 404
    assert await world.state(f"/application/{it['second']}") == "RUNNING"


async def test_skip_reconcile_must_be_true_or_false(world: World):
    app = await deployed(world)
    answer = await world.delete(f"/application/{app}?skipReconcile=perhaps")
    assert answer.status == 400
    assert "skipReconcile" in answer["message"]


async def test_the_engine_removes_what_it_keeps_for_a_deleted_environment(world: World):
    """An environment that this database does not know may be one of a later backup."""
    app = await deployed(world)
    deleted, living = await environment_of(world, app), await world.environment()
    world.engine.spaces = frozenset({deleted, living, "unknown"})
    assert (await world.delete(f"/environment/{deleted}")).status == 204
    await world.settle()
    await world.run(1200)
    assert world.engine.spaces == {living, "unknown"}
