"""A service keeps a bounded amount however often it is deployed: the newest workloads, and what runs."""

from __future__ import annotations

from tests.running.deployments import deploy, deployed, deployments, generations
from tests.world import World
from windlass.control.records import deployments as records
from windlass.control.records.deployments import KEPT_WORKLOADS


async def with_workload(world: World, app: str) -> list[int]:
    """The numbers of the deployments that keep their workload, oldest first."""
    reads = world.installation.ctx.store.reads
    rows = [await reads.deployments.get(row.id) for row in await reads.deployments.latest(app, 1000)]
    return sorted(row.number for row in rows if row and row.sealed is not None)


async def deploy_often(world: World, app: str, times: int) -> None:
    for _ in range(times):
        await deploy(world, app)
        await world.settle()


async def test_only_the_newest_deployments_keep_their_workloads_and_an_older_one_can_be_restored(
    world: World,
):
    app = await deployed(world)
    world.git.push("another version")
    await deploy_often(world, app, KEPT_WORKLOADS + 4)
    last = KEPT_WORKLOADS + 5
    assert await with_workload(world, app) == [*range(last - KEPT_WORKLOADS + 1, last + 1)]
    first = (await deployments(world, app))[-1]
    assert first["number"] == 1
    assert first["message"] == ""
    answer = await world.post(f"/application/{app}/rollback", {"deployment_id": first["id"]})
    assert answer.status == 202, answer
    await world.settle()
    newest = (await deployments(world, app))[0]
    assert (newest["status"], newest["git_commit_id"]) == ("SUCCEEDED", first["git_commit_id"])


async def test_the_workload_that_serves_stays_however_many_deployments_fail_after_it(world: World):
    app = await deployed(world)
    world.git.push("a version that cannot be built")
    world.builder.broken = "it does not compile"
    await deploy_often(world, app, KEPT_WORKLOADS + 4)
    assert 1 in await with_workload(world, app)
    world.engine.instances.clear()
    world.installation.note_change(app)
    await world.installation.note_changes()
    await world.settle()
    assert generations(world, app) == [1]


async def test_the_last_workload_of_a_stopped_service_stays(world: World):
    app = await deployed(world)
    await world.post(f"/application/{app}/stop")
    await world.settle()
    world.git.push("a version that cannot be built")
    world.builder.broken = "it does not compile"
    await deploy_often(world, app, KEPT_WORKLOADS + 4)
    assert await with_workload(world, app) == [1]


async def test_deployments_of_long_ago_do_not_keep_their_settings(world: World, monkeypatch):
    monkeypatch.setattr(records, "KEPT_INPUTS", 3)
    app = await deployed(world)
    world.git.push("another version")
    await deploy_often(world, app, 4)
    reads = world.installation.ctx.store.reads
    kept = [
        row.number
        for row in await reads.deployments.latest(app, 10)
        if await reads.deployment_inputs.get(row.id)
    ]
    assert kept == [5, 4, 3]
    first = (await deployments(world, app))[-1]
    difference = await world.get(f"/application/{app}/rollbackDifference?deployment_id={first['id']}")
    assert difference.status == 200, difference
    answer = await world.post(f"/application/{app}/rollback", {"deployment_id": first["id"]})
    assert answer.status == 202, answer
    await world.settle()
    assert await world.state(f"/application/{app}") == "RUNNING"


async def test_versions_of_a_secret_are_kept_as_long_as_a_deployment_that_ran_with_them(
    world: World, monkeypatch
):
    monkeypatch.setattr(records, "KEPT_INPUTS", 3)
    app = await deployed(world)
    secret = (await world.post(f"/application/{app}/secret", {"key": "TOKEN", "value": "0"}))["id"]
    await deploy_often(world, app, 1)
    for value in range(1, 6):
        await world.put(f"/application/{app}/secret/{secret}", {"key": "TOKEN", "value": str(value)})
        await deploy_often(world, app, 1)
    kept = world.installation.ctx.store.reads.deployment_inputs
    versions = await kept.of_holder(app, "secret")
    assert len(versions) == 3
    assert all(version.sealed for version in versions)
    answer = await world.post(f"/application/{app}/rollback", {"deployment_id": "v5"})
    assert answer.status == 202, answer
    await world.settle()
    assert (await deployments(world, app))[0]["status"] == "SUCCEEDED"


async def test_a_version_that_an_earlier_and_a_kept_deployment_ran_with_stays(world: World, monkeypatch):
    monkeypatch.setattr(records, "KEPT_INPUTS", 3)
    app = await deployed(world)
    secret = (await world.post(f"/application/{app}/secret", {"key": "TOKEN", "value": "former"}))["id"]
    await deploy_often(world, app, 3)
    await world.put(f"/application/{app}/secret/{secret}", {"key": "TOKEN", "value": "present"})
    await deploy_often(world, app, 2)
    kept = world.installation.ctx.store.reads.deployment_inputs
    assert len(await kept.of_holder(app, "secret")) == 2
    answer = await world.post(f"/application/{app}/rollback", {"deployment_id": "v4"})
    assert answer.status == 202, answer
