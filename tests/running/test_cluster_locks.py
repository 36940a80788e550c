"""Locked clusters: nothing is deployed there, what runs goes on, and the reason is told."""

from __future__ import annotations

from tests.running.clusters import application_on, cluster, deploy, status
from tests.running.deployments import deployed, deployments
from tests.running.test_auto_deploy import commits, look, said
from tests.running.test_rebuilding import lose_builds
from tests.world import World

REASON = "The disk is being replaced"


async def local_cluster(world: World) -> str:
    (local,) = [
        one
        for one in (await world.get(f"/organization/{world.org}/cluster"))["results"]
        if one["name"] == "local"
    ]
    return str(local["id"])


async def lock(world: World, id: str, **fields: object) -> None:
    locked = await world.post(f"/cluster/{id}/lock", {"reason": REASON, **fields})
    assert (locked.status, locked["cluster_id"], locked["reason"]) == (200, id, REASON)


async def test_deployments_on_a_locked_cluster_are_refused_with_the_reason(world: World):
    app, id = await deployed(world), await local_cluster(world)
    await lock(world, id)
    for action in ("deploy", "redeploy", "restart-service"):
        refused = await world.post(f"/application/{app}/{action}")
        assert refused.status == 409, action
        assert refused.message.startswith("Ask operator to remove the lock of the cluster local:"), action
        assert refused.message.endswith(REASON)
    assert await world.state(f"/application/{app}") == "RUNNING"
    assert (await world.delete(f"/cluster/{id}/lock")).status == 204
    assert (await world.post(f"/application/{app}/deploy")).status == 202


async def test_other_clusters_are_not_locked(world: World):
    east = await cluster(world)
    await lock(world, await local_cluster(world))
    await deploy(world, await application_on(world, east))


async def test_services_of_a_locked_cluster_can_be_stopped_and_deleted(world: World):
    app = await deployed(world)
    await lock(world, await local_cluster(world))
    assert (await world.post(f"/application/{app}/stop")).status == 202
    await world.settle()
    assert await world.state(f"/application/{app}") == "STOPPED"
    assert (await world.delete(f"/application/{app}")).status == 204


async def test_a_commit_pushed_during_a_lock_is_deployed_after_it(world: World):
    app, id = await deployed(world, auto_deploy=True), await local_cluster(world)
    first = world.git.newest
    await lock(world, id)
    second = world.git.push("second")
    await look(world)
    assert await commits(world, app) == [first]
    assert REASON in await said(world, app)
    await world.delete(f"/cluster/{id}/lock")
    for _ in range(3):
        await look(world)
    assert await commits(world, app) == [second, first]


async def test_a_lost_build_is_built_again_on_a_locked_cluster(world: World):
    app = await deployed(world)
    await lock(world, await local_cluster(world))
    await lose_builds(world)
    await world.settle()
    assert await world.state(f"/application/{app}") == "RUNNING"
    assert len(await deployments(world, app)) == 2


async def test_a_lock_with_a_limit_ends_by_itself(world: World):
    app, id = await deployed(world), await local_cluster(world)
    await lock(world, id, ttl_in_days=1)
    refused = await world.post(f"/application/{app}/deploy")
    assert (refused.status, ", or wait until 20" in refused.message) == (409, True)
    world.clock.turn(24 * 3600)
    assert (await world.get(f"/organization/{world.org}/lock"))["results"] == []
    assert "cluster_lock" not in (await status(world, id)).json
    assert (await world.post(f"/application/{app}/deploy")).status == 202


async def test_the_newer_of_two_locks_holds(world: World):
    id = await local_cluster(world)
    await lock(world, id, ttl_in_days=1)
    await lock(world, id)
    (only,) = (await world.get(f"/organization/{world.org}/lock"))["results"]
    assert (only["reason"], only["owner_name"], "ttl_in_days" in only) == (REASON, "operator", False)


async def test_a_lock_is_shown_where_a_cluster_is_read_and_survives_a_change(world: World):
    id = await local_cluster(world)
    path = f"/organization/{world.org}/cluster/{id}"
    await lock(world, id)
    assert (await world.patch(path, {"description": "The machine under the desk"})).status == 200
    assert (await world.get(path))["cluster_lock"]["reason"] == REASON
    assert (await status(world, id))["cluster_lock"]["reason"] == REASON
    assert (await world.get(f"{path}/isReady"))["is_ready"] is False
    for _ in range(2):
        assert (await world.delete(f"/cluster/{id}/lock")).status == 204
    assert "cluster_lock" not in (await world.get(path)).json
    assert (await world.get(f"{path}/isReady"))["is_ready"] is True


async def test_only_an_admin_locks_and_unlocks_a_cluster(world: World):
    id = await local_cluster(world)
    world.token = await world.new_token("deploy", "write")
    assert (await world.post(f"/cluster/{id}/lock", {"reason": REASON})).status == 403
    assert (await world.delete(f"/cluster/{id}/lock")).status == 403
    assert (await world.get(f"/organization/{world.org}/lock"))["results"] == []


async def test_the_statuses_and_the_environments_of_clusters_are_listed(world: World):
    east, local = await cluster(world, "east"), await local_cluster(world)
    app = await application_on(world, east)
    statuses = (await world.get(f"/organization/{world.org}/cluster/status"))["results"]
    assert {one["cluster_id"]: one["status"] for one in statuses} == {east: "DEPLOYED", local: "DEPLOYED"}
    (only,) = (await world.get(f"/cluster/{east}/environments"))["results"]
    assert [(one["id"], one["type"]) for one in only["services"]] == [(app, "APPLICATION")]
    assert all(only[name] for name in ("environment_name", "project_name"))
    assert app not in str((await world.get(f"/cluster/{local}/environments")).json)
