"""Schedules BuildKit builds within one server: BuildKit builds for one service at a time.

The steps of parallel BuildKit builds share a network. Even services of one organization must not build in
parallel, because a token may be limited to one service. `engine_turn` schedules builds among servers that
share an engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import NamedTuple


class BuildOwner(NamedTuple):
    org: str
    service: str
    environment: str = ""


class BuildTurns:
    """Admits builds of one service at a time.

    While another service waits, the current service cannot start further builds. Organizations are served
    round-robin, and within an organization its environments. An organization waits for at most one service of
    each other organization; within it, an environment waits for at most one service of each other
    environment."""

    def __init__(self) -> None:
        self._holder: BuildOwner | None = None
        self._running = 0
        self._waiting: dict[asyncio.Future[None], BuildOwner] = {}
        self._numbers = count(1)
        self._served: dict[str, int] = {}
        """Sequence number of the last turn of each waiting organization and environment."""

    def is_free(self, owner: BuildOwner) -> bool:
        """Returns whether a build of this service could start immediately."""
        if not self._running:
            return not self._waiting
        return self._holder == owner and all(waiting == owner for waiting in self._waiting.values())

    @asynccontextmanager
    async def of(self, owner: BuildOwner) -> AsyncIterator[None]:
        if self.is_free(owner):
            self._admit(owner)
        else:
            await self._wait(owner)
        try:
            yield
        finally:
            self._end()

    async def _wait(self, owner: BuildOwner) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting[turn] = owner
        try:
            await turn
        except asyncio.CancelledError:
            if self._waiting.pop(turn, None) is None:  # admitted and cancelled at the same time
                self._end()
            else:
                self._admit_next()
            raise

    def _admit(self, owner: BuildOwner) -> None:
        self._holder = owner
        self._running += 1
        self._served[owner.org] = self._served[owner.environment] = next(self._numbers)

    def _end(self) -> None:
        self._running -= 1
        self._admit_next()

    def _admit_next(self) -> None:
        # The future of a cancelled build stays in `_waiting` until its task handles the cancellation.
        waiting = {turn: owner for turn, owner in self._waiting.items() if not turn.done()}
        if self._running or not waiting:
            return
        kept = {id for owner in waiting.values() for id in (owner.org, owner.environment)}
        self._served = {id: turn for id, turn in self._served.items() if id in kept}
        first = min(waiting.values(), key=self._last_turn)
        for turn in [turn for turn, owner in waiting.items() if owner == first]:
            del self._waiting[turn]
            self._admit(first)
            turn.set_result(None)

    def _last_turn(self, owner: BuildOwner) -> tuple[int, int]:
        return self._served.get(owner.org, 0), self._served.get(owner.environment, 0)
