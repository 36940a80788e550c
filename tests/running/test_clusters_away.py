"""Clusters that are away: services are left alone, and what is deleted meanwhile is erased on return."""

from __future__ import annotations

from tests.running.clusters import KEY, TLS, application_on, cluster, deploy, engine_of, status

# Away


async def test_services_of_an_unavailable_engine_are_left_running_and_continue_when_it_is_back(world):
    east = await cluster(world)
    app = await application_on(world, east)
    await deploy(world, app)
    engine = engine_of(world, east)
    engine.away = True
    said = await status(world, east)
    assert (said["status"], said["is_deployed"], said["is_connected"]) == ("DEPLOYMENT_ERROR", False, True)
    assert said["message"]
    await world.run(1200)
    assert len(engine.instances) == 1
    shown = await world.get(f"/application/{app}/status")
    assert shown["state"] == "UNAVAILABLE"
    assert "Its last known state is RUNNING" in shown["message"]
    engine.away = False
    assert (await status(world, east))["status"] == "DEPLOYED"
    assert await world.state(f"/application/{app}") == "RUNNING"
    await deploy(world, app)
    assert len(engine.instances) == 1


async def test_an_unavailable_engine_does_not_delay_deletions_on_other_engines(world):
    east = await cluster(world)
    await deploy(world, await application_on(world, east))
    engine_of(world, east).away = True
    app = await world.application()
    await deploy(world, app)
    assert (await world.delete(f"/application/{app}")).status == 204
    await world.run(1200)
    assert not world.engine.instances


# Deleted while away


async def test_data_of_a_deleted_service_on_a_host_that_was_away_is_erased_on_its_return(world):
    """The data is also erased after a restart, when nothing else is on the cluster."""
    east = await cluster(world)
    app = await application_on(world, east)
    await deploy(world, app)
    engine, ctx = engine_of(world, east), world.installation.ctx
    parent = (await world.get(f"/application/{app}"))["environment"]["id"]
    engine.away = True
    assert (await world.delete(f"/application/{app}?skipReconcile=true")).status == 204
    assert (await world.delete(f"/environment/{parent}")).status == 204
    await world.run(700)
    path = f"/organization/{world.org}/cluster/{east}"
    answer = await world.delete(path)
    assert answer.status == 409
    assert answer.message.startswith("Start the engine of this cluster")
    elsewhere = {"engine_address": "tcp://10.0.0.6:2376", "engine_key": KEY}
    assert (await world.patch(path, elsewhere)).status == 409
    ctx.places._open.clear()
    await ctx.places.start(
        world.installation.note_change, ctx.logs.take, world.installation.instance_check.note
    )
    engine.away = False
    await world.run(700)
    assert set(engine.discarded) == {app}
    assert (await world.delete(path)).status == 204


async def test_a_lost_cluster_can_be_disconnected_and_deleted_after_forced_deletions(world):
    east = await cluster(world)
    app = await application_on(world, east)
    await deploy(world, app)
    parent = (await world.get(f"/application/{app}"))["environment"]["id"]
    engine_of(world, east).away = True
    await world.delete(f"/application/{app}?skipReconcile=true")
    await world.delete(f"/environment/{parent}")
    await world.settle()
    path = f"/organization/{world.org}/cluster/{east}"
    nothing = dict.fromkeys(TLS) | {"engine_key": ""}
    assert (await world.patch(path, nothing)).status == 200
    assert (await world.delete(path)).status == 204


async def test_a_deletion_of_a_service_reaches_only_its_own_engine(world):
    east, west = await cluster(world, "east"), await cluster(world, "west")
    app, other = await application_on(world, east), await application_on(world, west)
    await deploy(world, app)
    await deploy(world, other)
    assert (await world.delete(f"/application/{app}")).status == 204
    await world.settle()
    assert set(engine_of(world, east).discarded) == {app}
    assert engine_of(world, west).discarded == world.engine.discarded == []
