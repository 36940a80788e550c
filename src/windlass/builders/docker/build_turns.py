"""Gives organizations turns at BuildKit, which builds for one of them at a time, within one server.

`engine_turn` does the same among servers that share an engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class BuildTurns:
    """Runs builds of one organization at a time. Once another organization waits, the present one starts no
    further build, so an organization waits for at most one turn of each other organization."""

    def __init__(self) -> None:
        self._holder = ""
        self._running = 0
        self._waiting: dict[asyncio.Future[None], str] = {}

    def is_free(self, org: str) -> bool:
        """True if a build of this organization would not wait."""
        if not self._running:
            return not self._waiting
        return self._holder == org and all(waiting == org for waiting in self._waiting.values())

    @asynccontextmanager
    async def of(self, org: str) -> AsyncIterator[None]:
        if self.is_free(org):
            self._admit(org)
        else:
            await self._wait(org)
        try:
            yield
        finally:
            self._end()

    async def _wait(self, org: str) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting[turn] = org
        try:
            await turn
        except asyncio.CancelledError:
            if self._waiting.pop(turn, None) is None:  # it was admitted at the same moment
                self._end()
            else:
                self._admit_next()
            raise

    def _admit(self, org: str) -> None:
        self._holder = org
        self._running += 1

    def _end(self) -> None:
        self._running -= 1
        self._admit_next()

    def _admit_next(self) -> None:
        # The future of a cancelled build is done, and stays here until the build notices it.
        waiting = {turn: org for turn, org in self._waiting.items() if not turn.done()}
        if self._running or not waiting:
            return
        first = next(iter(waiting.values()))
        for turn in [turn for turn, org in waiting.items() if org == first]:
            del self._waiting[turn]
            self._admit(first)
            turn.set_result(None)
