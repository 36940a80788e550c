"""The name of a service whose first deployment does not serve yet is answered with this reason."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.gateway.routers.town import until
from tests.running.deployments import deployments
from tests.world import World
from windlass.control.deploying.routes import catch_up
from windlass.routers.router import Absence, Route
from windlass.store import route_topic

PORT = {"internal_port": 8000, "publicly_accessible": True, "protocol": "HTTP"}


@asynccontextmanager
async def building(world: World, app: str) -> AsyncIterator[list[str]]:
    """A deployment whose build is under way; yields what replicas were told since it was asked for."""
    words: list[str] = []
    world.installation.ctx.store.listen(words.append)
    world.builder.gate = asyncio.Event()
    assert (await world.post(f"/application/{app}/deploy")).status == 202
    settling = asyncio.create_task(world.settle())
    while await world.state(f"/application/{app}") != "BUILDING":  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    try:
        yield words
    finally:
        world.builder.gate.set()
        await settling


async def interrupted(world: World, app: str) -> None:
    async with asyncio.timeout(30):
        while (await deployments(world, app))[0]["status"] != "CANCELED":  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def routes(world: World, app: str) -> list[Route]:
    await catch_up(world.installation.ctx, app, time.monotonic())
    return [route for route in world.router.routes.get(app, ()) if route.kind == "http"]


async def test_a_route_exists_from_the_beginning_of_the_first_deployment(world):
    app = await world.application(ports=[PORT])
    assert await routes(world, app) == []
    async with building(world, app) as words:
        await until(lambda: route_topic(app) in words)
        (route,) = await routes(world, app)
        assert (route.absence, route.endpoints) == (Absence.FIRST, ())
    (served,) = await routes(world, app)
    assert (served.absence, served.hosts) == (Absence.UNREADY, route.hosts)
    assert served.endpoints


async def test_the_route_of_a_service_shows_that_its_first_deployment_failed(world):
    app = await world.application(ports=[PORT])
    world.builder.broken = "no"
    async with building(world, app) as words:
        assert await routes(world, app)
        words.clear()
    assert await world.state(f"/application/{app}") == "ERROR"
    await until(lambda: route_topic(app) in words)
    (route,) = await routes(world, app)
    assert (route.absence, route.endpoints) == (Absence.FAILED, ())
    world.builder.broken = ""
    async with building(world, app):
        (route,) = await routes(world, app)
        assert route.absence is Absence.DEPLOYING


async def test_cancelling_the_first_deployment_removes_the_route(world):
    app = await world.application(ports=[PORT])
    async with building(world, app) as words:
        assert await routes(world, app)
        words.clear()
        await world.post(f"/application/{app}/cancelDeployment")
        # Before the gate opens: a build that ends first leaves something to serve.
        await interrupted(world, app)
    await until(lambda: route_topic(app) in words)
    assert await routes(world, app) == []


async def test_the_route_of_a_stopped_service_says_that_it_is_stopped(world):
    app = await world.application(ports=[PORT])
    async with building(world, app):
        pass
    for action, absence in (("stop", Absence.STOPPED), ("uninstall", Absence.UNDEPLOYED)):
        await world.post(f"/application/{app}/{action}")
        await world.settle()
        (route,) = await routes(world, app)
        assert (route.absence, route.endpoints) == (absence, ())


async def test_deploying_a_stopped_service_again_is_not_its_first_deployment(world):
    app = await world.application(ports=[PORT])
    async with building(world, app):
        pass
    await world.post(f"/application/{app}/stop")
    await world.settle()
    world.engine.gate = asyncio.Event()
    await world.post(f"/application/{app}/deploy")
    settling = asyncio.create_task(world.settle())
    while await world.state(f"/application/{app}") != "DEPLOYING":  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    (route,) = await routes(world, app)
    assert (route.absence, route.endpoints) == (Absence.DEPLOYING, ())
    world.engine.gate.set()
    await settling


async def test_the_name_of_a_service_that_is_scaled_to_0_says_so(world):
    app = await world.application(ports=[PORT], min_running_instances=0, max_running_instances=0)
    async with building(world, app):
        pass
    (route,) = await routes(world, app)
    assert (route.absence, route.endpoints) == (Absence.NONE_WANTED, ())
    await world.patch(f"/application/{app}", {"min_running_instances": 1, "max_running_instances": 1})
    world.git.push("next")
    async with building(world, app) as words:
        await until(lambda: route_topic(app) in words)
        (route,) = await routes(world, app)
        assert (route.absence, route.endpoints) == (Absence.DEPLOYING, ())
    (route,) = await routes(world, app)
    assert (route.absence, len(route.endpoints)) == (Absence.UNREADY, 1)


async def test_only_a_service_with_zero_wanted_instances_is_reported_as_scaled_to_0(world):
    """The control of the test above."""
    app = await world.application(ports=[PORT], min_running_instances=0, max_running_instances=2)
    async with building(world, app):
        pass
    (route,) = await routes(world, app)
    assert route.absence is Absence.NONE_WANTED
    other = await world.application(name="other", ports=[PORT])
    async with building(world, other):
        pass
    world.engine.instances.clear()
    (route,) = await routes(world, other)
    assert (route.absence, route.endpoints) == (Absence.UNREADY, ())


async def test_a_service_without_public_ports_has_no_route(world):
    app = await world.application()
    async with building(world, app):
        assert await routes(world, app) == []
