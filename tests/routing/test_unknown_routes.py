"""A gateway that went on may have routes that the database of its server does not know."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from tests.gateway.routers.town import Instance, calling, request, route
from tests.routing.test_restarting import ServerProcess
from tests.running.clusters import HTTP, STRANGER, TLS, application_on, cluster, deploy, engine_of
from tests.whole import place, until
from tests.world import make_world
from windlass.control.deploying.routes import hold_names, take_over_routes
from windlass.gateway.files import GATEWAY_FOLDER
from windlass.gateway.link import GatewayLink
from windlass.gateway.router import GatewayRouter
from windlass.routers.router import Listen

pytestmark = pytest.mark.slow


@pytest.fixture
async def instance() -> AsyncIterator[Instance]:
    made = Instance("somebody else")
    await made.start()
    yield made
    await made.stop()


@contextlib.asynccontextmanager
async def told(folder: Path, door: str) -> AsyncIterator[GatewayRouter]:
    router = GatewayRouter(GatewayLink(folder / GATEWAY_FOLDER), door, "127.0.0.1", 0)
    await router.start()
    yield router
    await router.stop()


async def status(port: int) -> int:
    async with calling(port) as caller:
        return (await caller.ask(request())).status


async def _answers(port: int, wanted: int) -> bool:
    return await status(port) == wanted


async def test_a_starting_server_removes_routes_of_services_unknown_to_its_database(instance: Instance):
    async with place("process") as there:
        server = ServerProcess(there)
        await server.start()
        async with told(there.folder, "local") as local, told(there.folder, "gone") as gone:
            for router in (local, gone):
                await router.set("ghost", [route([instance.endpoint])])
            ports = local.port, gone.port
        await server.end(signal.SIGTERM)
        assert [await status(port) for port in ports] == [200, 200]
        await server.start()
        await until(partial(_answers, ports[0], 404))
        with pytest.raises(ConnectionError):
            await status(ports[1])
        await server.end(signal.SIGTERM)


async def test_a_router_of_a_cluster_that_no_environment_uses_stays():
    async with make_world() as world:
        east, west = await cluster(world, "east", **TLS, router_port=9001), await cluster(world, "west")
        places = world.installation.ctx.places
        doors = (f"{east}:9001", f"{east}:9002", east, f"{west}:9001", f"{west}:0", STRANGER)
        assert [await places.has_router(door) for door in doors] == [True, *[False] * 5]


async def test_a_starting_server_keeps_routes_of_services_in_its_database():
    async with make_world() as world:
        app = await world.application()
        for service in (app, "ghost"):
            await world.router.set(service, [route(service=service)])
        await world.router.reserve("ghost", [Listen(7000)])
        await take_over_routes(world.installation.ctx)
        assert set(world.router.routes) == {app}
        assert not world.router.listening


async def test_routes_on_a_cluster_that_is_away_stay_when_the_server_restarts():
    async with make_world() as world:
        east = await cluster(world)
        app = await application_on(world, east, ports=[HTTP])
        await deploy(world, app)
        before = world.router.routes[app]
        routing = world.installation.ctx.routing
        routing.looked.clear()
        routing.routers.clear()
        await take_over_routes(world.installation.ctx)
        engine_of(world, east).away = True
        await hold_names(world.installation.ctx, app)
        assert before[0].endpoints
        assert world.router.routes[app] == before
