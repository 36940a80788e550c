"""An organization with all that it may have in threads leaves threads for others."""

from __future__ import annotations

import asyncio
import threading

import pytest

from windlass.base.worker_threads import OF_A_DEPLOYMENT, use_worker_threads
from windlass.config import Settings
from windlass.control.context.git_reader import MAX_READS, SPARE_READS, SPARE_READS_OF_CALLERS
from windlass.control.context.upload_files import MAX_CONCURRENT_CHECKS

DEPLOYMENTS = Settings().parallel_deployments
HELD = (
    DEPLOYMENTS * OF_A_DEPLOYMENT + MAX_READS + SPARE_READS + SPARE_READS_OF_CALLERS + MAX_CONCURRENT_CHECKS
)
"""What organizations together may have at a time."""


async def waits(held: int) -> bool:
    """Returns whether one more thread has to be waited for while so many are held."""
    go = threading.Event()
    holding = [asyncio.create_task(asyncio.to_thread(go.wait)) for _ in range(held)]
    await asyncio.sleep(0)
    one_more = asyncio.create_task(asyncio.to_thread(int))
    try:
        done, _ = await asyncio.wait([one_more], timeout=2.0)
        return not done
    finally:
        go.set()
        await asyncio.gather(one_more, *holding)


async def test_threads_used_by_deployments_leave_threads_for_requests() -> None:
    use_worker_threads(DEPLOYMENTS)
    assert not await waits(HELD)


async def test_with_the_default_thread_count_a_small_machine_would_run_out_of_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert await waits(HELD)
