"""Waits until the copies of a new generation are ready to be given requests."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Final

from msgspec import Struct

from windlass.base.clock import Clock
from windlass.core.deploy.workload import HealthProbe, Instance, Phase, ProbeKind, Workload
from windlass.engines.by_hand.copies import Copies
from windlass.engines.by_hand.listeners import advise_on_address
from windlass.engines.engine import EngineAway, EngineError, Note, NotReady, note_nothing

FIRST_PAUSE: Final = 0.005
LONGEST_PAUSE: Final = 1.0
_GROWTH: Final = 1.25
_LOOKS_FOR_REASON: Final = 100
_ENDED_WELL: Final = "exited with code 0"
NOTED_AFTER: Final = 10.0
"""Seconds after which the reason is noted. It is looked at again after twice as long, and so on."""


class Hindrance(Struct, frozen=True):
    """The reason why a generation is not ready."""

    reason: str
    copy: Instance | None = None
    probe: HealthProbe | None = None
    """The probe that the copy does not pass."""


class ReadinessWait:
    """Waits for `count` copies of one generation."""

    def __init__(
        self, copies: Copies, clock: Clock, workload: Workload, count: int, note: Note = note_nothing
    ) -> None:
        self._copies, self._clock, self._workload, self._count = copies, clock, workload, count
        self._note, self._noted = note, ""
        self._passed: Counter[tuple[str, int]] = Counter()
        """Successes in a row, by instance and number of the probe."""

    async def run(self) -> None:
        """Returns when all copies are ready. Raises NotReady when one has ended or the patience is over."""
        began, pause, noted_after = time.monotonic(), FIRST_PAUSE, NOTED_AFTER
        deadline = began + self._workload.patience
        while self._count and (hindrance := await self._hindrance(deadline)):
            if time.monotonic() > deadline:
                raise NotReady(await self._failure(hindrance))
            if time.monotonic() > began + noted_after:
                noted_after *= 2
                await self._tell(hindrance)
            await asyncio.sleep(pause)
            pause = min(pause * _GROWTH, LONGEST_PAUSE)

    async def _tell(self, hindrance: Hindrance) -> None:
        """Notes why it takes long. Later only another advice is noted, because reasons alternate."""
        if not self._workload.ready:
            return
        advice = await self._advice(hindrance)
        if not self._noted or (advice and advice != self._noted):
            usual = f"Look at the log: {self._workload.name} is not ready yet: {hindrance.reason}"
            self._noted = advice or usual
            await self._note(self._noted)

    async def _failure(self, hindrance: Hindrance) -> str:
        name, patience = self._workload.name, f"{self._workload.patience:.0f} seconds"
        if advice := await self._advice(hindrance):
            return f"{advice}. {name} was not healthy after {patience}"
        return f"Look at the log: {name} was not healthy after {patience}: {hindrance.reason}"

    async def _advice(self, hindrance: Hindrance) -> str:
        """Returns what to change if the program listens elsewhere, or an empty text."""
        copy, probe = hindrance.copy, hindrance.probe
        if copy is None or probe is None or probe.kind is ProbeKind.EXEC:
            return ""
        try:
            listeners = await self._copies.listeners(copy)
        except EngineError:  # the reason is told without advice
            return ""
        return advise_on_address(
            self._workload, copy, probe.port, listeners, from_outside=self._copies.has_go_between
        )

    async def _hindrance(self, deadline: float) -> Hindrance | None:
        """Returns why the generation is not ready yet; None if it is."""
        try:
            copies = await self._own()
            for copy in copies:
                if copy.phase is not Phase.RUNNING or copy.restarts:
                    raise NotReady(_early_end_message(self._workload.name, await self._end_of(copy)))
        except EngineAway as away:
            if time.monotonic() > deadline:
                raise
            return Hindrance(str(away))
        hindrances = await asyncio.gather(*(self._hindrance_of(copy) for copy in copies))
        missing = self._count - len(copies)
        absent = Hindrance(f"{missing} of its instances never started") if missing > 0 else None
        return next(filter(None, hindrances), absent)

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

    async def _hindrance_of(self, copy: Instance) -> Hindrance | None:
        """Returns why one copy is not ready yet; None if it is."""
        if not self._workload.ready:
            age = (self._clock.now() - copy.started_at) / 1000
            return None if age >= self._workload.settle else Hindrance("it has not run for long enough")
        for number, probe in enumerate(self._workload.ready):
            key = copy.id, number
            if self._passed[key] >= probe.successes:
                continue
            if trouble := await self._copies.probe(copy, probe):
                self._passed[key] = 0
                return Hindrance(trouble, copy, probe)
            self._passed[key] += 1
            if self._passed[key] < probe.successes:
                return Hindrance("its probe succeeds, but not often enough in a row yet")
        return None


def _early_end_message(name: str, reason: str) -> str:
    end, colon, meaning = reason.partition(":")
    remedy = "Choose a command that goes on running" if end == _ENDED_WELL else "Look at the log"
    return f"{remedy}: {name} {end} while it was starting{colon}{meaning}"
