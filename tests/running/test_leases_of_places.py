"""Leases of places are measured by the clock of each server, and only while the database answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.running.deployments import deployed
from tests.running.test_place_owner import AFTER_LEASE, BETWEEN_LOOKS, kinds, lease_passes, look, server
from tests.world import HandClock, World
from windlass.base.clock import SECOND
from windlass.control.background.place_lease import MAX_MISSED_CHECKS, OwnerAlive
from windlass.control.background.worker import LEASE_TIME

HOUR = 3600.0


@pytest.fixture(params=["fast", "slow"])
async def apart(request, postgres_url: str, tmp_path: Path) -> AsyncIterator[tuple[World, World]]:
    """Two servers whose clocks are an hour apart; the first one owns the place."""
    first, second = HandClock(), HandClock()
    (second if request.param == "fast" else first).turn(HOUR)
    async with (
        server(postgres_url, tmp_path / "one", first, "one") as world,
        server(postgres_url, tmp_path / "two", second, "two") as twin,
    ):
        yield world, twin


async def test_a_fast_or_slow_clock_does_not_end_another_servers_place_lease(apart, monkeypatch):
    world, twin = apart
    await deployed(world)
    for _ in range(5):
        for server_at_work in apart:
            server_at_work.clock.turn(BETWEEN_LOOKS)
            await look(server_at_work)
    assert await kinds(twin) == []

    async def renewed(_: float) -> None:
        await look(world)

    monkeypatch.setattr(asyncio, "sleep", renewed)
    with pytest.raises(OwnerAlive):
        await twin.installation.place_owner.take()


async def test_a_lost_place_owner_is_noticed_after_missed_renewals(apart):
    """The control of the test above."""
    world, twin = apart
    await deployed(world)
    events = []
    for _ in range(MAX_MISSED_CHECKS):
        twin.clock.turn(BETWEEN_LOOKS)
        await look(twin)
        events.append(await kinds(twin))
    assert events == [[]] * (MAX_MISSED_CHECKS - 1) + [["CLUSTER_UNREACHABLE"]]


async def test_a_place_owner_is_not_reported_lost_because_of_a_database_outage(apart):
    """No server reaches it: none can renew its lease, and none sees whether others have."""
    world, twin = apart
    await deployed(world)
    twin.clock.turn(AFTER_LEASE)
    await look(twin)
    assert await kinds(twin) == []
    await lease_passes(twin.clock, twin)
    assert await kinds(twin) == ["CLUSTER_UNREACHABLE"]


async def test_a_place_owner_is_not_reported_lost_because_the_database_stalled(apart, monkeypatch):
    world, twin = apart
    await deployed(world)
    store = twin.installation.ctx.store
    write = store.write

    async def stalled(change: Any) -> Any:
        twin.clock.turn(MAX_MISSED_CHECKS * BETWEEN_LOOKS)
        return await write(change)

    with monkeypatch.context() as patch:
        patch.setattr(store, "write", stalled)
        await look(twin)
    assert await kinds(twin) == []
    await lease_passes(twin.clock, twin)
    assert await kinds(twin) == ["CLUSTER_UNREACHABLE"]


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
async def test_setting_a_clock_neither_ends_nor_extends_a_place_lease(apart, jump):
    world, twin = apart
    await deployed(world)
    twin.clock.turn(jump)
    await look(twin)
    assert await kinds(twin) == []
    await lease_passes(twin.clock, twin)
    assert await kinds(twin) == ["CLUSTER_UNREACHABLE"]


async def test_a_place_is_not_taken_over_while_the_database_stalls(apart, monkeypatch):
    """The owner renews its lease as soon as the database answers again."""
    world, twin = apart
    waits: list[float] = []

    async def stalled(seconds: float) -> None:
        waits.append(seconds)
        twin.clock.turn(LEASE_TIME / SECOND)
        if len(waits) > 1:
            await look(world)

    monkeypatch.setattr(asyncio, "sleep", stalled)
    with pytest.raises(OwnerAlive):
        await twin.installation.place_owner.take()
    assert len(waits) == 2
