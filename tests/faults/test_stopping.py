"""A task that is told to stop stops, even if another event happens at the same moment."""

from __future__ import annotations

import asyncio
from typing import cast

from tests.world import World
from windlass.control.background.worker import Worker
from windlass.control.deploying.reconcile import _wait_for_cancel
from windlass.control.records.deployments import cancel_word
from windlass.store.groups import GroupCommit

TURNS = range(8)
"""Turns of the event loop between a call and the end: at one of them the task sees both."""


async def test_a_worker_woken_and_cancelled_at_the_same_moment_stops(world: World):
    for turns in TURNS:
        running = asyncio.create_task(Worker(world.installation.ctx).run())
        await asyncio.sleep(0.05)  # nothing is due: it sleeps
        tell(world, "work")
        await ends(running, turns)


async def test_waiting_for_a_cancellation_stops_when_cancelled_and_notified_at_the_same_moment(world: World):
    ctx = world.installation.ctx
    path = f"/application/{await world.application()}"
    deployment = (await world.post(f"{path}/deploy"))["id"]
    for turns in TURNS:
        watching = asyncio.create_task(_wait_for_cancel(ctx, deployment))
        await asyncio.sleep(0.05)
        tell(world, cancel_word(deployment))
        await ends(watching, turns)


def tell(world: World, word: str) -> None:
    cast(GroupCommit, world.installation.ctx.store)._notify_listeners(word)


async def ends(task: asyncio.Task[None], turns: int) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task], timeout=10)
    assert task.cancelled(), f"after {turns} turns it was not heard"
