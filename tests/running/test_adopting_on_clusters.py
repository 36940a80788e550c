"""A database older than a host starts and ends nothing there, unless it is told to adopt."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.fakes.engine import FakeEngine
from tests.running.clusters import STRANGER, application_on, cluster, deploy, engine_of, status
from tests.world import World
from windlass.control.records.deployments import RECONCILE


async def newer_on(world: World, cluster: str, app: str) -> FakeEngine:
    """Has the host run a deployment that the database does not know, as after a restored backup."""
    engine, ctx = engine_of(world, cluster), world.installation.ctx
    (instance,) = engine.instances.values()
    engine.instances = {(app, 7, 0): replace(instance, id=f"{app}-7-0", generation=7)}
    ctx.places.examined.clear()
    return engine


async def test_with_an_older_database_no_instance_on_a_cluster_is_started_or_ended(world):
    east = await cluster(world)
    app = await application_on(world, east)
    await deploy(world, app)
    engine = await newer_on(world, east, app)
    begun = engine.begun
    await world.installation.ctx.store.write(lambda tx: tx.work.schedule(RECONCILE, app))
    await world.settle()
    assert (await world.post(f"/application/{app}/stop")).status == 202
    await world.settle()
    assert [*engine.instances] == [(app, 7, 0)]
    assert engine.begun == begun
    seen = await status(world, east)
    assert (seen["status"], seen["is_deployed"]) == ("DEPLOYMENT_ERROR", False)
    assert seen["message"].startswith("Ask the operator of this server to start it with its newest database")


async def test_with_adopt_instances_from_a_newer_database_are_stopped_before_own_ones_start(world):
    east = await cluster(world)
    app = await application_on(world, east)
    await deploy(world, app)
    engine = await newer_on(world, east, app)
    world.installation.ctx.places.adopts = True
    await world.installation.ctx.store.write(lambda tx: tx.work.schedule(RECONCILE, app))
    await world.settle()
    assert [*engine.instances] == [(app, 1, 0)]
    await deploy(world, app)
    assert [*engine.instances] == [(app, 8, 0)], "no number stands for two deployments"
    assert (await status(world, east))["is_deployed"] is True


@pytest.mark.parametrize("adopts", [False, True])
async def test_unknown_services_of_another_host_are_set_aside_only_with_adopt(world, adopts):
    east = await cluster(world)
    app = await application_on(world, east)
    await deploy(world, app)
    engine, ctx = engine_of(world, east), world.installation.ctx
    ctx.places.adopts = adopts
    instance = engine.instances[app, 1, 0]
    engine.instances[STRANGER, 1, 0] = replace(instance, id="x", service=STRANGER)
    await world.run(700)
    assert ((STRANGER, 1, 0) in engine.instances) is not adopts
    assert (app, 1, 0) in engine.instances
    assert not engine.discarded
    seen = await status(world, east)
    assert seen["is_deployed"] is True
    assert (STRANGER in seen["message"]) is not adopts
