"""A thread for calls that wait: in order, each answered, none forgotten."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

import pytest

from windlass.base.commit_thread import CommitThread


@pytest.fixture
def lane():
    lane = CommitThread("test")
    yield lane
    lane.close()


async def test_calls_run_one_after_the_other_on_a_thread_of_their_own(lane):
    done: list[tuple[int, int]] = []

    def note(number: int) -> int:
        done.append((number, threading.get_ident()))
        return number

    assert await asyncio.gather(*(lane.run(note, number) for number in range(100))) == list(range(100))
    assert [number for number, _ in done] == list(range(100))
    assert len({thread for _, thread in done}) == 1
    assert threading.get_ident() not in {thread for _, thread in done}


async def test_the_event_loop_runs_during_a_blocking_call(lane):
    go_on = threading.Event()
    waiting = asyncio.create_task(lane.run(go_on.wait))
    await asyncio.sleep(0)
    assert not waiting.done()
    go_on.set()
    assert await waiting


async def test_a_failed_call_raises_to_its_caller_and_later_calls_still_run(lane):
    with pytest.raises(ZeroDivisionError):
        await lane.run(lambda: 1 // 0)
    with pytest.raises(SystemExit):
        await lane.run(exit)
    assert await lane.run(lambda: "well") == "well"


async def test_a_call_is_completed_after_its_caller_was_cancelled():
    lane, go_on, done = CommitThread("test"), threading.Event(), threading.Event()

    def deed() -> None:
        go_on.wait()
        done.set()

    waiting = asyncio.create_task(lane.run(deed))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    go_on.set()
    lane.close()
    assert done.is_set()
    await asyncio.sleep(0)  # its outcome is ignored


def test_a_call_still_running_when_its_event_loop_closes_completes():
    lane, go_on, done = CommitThread("test"), threading.Event(), threading.Event()

    def deed() -> None:
        go_on.wait()
        done.set()

    async def leave() -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(0):
                await lane.run(deed)

    asyncio.run(leave())
    go_on.set()
    lane.close()
    assert done.is_set()
