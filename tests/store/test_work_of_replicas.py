"""Work outlives the process that did it: stops, deaths, two replicas, deletions."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.fakes.engine import FakeEngine
from tests.store.claims import KIND, ask, claim
from tests.store.stores import Place, until
from tests.store.working import Watchful, begun, deployed, kinds
from tests.world import HandClock, World, make_world
from windlass.base.encryption import new_key
from windlass.control.background.worker import LEASE_TIME

# Stopping


@contextlib.asynccontextmanager
async def beside(world: World, place: Place, folder: str = "beside") -> AsyncIterator[World]:
    """Another replica on the same database, with the same clock and engine."""
    key = (world.folder / "key").read_text().strip()
    made = make_world(
        place.url, folder=place.folder / folder, clock=world.clock, engine=world.engine, key=key
    )
    async with made as other:
        yield other


async def test_a_stop_in_the_middle_leaves_work_that_the_next_process_does_at_once(
    place: Place, clock: HandClock
):
    engine = FakeEngine()
    async with make_world(place.url, folder=place.folder, clock=clock, engine=engine) as world:
        app = await begun(world)
    assert [row[3] for row in await place.sql("SELECT * FROM work WHERE id = $1", app)] == [0]
    engine.gate = None
    async with make_world(place.url, folder=place.folder, clock=clock, engine=engine) as world:
        await world.settle()
        assert await world.state(f"/application/{app}") == "RUNNING"
        assert (await kinds(world))["DEPLOYMENT_STARTED"] == 1
        assert engine.begun == 2


async def test_stopping_a_worker_while_it_claims_work_leaves_no_claim_behind(world: World, place: Place):
    """At whatever moment: what was claimed is known, and let go of."""
    world.engine.gate = asyncio.Event()
    worker = world.installation.worker
    for _ in range(4):
        await deployed(world, await world.application())
    for turns in range(25):
        starting = asyncio.create_task(worker.start_due())
        for _ in range(turns):
            await asyncio.sleep(0 if turns < 10 else 0.0005)
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await worker.stop()
        assert await place.sql("SELECT id FROM work WHERE lease > 0") == []
    assert len(await place.sql("SELECT id FROM work WHERE due <= $1", world.clock.ms)) == 4


async def test_a_dead_replicas_work_is_taken_over_when_its_lease_expires(served: Place, clock: HandClock):
    """The lease holds until then: the replica may only be slow."""
    async with make_world(served.url, folder=served.folder, clock=clock) as world:
        app = await begun(world)
        async with beside(world, served) as other:
            clock.ms += LEASE_TIME - 1
            assert await claim(other.installation.ctx.store) == []
            clock.ms += 1
            await other.installation.worker.start_due()
            await until(lambda: other.engine.begun == 2)
            assert other.engine.gate
            other.engine.gate.set()
            await other.settle()
            assert await other.state(f"/application/{app}") == "RUNNING"
            await until(lambda: not world.installation.worker.running)
            assert (await kinds(other))["DEPLOYMENT_SUCCEEDED"] == 1


async def test_two_replicas_never_run_the_same_work_concurrently_and_share_the_load(served: Place):
    engine, key = Watchful(), new_key().hex()
    async with (
        make_world(served.url, folder=served.folder / "a", engine=engine, key=key) as one,
        make_world(served.url, folder=served.folder / "b", engine=engine, key=key) as other,
    ):
        by: Counter[int] = Counter()
        environment = await one.environment()
        apps = [await one.application(environment) for _ in range(12)]
        for world in (one, other):
            await world.installation.start()
        for number in range(36):
            world = (one, other)[number % 2]
            await deployed(world, apps[number % 12])
            by[number % 2] += world.installation.worker.running
        await until(lambda: _all_is_done(served))
        assert {app: engine.at_once[app] for app in apps} == dict.fromkeys(apps, 1)
        assert {await one.state(f"/application/{app}") for app in apps} == {"RUNNING"}
        started, ended = (await kinds(one))["DEPLOYMENT_STARTED"], (await kinds(one))["DEPLOYMENT_SUCCEEDED"]
        assert started == ended == engine.begun
        assert all(by[number] for number in range(2))


async def _all_is_done(place: Place) -> bool:
    return await place.sql("SELECT id FROM work WHERE kind = $1", KIND) == []


# Deleted services


async def test_a_service_that_is_deleted_while_it_waits_is_never_deployed(world: World, place: Place):
    app = await world.application()
    await deployed(world, app)
    await world.delete(f"/application/{app}")
    await world.settle()
    assert world.engine.applied == []
    assert await _traces(place, app) == []


async def test_a_service_that_is_deleted_while_it_is_deployed_leaves_nothing_and_its_deployment_is_cancelled(
    world: World, place: Place, caplog: pytest.LogCaptureFixture
):
    app = await begun(world)
    await world.delete(f"/application/{app}")
    assert world.engine.gate
    world.engine.gate.set()
    with caplog.at_level(logging.WARNING):
        await world.settle()
    assert await _traces(place, app) == []
    assert await kinds(world) == {"DEPLOYMENT_STARTED": 1, "DEPLOYMENT_CANCELLED": 1}
    assert "work failed" not in caplog.text


async def test_removing_an_environment_removes_the_work_of_its_services(world: World, place: Place):
    environment = await world.environment()
    app = await world.application(environment)
    await deployed(world, app)
    await world.delete(f"/environment/{environment}")
    await world.settle()
    assert world.engine.applied == []
    assert await _traces(place, app) == []


async def test_work_for_a_nonexistent_service_is_completed(world: World, place: Place):
    await ask(world.installation.ctx.store, "no-such-service")
    await world.settle()
    assert await _all_is_done(place)


async def _traces(place: Place, id: str) -> list[tuple[Any, ...]]:
    found = []
    for table, column in (("resource", "id"), ("status", "id"), ("deployment", "service"), ("work", "id")):
        found += await place.sql(f"SELECT * FROM {table} WHERE {column} = $1", id)
    return found
