"""The state of the addresses of a service, as existing clients read it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.fakes.engine import FakeEngine
from tests.running.deployments import PORT, deploy, deployed, under_way
from tests.world import World, make_world


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with make_world(engine=FakeEngine("image")) as made:
        yield made


async def ingress(world: World, path: str) -> str:
    answer = await world.get(f"{path}/ingressDeploymentStatus")
    assert (answer.status, answer["routerId"]) == (200, path.rpartition("/")[2])
    return str(answer["status"])


async def test_the_ingress_status_is_deployed_while_a_release_serves(world: World):
    app = await world.application(ports=[PORT])
    path = f"/application/{app}"
    assert await ingress(world, path) == "READY"
    await deploy(world, app)
    await world.settle()
    assert await ingress(world, path) == "DEPLOYED"
    world.git.push("a change")
    world.builder.gate = asyncio.Event()
    await deploy(world, app)
    await under_way(world, lambda: len(world.builder.built) == 2)
    assert await ingress(world, path) == "DEPLOYED", "the earlier release goes on answering"
    world.builder.gate.set()
    await world.settle()
    await world.post(f"{path}/stop")
    await world.settle()
    assert await ingress(world, path) == "STOPPED"


async def test_the_ingress_status_of_a_service_without_a_public_port_is_ready(world: World):
    app = await deployed(world, ports=[{"internal_port": 8080, "publicly_accessible": False}])
    assert await ingress(world, f"/application/{app}") == "READY"


async def test_the_ingress_status_of_a_failed_first_release_is_deployment_error(world: World):
    world.engine.broken = "no room"
    app = await world.application(ports=[PORT])
    await deploy(world, app)
    await world.settle()
    status = await world.get(f"/application/{app}/status")
    assert await ingress(world, f"/application/{app}") == status["deployment_state"] == "DEPLOYMENT_ERROR"


async def noticed(world: World) -> None:
    """As the installation does with what an engine tells."""
    await world.installation.note_changes()
    await world.settle()


async def test_the_ingress_status_without_a_ready_instance_is_unavailable(world: World):
    app = await deployed(world)
    world.engine.ends(app, "exited with code 3")
    await noticed(world)
    status = await world.get(f"/application/{app}/status")
    assert (status["state"], status["ready_instances"]) == ("ERROR", 0)
    assert await ingress(world, f"/application/{app}") == "UNAVAILABLE"
    world.engine.recovers(app)
    await noticed(world)
    assert await ingress(world, f"/application/{app}") == "DEPLOYED", "the control"


async def test_containers_and_databases_have_an_ingress_status(world: World):
    environment = await world.environment()
    image = {"name": "cache", "image_name": "acme/cache", "tag": "1.0"}
    container = await world.made(f"/environment/{environment}/container", image)
    database = await world.database(environment)
    for path in (f"/container/{container}", f"/database/{database}"):
        assert await ingress(world, path) == "READY"


async def test_the_ingress_status_is_visible_to_every_caller_who_may_read_the_service(world: World):
    app = await world.application()
    path = f"/application/{app}/ingressDeploymentStatus"
    read = await world.new_token("Read")
    _, foreign = await world.organization()
    assert (await world.get(path, token=read)).status == 200
    assert (await world.get(path, token=foreign)).status == 404
