"""Deployments of one place never wait for the engine of another."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.running.clusters import TLS, application_on, cluster, deploy, engine_of
from tests.world import World, make_world
from windlass.store import Queue, builds_beside
from windlass.store.tables.queues import queue_of

SLOTS = 2


async def hanging(world: World, count: int) -> tuple[str, asyncio.Task[None]]:
    """A cluster whose engine hangs, with so many deployments under way or waiting there."""
    east = await cluster(world)
    apps = [await application_on(world, east) for _ in range(count)]
    await world.installation.ctx.places.at(east)
    engine_of(world, east).gate = asyncio.Event()
    for app in apps:
        assert (await world.post(f"/application/{app}/deploy")).status == 202
    working = asyncio.create_task(world.installation.worker.run())
    while engine_of(world, east).begun < SLOTS:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    return east, working


async def let_go(world: World, east: str, working: asyncio.Task[None]) -> None:
    gate = engine_of(world, east).gate
    assert gate
    gate.set()
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    await world.settle()


async def reaches(world: World, app: str, state: str) -> None:
    async with asyncio.timeout(20):
        while await world.state(f"/application/{app}") != state:  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_a_hanging_engine_delays_no_deployment_on_other_engines(database_url):
    async with make_world(database_url, parallel_deployments=SLOTS) as world:
        east, working = await hanging(world, SLOTS + 3)
        app = await world.application()
        assert (await world.post(f"/application/{app}/deploy")).status == 202
        await reaches(world, app, "RUNNING")
        assert engine_of(world, east).begun <= SLOTS + 1  # and one for an idle environment
        await let_go(world, east, working)
        assert len(engine_of(world, east).instances) == SLOTS + 3


async def test_with_a_shared_queue_a_hanging_engine_would_delay_other_clusters():
    """The control of the test above."""
    async with make_world(parallel_deployments=SLOTS) as world:
        east = await cluster(world)
        await world.installation.ctx.store.write(lambda tx: tx.work.remove_queue(east))
        app = await application_on(world, east)
        await world.installation.ctx.store.write(lambda tx: tx.work.remove_queue(east))
        await world.post(f"/application/{app}/deploy")
        assert set(await queues(world)) == {builds_beside(Queue.RECONCILE)}


async def test_each_cluster_with_its_own_engine_has_its_own_queue():
    async with make_world() as world:
        local = await world.application()
        places = [await cluster(world, name) for name in ("east", "west")]
        for app in (local, *[await application_on(world, place) for place in places]):
            await world.post(f"/application/{app}/deploy")
        numbers = [Queue.RECONCILE, *map(queue_of, places)]
        assert set(await queues(world)) == {builds_beside(number) for number in numbers}


async def test_clusters_on_the_local_engine_share_one_work_queue():
    async with make_world() as world:
        other = await cluster(world, "other", engine="LOCAL")
        for app in (await world.application(), await application_on(world, other)):
            await world.post(f"/application/{app}/deploy")
        assert set(await queues(world)) == {builds_beside(Queue.RECONCILE)}


async def test_a_cluster_connected_to_a_remote_engine_later_then_gets_its_own_queue():
    async with make_world() as world:
        later = await cluster(world, "later", engine="LOCAL")
        app = await application_on(world, later)
        path = f"/organization/{world.org}/cluster/{later}"
        assert (await world.patch(path, TLS)).status == 200
        await world.post(f"/application/{app}/deploy")
        assert set(await queues(world)) == {builds_beside(queue_of(later))}
        await world.settle()
        await world.post(f"/application/{app}/uninstall")
        await world.settle()
        nothing = dict.fromkeys((*TLS, "engine_id")) | {"engine": "LOCAL", "engine_key": ""}
        assert (await world.patch(path, nothing)).status == 200
        await world.post(f"/application/{app}/deploy")
        assert set(await queues(world)) == {builds_beside(Queue.RECONCILE)}


async def test_work_of_a_cluster_that_is_gone_is_still_claimed():
    async with make_world() as world:
        east = await cluster(world)
        app = await application_on(world, east)
        await deploy(world, app)
        await world.installation.ctx.store.write(lambda tx: tx.work.schedule("reconcile", app))
        await world.installation.ctx.store.write(lambda tx: tx.work.remove_queue(east))
        await world.settle()
        assert not await queues(world)


async def queues(world: World) -> dict[int, Any]:
    """The queues of deployments that have work."""
    due = await world.installation.ctx.store.reads.work.due()
    others = {Queue.QUICK, Queue.LOCAL, Queue.DELIVER, Queue.BRANCHES}
    return {queue: since for queue, since in due.items() if queue not in others}
