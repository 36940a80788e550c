"""BuildTurns of organizations at what they cannot use at once: the bridge of BuildKit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class BuildTurns:
    """Lets builds of one organization run at a time. While another organization waits, no further build of it
    begins, so each waits for one turn of each of the others at most."""

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
            if self._waiting.pop(turn, None) is None:  # it was admitted in the same moment
                self._end()
            raise

    def _admit(self, org: str) -> None:
        self._holder = org
        self._running += 1

    def _end(self) -> None:
        self._running -= 1
        if self._running or not self._waiting:
            return
        org = next(iter(self._waiting.values()))
        for turn in [turn for turn, waiting in self._waiting.items() if waiting == org]:
            del self._waiting[turn]
            self._admit(org)
            turn.set_result(None)
