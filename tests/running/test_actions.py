"""A service is cancelled, stopped, restarted, rolled back, uninstalled and deleted."""

from __future__ import annotations

import asyncio

import pytest

from tests.running.deployments import deploy, deployed, deployment, deployments, generations, under_way
from tests.world import World


async def test_a_waiting_deployment_is_cancelled_at_once(world: World):
    app = await world.application()
    id = await deploy(world, app)
    answer = await world.post(f"/application/{app}/cancelDeployment")
    assert answer.status == 202
    assert (await deployment(world, app, id))["status"] == "CANCELED"
    await world.settle()
    assert world.builder.built == []


@pytest.mark.parametrize("where", ["building", "starting"])
async def test_a_cancelled_deployment_leaves_the_earlier_release_running(world: World, where: str):
    app = await deployed(world)
    world.git.push("a change")
    gate = asyncio.Event()
    (world.builder if where == "building" else world.engine).gate = gate
    id = await deploy(world, app)
    begun = {
        "building": lambda: len(world.builder.built) == 2,
        "starting": lambda: len(world.engine.applied) == 2,
    }
    await under_way(world, begun[where])
    answer = await world.post(f"/application/{app}/deployment/{id}/cancel")
    assert (answer.status, answer["deployment_state"]) == (202, "CANCELING")
    await world.settle()
    one = await deployment(world, app, id)
    assert one["status"] == "CANCELED"
    assert one["message"].startswith("Cancelled by")
    assert generations(world, app) == [1]
    assert world.router.routes[app][0].endpoints


async def test_an_ended_deployment_cannot_be_cancelled(world: World):
    app = await deployed(world)
    (one,) = await deployments(world, app)
    assert (await world.post(f"/application/{app}/cancelDeployment")).status == 409
    answer = await world.post(f"/application/{app}/deployment/{one['id']}/cancel")
    assert answer.status == 409
    assert "SUCCEEDED" in answer.message


async def test_a_stopped_application_has_no_instances_and_can_be_deployed_again(world: World):
    app = await deployed(world)
    await world.post(f"/application/{app}/stop")
    await world.settle()
    assert generations(world, app) == []
    assert (await world.get(f"/application/{app}/status"))["deployment_state"] == "STOPPED"
    assert world.router.routes[app][0].endpoints == ()
    await deploy(world, app)
    await world.settle()
    assert generations(world, app) == [3]


async def test_a_restart_replaces_the_instances_and_builds_nothing(world: World):
    app = await deployed(world)
    await world.post(f"/application/{app}/environmentVariable", {"key": "LATER", "value": "1"})
    await world.post(f"/application/{app}/restart-service")
    await world.settle()
    assert generations(world, app) == [2]
    assert len(world.builder.built) == 1
    assert "LATER" not in world.engine.running[app].variables
    status = await world.get(f"/application/{app}/status")
    assert (status["deployment_state"], status["service_deployment_status"]) == ("RESTARTED", "OUT_OF_DATE")


async def test_a_redeploy_uses_the_same_commit_with_new_settings(world: World):
    app = await deployed(world)
    first = world.git.newest
    world.git.push("a change")
    await world.post(f"/application/{app}/environmentVariable", {"key": "LATER", "value": "1"})
    await world.post(f"/application/{app}/redeploy")
    await world.settle()
    assert (await deployments(world, app))[0]["git_commit_id"] == first
    assert world.engine.running[app].variables["LATER"] == "1"


async def test_a_rollback_starts_the_earlier_build_without_building(world: World):
    app = await deployed(world)
    first = (await deployments(world, app))[0]
    world.git.push("a bad change")
    await deploy(world, app)
    await world.settle()
    answer = await world.post(f"/application/{app}/rollback", {"deployment_id": first["id"]})
    assert answer.status == 202
    await world.settle()
    assert len(world.builder.built) == 2
    assert world.engine.running[app].artifact.key == world.builder.built[0].key
    newest = (await deployments(world, app))[0]
    assert (newest["git_commit_id"], newest["repeats"]) == (first["git_commit_id"], first["id"])
    shown = (await world.get(f"/application/{app}"))["git_repository"]
    assert shown["deployed_commit_id"] == first["git_commit_id"]


