"""Counts what is done in each turn of the event loop."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


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
