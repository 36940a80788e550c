"""The metric of values that are still sealed with a former key is true, and costs nothing without one."""

from __future__ import annotations

import pytest

from tests.metrics.prometheus import measured
from tests.world import World, make_world
from windlass.base.clock import SECOND
from windlass.control.reporting.metrics import CACHE_TIME, FormerKeyMetrics
from windlass.install.key import add_key
from windlass.store.tables.sealed import SealedTable

METRIC = "former_key_values"


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Gets the number of values at each count."""
    seen: list[int] = []
    count = SealedTable.counts

    async def counted(table: SealedTable):
        values = await count(table)
        seen.append(sum(values.values()))
        return values

    monkeypatch.setattr(SealedTable, "counts", counted)
    return seen


async def begin_replacement(world: World) -> None:
    """A new key seals; nothing is sealed again yet."""
    app = await world.application()
    for number in range(3):
        await world.made(f"/application/{app}/secret", {"key": f"KEY_{number}", "value": "value"})
    add_key(world.installation.ctx.settings)
    await world.installation.key_rotation.adopt_keys()


async def test_the_metric_of_values_sealed_with_an_old_key_falls_to_0_after_the_rotation(counts):
    async with make_world() as world:
        await begin_replacement(world)
        before = await measured(world, METRIC)
        assert before is not None
        assert before >= 3
        await world.settle()
        world.clock.turn(CACHE_TIME / SECOND)
        assert await measured(world, METRIC) == 0


async def test_values_are_counted_once_a_minute_at_most(counts):
    async with make_world() as world:
        await begin_replacement(world)
        source = FormerKeyMetrics(world.installation.ctx)
        for _ in range(5):
            await source.all()
        assert len(counts) == 1
        world.clock.turn(CACHE_TIME / SECOND)
        await source.all()
        assert len(counts) == 2


async def test_without_a_key_rotation_the_sealed_values_are_not_counted(counts):
    async with make_world() as world:
        await world.application()
        assert await measured(world, METRIC) == 0
        assert counts == []
