"""Many large events are read part by part, so that they do not take the memory of the server: an event has
the documents of a resource before and after a change."""

from __future__ import annotations

from typing import Any

import pytest

from tests.world import World
from windlass.control.reporting import audit, live_events
from windlass.control.reporting.audit_check import AuditCheck
from windlass.store.tables import table

KIB = 1024
LARGE = "x" * 20 * KIB


@pytest.fixture
async def large_events(monkeypatch, world: World) -> list[int]:
    """The numbers of events that are too large to be read at once."""
    app = await world.application()
    for number in range(30):
        body = {"arguments": [f"{number}", LARGE]}
        assert (await world.patch(f"/application/{app}", body)).status == 200
    numbers = [event.seq for event in await world.events()]
    monkeypatch.setattr(table, "MAX_READ_BYTES", 100 * KIB)
    monkeypatch.setattr(audit, "MAX_PAGE_BYTES", 200 * KIB)
    monkeypatch.setattr(live_events, "MAX_CACHED_BYTES", 200 * KIB)
    return numbers


async def test_a_query_of_large_events_returns_a_part_of_them(world: World, large_events: list[int]):
    reads = world.installation.ctx.store.reads
    rows = await reads.events.after(world.org, large_events[-20], 20)
    assert rows.is_cut
    assert 0 < sum(len(row.body) for row in rows) <= 100 * KIB


async def test_pages_of_large_events_are_shorter_and_lead_to_all_of_them(
    world: World, large_events: list[int]
):
    found, address, pages = [], f"/organization/{world.org}/events?pageSize=1000", 0
    while address:
        page = await world.get(address)
        assert len(page.body) <= 1024 * KIB
        found += [event["number"] for event in page["events"]]
        address = (page["links"].get("next") or "").partition(world.installation.ctx.settings.url)[2]
        pages += 1
    assert found == large_events[::-1]
    assert pages > 3


async def test_a_stream_sends_all_large_events(world: World, large_events: list[int]):
    answer = await world.get(
        f"/organization/{world.org}/events/stream?follow=false", headers={"last-event-id": "0"}
    )
    sent = [line for line in answer.body.split(b"\n") if line.startswith(b'data: {"id"')]
    assert len(sent) == len(large_events)


async def test_the_check_of_the_audit_reads_all_large_events_part_by_part(
    world: World, large_events: list[int]
):
    check = AuditCheck(world.installation.ctx)
    for _ in range(100):
        await check.verify_next_part()
        if check._checked is None:
            break
    assert not check.faults
    await world.installation.ctx.store.write(lambda tx: _change_hash(tx, large_events[-1]))
    for _ in range(100):
        await check.verify_next_part()
    assert check.faults == {large_events[-1]}


async def _change_hash(tx: Any, number: int) -> None:
    await tx.session.all("UPDATE event SET hash = $1 WHERE seq = $2", b"another", number)
