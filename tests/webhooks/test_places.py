"""The webhooks of one organization leave the worker's places for calls to those of another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.webhooks.receivers import Receivers
from tests.webhooks.told import URL, path, webhook
from tests.world import World
from windlass.base.http_out import HttpResult
from windlass.control.background import worker
from windlass.control.reporting import delivery
from windlass.control.reporting.delivery import WebhookSender

SLOTS = 4


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not is_so():  # noqa: ASYNC110 (the fakes do not notify)
            await asyncio.sleep(0.01)


async def due_webhook(world: World, url: str = URL, deliveries: int = 1) -> None:
    """A webhook with deliveries that are due."""
    id = await webhook(world, url)
    for _ in range(deliveries):
        assert (await world.post(path(world, id, "/test"))).status == 202


@pytest.mark.parametrize("share", [2, 1])
async def test_receivers_that_do_not_answer_leave_places_for_another_organization(
    world: World, receivers: Receivers, monkeypatch: pytest.MonkeyPatch, share: int
):
    monkeypatch.setattr(worker, "CALLING_SLOTS", SLOTS)
    monkeypatch.setattr(worker, "CALLING_SHARE", share)
    monkeypatch.setattr(worker, "_MAX_CLAIMED", 1)
    answering, hanging = receivers.send, set[str]()

    async def send(method: str, url: str, *rest: Any, **more: Any) -> HttpResult:
        if url != URL:
            hanging.add(url)
            await asyncio.Event().wait()
        return await answering(method, url, *rest, **more)

    monkeypatch.setattr(receivers, "send", send)
    for number in range(SLOTS + 2):
        await due_webhook(world, f"https://slow-{number}.example/hook")
    working = asyncio.create_task(world.installation.worker.run())
    await until(lambda: len(hanging) == SLOTS // share)
    world.org, world.token = await world.organization()
    await due_webhook(world)
    if share == 1:  # the control
        await asyncio.sleep(0.3)
    else:
        await until(lambda: bool(receivers.got[URL]))
    assert bool(receivers.got[URL]) is (share == 2)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    await world.installation.worker.stop()


async def test_a_webhook_with_many_deliveries_gives_its_place_back(
    world: World, receivers: Receivers, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(delivery, "TURN", 0.05)
    answering, turns, work = receivers.send, list[WebhookSender](), WebhookSender.work

    async def send(*rest: Any, **more: Any) -> HttpResult:
        await asyncio.sleep(0.02)
        return await answering(*rest, **more)

    async def count(sender: WebhookSender) -> None:
        turns.append(sender)
        await work(sender)

    monkeypatch.setattr(receivers, "send", send)
    monkeypatch.setattr(WebhookSender, "work", count)
    await due_webhook(world, deliveries=20)
    await world.settle()
    assert len(receivers.got[URL]) == 20
    assert len(turns) > 1
