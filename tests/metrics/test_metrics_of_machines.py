"""Metrics of a server on a further machine are told from those of the first one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.metrics.prometheus import scraped, value
from tests.world import World, make_world
from windlass.store import Queue, queue_of, queues_of, work_class


@pytest.fixture
async def second() -> AsyncIterator[World]:
    async with make_world(place="second") as world:
        yield world


async def test_the_engine_metric_of_a_second_machine_has_its_machine_name(second: World):
    text = await scraped(second)
    assert value(text, "engine_up", {"place": "second"}) == 1
    assert value(text, "engine_up", {"place": "local"}) is None


async def test_work_for_all_machines_is_counted_together_by_class_of_work(second: World):
    store, queues = second.installation.ctx.store, queues_of("third")
    await store.write(lambda tx: tx.work.schedule("reconcile", "a service", queue=queues.deployments))
    await store.write(lambda tx: tx.work.schedule("discard", "a deleted one", queue=queues.housekeeping))
    await store.write(lambda tx: tx.work.schedule("reconcile", "at a cluster", queue=queue_of("7" * 32)))
    text = await scraped(second)
    due = {queue: value(text, "queue_due", {"queue": queue}) for queue in ("deployments", "clusters")}
    assert due == {"deployments": 1, "clusters": 1}
    assert value(text, "queue_due", {"queue": "housekeeping"}) == 1


@pytest.mark.parametrize("place", ["local", "second"])
def test_the_queues_of_every_place_have_the_classes_deployments_housekeeping_and_runs(place: str):
    assert [work_class(queue) for queue in queues_of(place)] == [Queue.RECONCILE, Queue.LOCAL, Queue.RUNS]
