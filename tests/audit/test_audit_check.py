"""A running server follows the chain of events again and again, and tells what does not follow."""

from __future__ import annotations

import pytest

from tests.metrics.prometheus import scraped
from tests.world import World, make_world
from windlass.control.reporting import audit_check
from windlass.store.chain import ChainWalk, Head, chain_rows
from windlass.store.sqlite import SqliteStore


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(audit_check, "AT_ONCE", 4)


async def faults(world: World) -> int:
    for _ in range(8):  # all parts of the chain
        await world.installation.audit_check.verify_next_part()
    (line,) = [
        line for line in (await scraped(world)).splitlines() if line.startswith("windlass_audit_faults ")
    ]
    return int(float(line.split()[1]))


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE event SET body = (SELECT body FROM event WHERE seq = 1) WHERE seq = 5",
        "UPDATE event SET hash = 'none' WHERE seq = 5",
        "DELETE FROM event WHERE seq = 5",
    ],
)
async def test_the_metric_and_the_log_report_a_changed_audit(small_parts, caplog, change):
    async with make_world() as world:
        for _ in range(9):
            await world.project()
        assert await faults(world) == 0
        store = world.installation.ctx.store
        assert isinstance(store, SqliteStore)

        async def tamper(tx) -> None:
            await tx.session.all(change)

        await store.write(tamper)
        assert await faults(world) >= 1
        told = [
            record for record in caplog.records if record.message.startswith("run `windlass audit verify`")
        ]
        assert len(told) == 1


async def test_events_that_retention_deletes_are_not_missing(small_parts):
    async with make_world(audit_retention_days=1) as world:
        for _ in range(9):
            await world.project()
        assert await faults(world) == 0
        world.clock.turn(3 * 86_400)
        await world.project()
        await world.run(1)
        assert await world.installation.ctx.store.reads.events.anchor()
        assert await faults(world) == 0


def test_chain_verification_resumes_from_a_recorded_head():
    rows = [*chain_rows(Head(0, bytes(32)), [(f"event {number}",) for number in range(6)])]
    walk = ChainWalk(Head(0, bytes(32)))
    assert [walk.step(row) for row in rows[:3]] == [[]] * 3
    later = ChainWalk(walk.head)
    assert [later.step(row) for row in rows[3:]] == [[]] * 3