async def test_a_rollback_without_a_successful_deployment_is_refused_with_advice(world: World):
    app = await world.application(name="shop")
    answer = await world.post(f"/application/{app}/rollback")
    assert answer.status == 409
    assert answer["message"].startswith("Deploy shop first: no deployment of it has succeeded")


async def test_a_rollback_without_a_version_deploys_the_previous_one(world: World):
    app = await deployed(world)
    first = (await deployments(world, app))[0]["git_commit_id"]
    for change in ("second", "third"):
        world.git.push(change)
        await deploy(world, app)
        await world.settle()
    second = (await deployments(world, app))[1]["git_commit_id"]
    await world.post(f"/application/{app}/rollback")
    await world.settle()
    shown = (await world.get(f"/application/{app}"))["git_repository"]["deployed_commit_id"]
    assert shown == second != first


async def test_a_rollback_to_v2_deploys_the_second_deployment(world: World):
    app = await deployed(world)
    for change in ("second", "third"):
        world.git.push(change)
        await deploy(world, app)
        await world.settle()
    answer = await world.post(f"/application/{app}/rollback", {"deployment_id": "v2"})
    assert answer.status == 202
    await world.settle()
    assert world.engine.running[app].artifact.key == world.builder.built[1].key


async def test_a_rollback_to_an_unknown_or_malformed_version_is_refused(world: World):
    app, other = await deployed(world), await deployed(world)
    await deploy(world, other)
    await world.settle()
    answer = await world.post(f"/application/{app}/rollback", {"deployment_id": "v2"})
    assert (answer.status, "v2 is none of them" in answer.message) == (404, True)
    for malformed in ("v0", "3", "v", "v-1", "v1\n", "version 1"):
        answer = await world.post(f"/application/{app}/rollback", {"deployment_id": malformed})
        assert (answer.status, "a version such as v3" in answer.message) == (400, True), malformed


async def test_a_rollback_to_a_failed_deployment_or_one_of_another_service_is_refused(world: World):
    app, other = await deployed(world), await deployed(world)
    strange = (await deployments(world, other))[0]["id"]
    answer = await world.post(f"/application/{app}/rollback", {"deployment_id": strange})
    assert (answer.status, answer.message.split(":")[0]) == (404, "deployment_id")
    world.builder.broken = "no"
    world.git.push("broken")
    failed = await deploy(world, app)
    await world.settle()
    assert (await world.post(f"/application/{app}/rollback", {"deployment_id": failed})).status == 409


async def test_an_uninstalled_application_leaves_only_its_settings(world: World):
    app = await deployed(world)
    await world.post(f"/application/{app}/uninstall")
    await world.settle()
    assert app in world.engine.discarded
    status = await world.get(f"/application/{app}/status")
    assert (status["deployment_state"], status["service_deployment_status"]) == ("READY", "NEVER_DEPLOYED")
    assert (await world.post(f"/application/{app}/uninstall")).status == 204


async def test_deleting_a_service_removes_its_instances_routes_builds_and_data(world: World):
    app = await deployed(world)
    assert (await world.delete(f"/application/{app}")).status == 204
    await world.settle()
    assert (await world.get(f"/application/{app}/status")).status == 404
    assert generations(world, app) == []
    assert app in world.engine.discarded
    assert app not in world.router.routes
    assert not [key for key in world.builder.kept if key[0] == app]


async def test_deletion_during_a_deployment_leaves_nothing(world: World):
    world.engine.gate = asyncio.Event()
    app = await world.application()
    await deploy(world, app)
    await under_way(world, lambda: world.engine.applied)
    await world.delete(f"/application/{app}")
    world.engine.gate.set()
    await world.settle()
    await world.run(seconds=700)
    assert generations(world, app) == []


async def test_a_deleted_project_stops_its_services(world: World):
    project = await world.project()
    environment = await world.environment(project)
    app = await world.application(environment)
    await deploy(world, app)
    await world.settle()
    await world.delete(f"/project/{project}")
    await world.settle()
    assert generations(world, app) == []


async def test_each_service_has_its_own_build_cache_secret(world: World):
    apps = [await deployed(world), await deployed(world)]
    secrets = {order.service: order.cache_secret for order in world.builder.built}
    assert set(secrets) == set(apps)
    assert len(set(secrets.values()) - {""}) == 2
