"""An engine that rolls out by itself needs nothing of the control plane: it passes for any other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Any, cast

import pytest
from msgspec.structs import replace

from tests.engines.declarative import DeclarativeEngine
from tests.engines.rollouts import Rollouts
from tests.engines.stations import Opener
from tests.world import World, make_world
from windlass.engines.rollout.engine import RolloutEngine
from windlass.engines.workload import Artifact, Instance, Phase
from windlass.routers.router import Endpoint, Route


class DeclarativeRig:
    cannot: Mapping[str, str] = {"programs": "it runs nothing"}

    def __init__(self) -> None:
        self._engine = DeclarativeEngine()

    def opener(self) -> Opener:
        return lambda: self._engine

    async def artifact(self, program: str) -> Artifact:
        return Artifact(kind="image", ref="image")

    async def copies(self, service: str) -> Sequence[tuple[int, int]]:
        return [(pod.generation, pod.index) for pod in await self._engine.all() if pod.service == service]

    async def traces(self, service: str) -> Collection[str]:
        return [pod.id for pod in await self._engine.all() if pod.service == service]

    async def remembered(self) -> bytes:
        return b""


@pytest.fixture
def rig() -> DeclarativeRig:
    return DeclarativeRig()


@pytest.fixture
def engine() -> DeclarativeEngine:
    return DeclarativeEngine()


@pytest.fixture
async def world(engine: DeclarativeEngine) -> AsyncIterator[World]:
    async with make_world(engine=cast(Any, engine)) as made:
        yield made


PORT = {"internal_port": 8000, "publicly_accessible": True, "protocol": "HTTP"}


async def deployed(world: World, **fields: Any) -> str:
    app = await world.application(ports=[PORT], **fields)
    await world.post(f"/application/{app}/deploy")
    await world.settle()
    return app


async def test_an_engine_that_manages_replicas_itself_deploys_scales_and_stops_a_service(
    world: World, engine
):
    assert not isinstance(engine, RolloutEngine)
    app = await deployed(world, min_running_instances=2, max_running_instances=2)
    assert await world.state(f"/application/{app}") == "RUNNING"
    assert engine.replicas[app, 1][1] == 2
    await world.patch(f"/application/{app}", {"min_running_instances": 1, "max_running_instances": 1})
    await world.post(f"/application/{app}/deploy")
    await world.settle()
    assert [key for key in engine.replicas if key[0] == app] == [(app, 2)]
    await world.post(f"/application/{app}/stop")
    await world.settle()
    assert await engine.all() == []


async def test_a_failed_release_is_removed_and_the_older_generation_keeps_serving(world: World, engine):
    app = await deployed(world)
    engine.crashes.add(app)
    await world.post(f"/application/{app}/deploy")
    await world.settle()
    assert "exited with code 1" in str((await world.get(f"/application/{app}/status"))["message"])
    assert [key for key in engine.replicas if key[0] == app] == [(app, 1)]


async def test_an_instance_that_the_engine_calls_unready_is_in_no_route(world: World, engine):
    app = await deployed(world, min_running_instances=2, max_running_instances=2)
    ready, other = engine.pods[app, 1]
    engine.pods[app, 1] = [ready, replace(other, unready="it is busy")]
    world.installation.note_change(app)
    await world.installation.note_changes()
    await world.settle()
    (route,) = cast(Sequence[Route], world.router.routes[app])
    assert len(route.endpoints) == 1
    assert ready.phase is Phase.RUNNING


async def test_a_route_leads_to_the_address_that_the_engine_names_and_to_none_without_one(
    world: World, engine
):
    app = await deployed(world)
    (pod,) = engine.pods[app, 1]
    (route,) = cast(Sequence[Route], world.router.routes[app])
    assert route.endpoints == (Endpoint(pod.address, 8000),)
    with pytest.raises(TypeError, match="address"):  # it would be a port of this machine
        Instance(id="a", service=app, generation=1, index=0, phase=Phase.RUNNING)  # type: ignore[call-arg]


class TestDeclarative(Rollouts):
    """See there; an instance runs a moment after it was declared."""
