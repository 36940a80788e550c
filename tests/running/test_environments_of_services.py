"""Engines learn the environments of services from the control plane, also those of other servers."""

from __future__ import annotations

from tests.running.clusters import application_on, cluster, deploy, engine_of


async def test_each_engine_can_look_up_the_environment_of_a_service(world):
    east = await cluster(world)
    here, there = await world.application(), await application_on(world, east)
    await deploy(world, there)
    for engine, app in ((world.engine, here), (engine_of(world, east), there)):
        environment = (await world.get(f"/application/{app}"))["environment"]["id"]
        assert await engine.find_environments([app, app[::-1], "\0", "x" * 63]) == {app: environment}


async def test_thousands_of_services_are_looked_up_at_once(world):
    ids = [await world.application() for _ in range(3)]
    wanted = [*ids[:2], *(f"{number:08x}{ids[0][8:]}" for number in range(250)), ids[2]]
    assert (await world.engine.find_environments(wanted)).keys() == {*ids}
