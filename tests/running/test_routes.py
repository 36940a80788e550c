"""Routes are set by several hands: what was seen earlier never takes the place of what was seen later."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from tests.fakes.engine import FakeEngine
from tests.world import World, make_world
from windlass.control.deploying.routes import catch_up, refresh
from windlass.engines.engine import EngineUnavailable
from windlass.engines.workload import Instance, Observation, Workload

PORT = {"internal_port": 8000, "publicly_accessible": True, "protocol": "HTTP"}


class Pensive(FakeEngine):
    """Thinks over what it has seen, as long as the test says."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.go_on = asyncio.Event(), asyncio.Event()
        self.go_on.set()
        self.looks, self.seconds = 0, 0.0

    async def run(self, wanted: Workload, index: int) -> Instance:
        """Each at ports of its own."""
        made = await super().run(wanted, index)
        key = next(key for key, one in self.instances.items() if one.id == made.id)
        ports = {inside: port + wanted.generation for inside, port in made.ports.items()}
        self.instances[key] = replace(made, ports=ports)
        return self.instances[key]

    async def observe(self, service: str) -> Observation:
        self.looks += 1
        until = time.perf_counter() + self.seconds
        while time.perf_counter() < until:
            pass
        seen = await super().observe(service)
        if not self.go_on.is_set() and not self.asked.is_set():
            self.asked.set()
            await self.go_on.wait()
        return seen


@pytest.fixture
def engine():
    return Pensive()


@pytest.fixture
async def world(database_url, engine):
    async with make_world(database_url, engine=engine) as made:
        yield made


async def deploy(world: World, app: str) -> None:
    assert (await world.post(f"/application/{app}/deploy")).status == 202
    await world.settle()


async def begun_to_look(world: World, engine: Pensive, app: str) -> asyncio.Task[Sequence[Instance]]:
    """It has seen what was deployed, and goes on when the test says so."""
    await deploy(world, app)
    engine.go_on.clear()
    slow = asyncio.create_task(refresh(world.installation.ctx, app))
    await engine.asked.wait()
    return slow


async def test_routes_read_before_a_release_do_not_overwrite_the_new_routes(world, engine):
    app = await world.application(ports=[PORT])
    slow = await begun_to_look(world, engine, app)
    releasing = asyncio.create_task(deploy(world, app))
    await asyncio.wait([releasing], timeout=0.7)  # it may have to wait, and must not have gone by
    engine.go_on.set()
    await asyncio.gather(slow, releasing)
    led = {endpoint.port for route in world.router.routes[app] for endpoint in route.endpoints}
    (instance,) = [one for one in engine.instances.values() if one.service == app]
    assert led == {*instance.ports.values()}


async def test_routes_read_before_a_deletion_are_not_set_again(world, engine):
    app = await world.application(ports=[PORT])
    slow = await begun_to_look(world, engine, app)
    await world.delete(f"/application/{app}")
    settling = asyncio.create_task(world.settle())
    await asyncio.sleep(0.1)
    engine.go_on.set()
    await asyncio.gather(slow, settling)
    assert app not in world.router.routes


async def test_routes_already_read_since_a_change_are_not_read_again(world, engine):
    app, ctx = await world.application(ports=[PORT]), world.installation.ctx
    before = time.monotonic()
    await deploy(world, app)
    looks = engine.looks
    await catch_up(ctx, app, before)
    assert engine.looks == looks
    await catch_up(ctx, app, time.monotonic())
    assert engine.looks == looks + 1


async def test_a_failed_read_of_routes_does_not_count_as_read(world, engine):
    app, ctx = await world.application(ports=[PORT]), world.installation.ctx
    await deploy(world, app)
    since = time.monotonic()
    engine.away = True
    with pytest.raises(EngineUnavailable):
        await catch_up(ctx, app, since)
    engine.away = False
    looks = engine.looks
    await catch_up(ctx, app, since)
    assert engine.looks == looks + 1


async def test_other_tasks_run_while_the_routes_of_many_services_are_set(world, engine):
    apps = [await world.application(name=f"web-{number}", ports=[PORT]) for number in range(3)]
    for app in apps:
        await deploy(world, app)
    routes, before, seen = world.installation.routes, engine.looks, set()
    engine.seconds = 0.005  # longer than a part of a FairShare
    routes.note(apps)
    setting = asyncio.create_task(routes.catch_up(60))
    while not setting.done():
        seen.add(engine.looks - before)
        await asyncio.sleep(0)
    assert {1, 2} <= seen
    assert engine.looks == before + 3
