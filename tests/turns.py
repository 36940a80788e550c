"""Counts what is done in each turn of the event loop, and measures how long turns are."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from unittest import mock


class TurnCounts:
    def __init__(self) -> None:
        self._turn = 0
        self._counts: Counter[int] = Counter()

    def add(self, number: int) -> None:
        self._counts[self._turn] += number

    @property
    def total(self) -> int:
        return self._counts.total()

    @property
    def most(self) -> int:
        """The most that was done in one turn."""
        return max(self._counts.values(), default=0)

    async def follow(self) -> None:
        while True:
            self._turn += 1
            await asyncio.sleep(0)


@asynccontextmanager
async def counted_turns() -> AsyncIterator[TurnCounts]:
    counts = TurnCounts()
    following = asyncio.ensure_future(counts.follow())
    try:
        yield counts
    finally:
        following.cancel()


class TurnTimes:
    """The longest turn of the event loop of each piece of work, in seconds that the processor worked for the
    thread. Other processes, and waits for a disk, do not make a turn longer."""

    def __init__(self) -> None:
        self.longest: dict[str, float] = {}
        self._work = ""

    async def begin(self, work: str) -> None:
        """Ends the present turn. All further ones belong to this work."""
        await asyncio.sleep(0)
        self._work = work

    def note(self, seconds: float) -> None:
        self.longest[self._work] = max(seconds, self.longest.get(self._work, 0.0))

    def worst(self, number: int) -> list[tuple[float, str]]:
        """Returns the work with the longest turns, the worst first."""
        return sorted(((seconds, work) for work, seconds in self.longest.items()), reverse=True)[:number]


@contextmanager
def timed_turns() -> Iterator[TurnTimes]:
    """Measures each callback of the event loop, which is to be the one of asyncio: others, such as uvloop,
    have callbacks of their own."""
    assert type(asyncio.get_running_loop()).__module__.startswith("asyncio.")
    times, run = TurnTimes(), asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        began = time.thread_time()
        try:
            run(handle)
        finally:
            times.note(time.thread_time() - began)

    with mock.patch.object(asyncio.Handle, "_run", timed):
        yield times
