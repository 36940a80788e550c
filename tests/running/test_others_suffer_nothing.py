"""The engine of a cluster that hangs, or tells of what is not its own, holds up and changes nothing else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from tests.running.clusters import application_on, cluster, deploy, engine_of
from tests.world import World, make_world
from windlass.control.background import all_places, housekeeping
from windlass.control.background.worker import QUICK_SLOTS
from windlass.control.context import engine_scope
from windlass.control.context.engine_scope import EngineScope
from windlass.control.context.place import Place
from windlass.engines.workload import Usage

# Erasing


async def erasing(world: World) -> tuple[set[str], asyncio.Task[None]]:
    """More deleted services than there are slots on a cluster whose engine hangs, and the worker."""
    east, hanging = await cluster(world), set[str]()
    apps = [await application_on(world, east) for _ in range(QUICK_SLOTS + 2)]
    for app in apps:
        await deploy(world, app)

    async def hangs(service: str) -> None:
        hanging.add(service)
        await asyncio.Event().wait()

    engine: Any = engine_of(world, east)
    engine.discard = hangs
    for app in apps:
        assert (await world.delete(f"/application/{app}?skipReconcile=true")).status == 204
    return hanging, asyncio.create_task(world.installation.worker.run())


async def ended(working: asyncio.Task[None], world: World) -> None:
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    await world.installation.worker.stop()


async def test_a_hanging_engine_that_erases_data_leaves_worker_slots_for_other_deletions():
    async with make_world() as world:
        local = await world.application()
        await deploy(world, local)
        hanging, working = await erasing(world)
        assert (await world.delete(f"/application/{local}?skipReconcile=true")).status == 204
        async with asyncio.timeout(20):
            while local not in world.engine.discarded:  # noqa: ASYNC110 (the fake does not notify)
                await asyncio.sleep(0.001)
        assert len(hanging) == housekeeping.ERASED_AT_ONCE
        await ended(working, world)


async def test_without_the_limit_a_hanging_engine_would_use_all_housekeeping_slots(monkeypatch):
    monkeypatch.setattr(housekeeping, "ERASED_AT_ONCE", 1000)
    async with make_world() as world:
        hanging, working = await erasing(world)
        async with asyncio.timeout(20):
            while len(hanging) < QUICK_SLOTS:  # noqa: ASYNC110 (the fake does not notify)
                await asyncio.sleep(0.001)
        assert await world.installation.worker.start_due() == 0
        await ended(working, world)


async def test_a_sweep_erases_the_data_that_a_slow_engine_left():
    async with make_world() as world:
        east = await cluster(world)
        apps = [await application_on(world, east) for _ in range(4)]
        for app in apps:
            await deploy(world, app)
        engine: Any = engine_of(world, east)
        engine.away = True
        for app in apps:
            assert (await world.delete(f"/application/{app}?skipReconcile=true")).status == 204
        await world.run(10)
        assert engine.discarded == []
        engine.away = False
        await world.run(700)
        assert set(engine.discarded) == set(apps)


# Usage


@pytest.mark.parametrize("is_lied_about", [False, True])
async def test_usage_of_a_service_is_accepted_only_from_the_engine_of_its_cluster(is_lied_about):
    async with make_world() as world:
        east = await cluster(world)
        own, app = (
            await application_on(world, east),
            await world.application(min_running_instances=1, max_running_instances=3),
        )
        for service in (own, app):
            await deploy(world, service)
        (local,) = world.engine.instances.values()
        liar: Any = engine_of(world, east)
        (copy,) = liar.instances.values()
        liar.instances = {(own, 1, 0): replace(copy, id=local.id)}
        busy: Any = liar if is_lied_about else world.engine
        for second in range(8):
            world.engine.load = {local.id: Usage(cpu_ms=0, memory=1)}
            busy.load = {local.id: Usage(cpu_ms=second * 15_000, memory=1)}
            await world.run(15)
        assert (len(world.engine.instances) == 1) is is_lied_about


# Services that never were


class Clusters:
    """Knows no service, and never gets to look."""

    def __init__(self) -> None:
        self.waiting: list[Any] = []

    def known_cluster_of(self, service: str) -> str | None:
        return None

    async def cluster_of(self, service: str) -> str:
        return "east"

    def run_in_background(self, action: Any) -> None:
        self.waiting.append(action)


async def test_notices_of_unknown_services_from_an_engine_cause_a_bounded_number_of_look_ups():
    clusters, noticed = Clusters(), list[str]()
    scope = EngineScope(clusters, "east", noticed.append, lambda service, lines: None)
    for number in range(1000):
        scope.notice(str(number))
    assert len(clusters.waiting) == engine_scope.MAX_LOOKUPS
    for action in clusters.waiting:
        await action
    scope.notice("one more")
    await clusters.waiting[-1]
    assert noticed[-1] == "one more"


# Rounds of housekeeping


async def rounds(world: World, gate: asyncio.Event) -> tuple[str, str, list[str], Any]:
    """Two clusters, and an action that waits at the first one. The list has the clusters that it reached."""
    east, west = await cluster(world), await cluster(world, "west")
    reached: list[str] = []
    for id in (east, west):
        await world.installation.ctx.places.at(id)

    async def action(place: Place) -> None:
        reached.append(place.id)
        if place.id == east:
            await gate.wait()

    return east, west, reached, action


async def round_of(world: World, action: Any, *clusters: str) -> None:
    """A round, and the rest of it at these clusters: on a slow machine it may end before they have begun."""
    ctx = world.installation.ctx
    await all_places.at_clusters(ctx, "look", action)
    async with asyncio.timeout(20):
        while any(("look", id) in ctx.places.under_way for id in clusters):  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_a_hanging_engine_is_left_out_of_further_rounds_until_its_call_ends(monkeypatch):
    monkeypatch.setattr(all_places, "_ROUND_TIMEOUT", 0.01)
    gate = asyncio.Event()
    async with make_world() as world:
        east, west, reached, action = await rounds(world, gate)
        for _ in range(3):
            await round_of(world, action, west)
        assert (reached.count(east), reached.count(west)) == (1, 3)
        gate.set()
        for _ in range(3):
            await round_of(world, action, east, west)
        assert reached.count(east) >= 3


async def test_without_the_round_timeout_an_action_on_all_engines_waits_for_a_hanging_one():
    """The control of the test above."""
    gate = asyncio.Event()
    async with make_world() as world:
        east, west, reached, action = await rounds(world, gate)
        waiting = asyncio.create_task(all_places.run_at_all_places(world.installation.ctx, action))
        async with asyncio.timeout(20):
            while not {east, west} <= set(reached):  # noqa: ASYNC110 (the action gives no signal)
                await asyncio.sleep(0.001)
        assert not waiting.done()
        gate.set()
        await waiting


async def test_autoscaling_of_a_cluster_continues_while_the_engine_of_another_hangs(monkeypatch):
    monkeypatch.setattr(all_places, "_ROUND_TIMEOUT", 0.01)
    async with make_world() as world:
        for name in ("east", "west"):
            id = await cluster(world, name)
            await deploy(
                world, await application_on(world, id, min_running_instances=1, max_running_instances=3)
            )
            engine: Any = engine_of(world, id)
            if name == "east":
                engine.usage = asyncio.Event().wait
        (copy,) = engine.instances.values()
        for second in range(8):
            engine.load = {copy.id: Usage(cpu_ms=second * 15_000, memory=1)}
            await world.run(15)
        assert len(engine.instances) > 1
