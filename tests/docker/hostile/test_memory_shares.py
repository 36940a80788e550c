"""An organization that fills the memory of the machine with many small processes loses its own service."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.docker.watched import FOREVER, again, seen, until, wanted
from windlass.docker import memory_watch
from windlass.engines.workload import Phase

pytestmark = pytest.mark.slow

MIB = 1 << 20
FILLS = "dd if=/dev/zero of=/dev/shm/a bs=1048576 count=40 && echo full; " + FOREVER
"""Files in memory belong to no process that the kernel could end for them."""


@pytest.fixture
def short_memory(monkeypatch) -> list[int]:
    available = [32 * MIB]
    monkeypatch.setattr(memory_watch, "available_memory", lambda: (available[0], 64 * MIB))
    monkeypatch.setattr(memory_watch, "CHECK_INTERVAL", 0.1)
    return available


async def run_both(watched: Any) -> Any:
    hog, other = wanted(FILLS, org="hogs", memory=128), wanted(org="acme")
    await watched.engine.run(other, 0)
    await watched.engine.run(hog, 0)
    await until(lambda: "full" in watched.said())
    return hog, other


async def test_the_service_is_ended_with_a_reason_and_started_again(watched, short_memory):
    hog, other = await run_both(watched)
    short_memory[0] = 8 * MIB
    first = await seen(watched.engine, hog.service, lambda copy: "ran short of memory" in copy.reason)
    short_memory[0] = 32 * MIB
    assert first.reason.startswith("held 4")
    await seen(watched.engine, hog.service, lambda copy: copy.phase is Phase.RUNNING and copy.restarts > 0)
    (copy,) = await watched.engine.copies(other.service)
    assert (copy.phase, copy.restarts) == (Phase.RUNNING, 0)


async def test_nothing_is_ended_before_memory_is_short(watched, short_memory):
    hog, _ = await run_both(watched)
    await asyncio.sleep(1)
    (copy,) = await watched.engine.copies(again(hog).service)
    assert (copy.phase, copy.restarts) == (Phase.RUNNING, 0)
