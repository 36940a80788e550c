"""Gives services turns at BuildKit, which builds for one of them at a time, within one server.

Steps of BuildKit share a network. A token may be limited to one service, so neither services of one
organization build side by side. `engine_turn` does the same among servers that share an engine.
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
    """Runs builds of one service at a time. Once another service waits, the present one starts no further
    build. Organizations take turns, and in each its environments: an organization waits for at most one
    service of each other one, and in it an environment for at most one of each other environment."""

    def __init__(self) -> None:
        self._holder: BuildOwner | None = None
        self._running = 0
        self._waiting: dict[asyncio.Future[None], BuildOwner] = {}
        self._numbers = count(1)
        self._served: dict[str, int] = {}
        """The number of the last turn of each organization and environment that has had one and waits."""

    def is_free(self, owner: BuildOwner) -> bool:
        """Returns whether a build of this service would not wait."""
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
            if self._waiting.pop(turn, None) is None:  # it was admitted at the same moment
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
        # The future of a cancelled build is done, and stays here until the build notices it.
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
