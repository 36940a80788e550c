"""Waits until the copies of a new generation are ready to be given requests."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Final

from windlass.base.clock import Clock
from windlass.core.deploy.workload import Instance, Phase, Workload
from windlass.engines.by_hand.copies import Copies
from windlass.engines.engine import EngineAway, NotReady

FIRST_PAUSE: Final = 0.005
LONGEST_PAUSE: Final = 1.0
_GROWTH: Final = 1.25
_LOOKS_FOR_REASON: Final = 100
_ENDED_WELL: Final = "exited with code 0"


class ReadinessWait:
    """Waits for `count` copies of one generation."""

    def __init__(self, copies: Copies, clock: Clock, workload: Workload, count: int) -> None:
        self._copies, self._clock, self._workload, self._count = copies, clock, workload, count
        self._passed: Counter[tuple[str, int]] = Counter()
        """Successes in a row, by instance and number of the probe."""

    async def run(self) -> None:
        """Returns when all copies are ready. Raises NotReady when one has ended or the patience is over."""
        deadline, pause = time.monotonic() + self._workload.patience, FIRST_PAUSE
        while self._count and (reason := await self._reason(deadline)):
            if time.monotonic() > deadline:
                name, patience = self._workload.name, self._workload.patience
                raise NotReady(
                    f"Look at the log: {name} was not healthy after {patience:.0f} seconds: {reason}"
                )
            await asyncio.sleep(pause)
            pause = min(pause * _GROWTH, LONGEST_PAUSE)

    async def _reason(self, deadline: float) -> str:
        """Returns why the generation is not ready yet; empty if it is."""
        try:
            copies = await self._own()
            for copy in copies:
                if copy.phase is not Phase.RUNNING or copy.restarts:
                    raise NotReady(_ended_too_early(self._workload.name, await self._end_of(copy)))
        except EngineAway as away:
            if time.monotonic() > deadline:
                raise
            return str(away)
        reasons = await asyncio.gather(*(self._reason_of(copy) for copy in copies))
        missing = self._count - len(copies)
        absent = f"{missing} of its instances never started" if missing > 0 else ""
        return next(filter(None, reasons), absent)

    async def _own(self) -> list[Instance]:
        copies = await self._copies.copies(self._workload.service)
        return [copy for copy in copies if copy.generation == self._workload.generation]

    async def _end_of(self, ended: Instance) -> str:
        """Returns how a copy ended. An engine may notice an end before it knows how."""
        for _ in range(_LOOKS_FOR_REASON):
            if ended.reason:
                return ended.reason
            await asyncio.sleep(FIRST_PAUSE)
            ended = next((copy for copy in await self._own() if copy.id == ended.id), ended)
        return "ended"

    async def _reason_of(self, copy: Instance) -> str:
        """Returns why one copy is not ready yet; empty if it is."""
        if not self._workload.ready:
            age = (self._clock.now() - copy.started_at) / 1000
            return "" if age >= self._workload.settle else "it has not run for long enough"
        for number, probe in enumerate(self._workload.ready):
            key = copy.id, number
            if self._passed[key] >= probe.successes:
                continue
            if trouble := await self._copies.probe(copy, probe):
                self._passed[key] = 0
                return trouble
            self._passed[key] += 1
            if self._passed[key] < probe.successes:
                return "its probe succeeds, but not often enough in a row yet"
        return ""


def _ended_too_early(name: str, reason: str) -> str:
    end, colon, meaning = reason.partition(":")
    remedy = "Choose a command that goes on running" if end == _ENDED_WELL else "Look at the log"
    return f"{remedy}: {name} {end} while it was starting{colon}{meaning}"
