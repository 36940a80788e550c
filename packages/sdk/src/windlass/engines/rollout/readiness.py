"""Waits until the copies of a new generation are ready to get requests."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import Struct

from windlass.base.clock import Clock
from windlass.engines.engine import (
    ArtifactLost,
    EngineError,
    EngineUnavailable,
    ListensElsewhere,
    Note,
    NotReady,
    ignore_note,
)
from windlass.engines.rollout.copies import ProbedCopies
from windlass.engines.rollout.listeners import PortMismatch, find_port_mismatch
from windlass.engines.start_remedies import LOG_HINT
from windlass.engines.workload import HealthProbe, Instance, Phase, ProbeKind, Workload

FIRST_PAUSE: Final = 0.005
MAX_PAUSE: Final = 1.0
_PAUSE_GROWTH: Final = 1.25
"""So that a start is noticed within a quarter of the time that it took."""
_PAUSE_PER_LOOK: Final = 100
"""The pause is not longer than this many looks take: visitors of a service that is being woken wait for the
end of it. On a busy machine looks take longer, and so do pauses."""
_SHORTEST_LIMIT: Final = 0.1
_LOOKS_FOR_REASON: Final = 100
_ENDED_WELL: Final = "exited with code 0"
NOTED_AFTER: Final = 10.0
"""Seconds after which the deployment's log reports that the program does not listen."""
CHECK_INTERVAL: Final = 1.0
"""Minimum seconds between two checks of the listening ports; the interval grows with the waiting time."""
SURE_AFTER: Final = 3.0
"""Seconds for which a program must listen on a wrong port before this is reported: it may open its right port
later."""
WRONG_PORT_TIMEOUT: Final = 20.0
"""Seconds after which the wait is aborted if the program listens on a wrong port and on none of its service's
ports."""
_NON_HTTP_PORTS: Final = frozenset({22, 25, 3306, 5432, 5672, 6379, 9042, 11211, 27017})
"""Well-known ports of other protocols than HTTP. They are never made public automatically."""


class Obstacle(Struct, frozen=True):
    """The reason why a generation is not ready."""

    reason: str
    copy: Instance | None = None
    probe: HealthProbe | None = None
    """The probe that the copy fails."""


class Ends(Struct, frozen=True):
    """How an engine handles copies that end while a release waits for them."""

    confirm: Callable[[Instance], Awaitable[Instance]]
    """Returns an ended copy once it is known whether its program caused the end."""
    start_again: Callable[[Workload, int], Awaitable[object]]


class ReadinessWait:
    """Waits for `count` copies of one generation."""

    def __init__(
        self,
        copies: ProbedCopies,
        clock: Clock,
        workload: Workload,
        count: int,
        note_reason: Note = ignore_note,
        ends: Ends | None = None,
    ) -> None:
        """`ends`: None if the engine itself starts copies again."""
        self._ends = ends
        self._was_away = False
        """Whether the engine was unavailable in the meantime. Copies may be gone since then."""
        self._copies, self._clock, self._workload, self._count = copies, clock, workload, count
        self._note, self._noted = note_reason, ""
        self._next_look = CHECK_INTERVAL
        self._misplaced: PortMismatch | None = None
        """The wrong port on which the program listens, at the last check."""
        self._misplaced_since = 0.0
        self._passed: Counter[tuple[str, int, int]] = Counter()
        """Number of consecutive successes, by instance id, number of restarts, and number of the probe."""

    async def run(self) -> None:
        """Waits until all copies are ready. Raises NotReady if a copy has ended, if the copies cannot become
        ready, or if the time limit has passed."""
        began, pause = time.monotonic(), FIRST_PAUSE
        deadline, looked_at = began + self._workload.patience, began
        while self._count and (obstacle := await self._obstacle(deadline)):
            now = time.monotonic()
            waited, limit = now - began, longest_pause(now - looked_at)
            if began + waited > deadline:
                raise NotReady(await self._failure(obstacle))
            if self._workload.ready and waited >= self._next_look:
                await self._check_listeners(obstacle, waited)
            pause = min(pause, limit)
            await asyncio.sleep(pause)
            pause, looked_at = pause * _PAUSE_GROWTH, time.monotonic()

    async def _check_listeners(self, obstacle: Obstacle, waited_seconds: float) -> None:
        """Checks on which ports the program listens. Reports the remedy, and aborts the wait if a wrong port
        is certain."""
        self._next_look = waited_seconds + max(CHECK_INTERVAL, waited_seconds / 4)
        misplaced = await self._port_mismatch(obstacle)
        if misplaced != self._misplaced:
            self._misplaced, self._misplaced_since = misplaced, waited_seconds
        lasted = waited_seconds - self._misplaced_since
        if misplaced is None:
            if waited_seconds >= NOTED_AFTER and not self._noted:
                await self._note_reason(
                    f"{LOG_HINT}{self._workload.name} is not ready yet: {obstacle.reason}"
                )
        elif lasted >= SURE_AFTER:
            await self._follow(obstacle, misplaced)
            await self._note_reason(misplaced.advice)
            if lasted >= WRONG_PORT_TIMEOUT and self._is_hopeless(misplaced):
                raise NotReady(f"{misplaced.advice}. {self._workload.name} was given {lasted:.0f} seconds")

    async def _note_reason(self, reason: str) -> None:
        """Logs the reason of a long wait, each reason once."""
        if reason != self._noted:
            self._noted = reason
            await self._note(reason)

    async def _follow(self, obstacle: Obstacle, misplaced: PortMismatch) -> None:
        """Raises ListensElsewhere if Windlass chose the only port, and the program answers HTTP on another
        port."""
        number, copy, ports = misplaced.port, obstacle.copy, self._workload.ports
        if number is None or number in _NON_HTTP_PORTS or copy is None or not misplaced.is_whole:
            return
        if [port.automatic for port in ports] == [True] and await self._copies.speaks_http(copy, number):
            raise ListensElsewhere(misplaced.advice, number)

    def _is_hopeless(self, misplaced: PortMismatch) -> bool:
        """Returns whether waiting longer is useless. It is not if the service has volumes (the program may
        prepare its data first) or declared probes (which have their own time limit)."""
        return misplaced.is_whole and not (self._workload.watched or self._workload.volumes)

    async def _failure(self, obstacle: Obstacle) -> str:
        name, patience = self._workload.name, f"{self._workload.patience:.0f} seconds"
        if misplaced := await self._port_mismatch(obstacle):
            return f"{misplaced.advice}. {name} was not healthy after {patience}"
        return f"{LOG_HINT}{name} was not healthy after {patience}: {obstacle.reason}"

    async def _port_mismatch(self, obstacle: Obstacle) -> PortMismatch | None:
        """Returns the wrong port on which the program listens; None if it cannot be determined."""
        copy, probe = obstacle.copy, obstacle.probe
        if copy is None or probe is None or probe.kind is ProbeKind.EXEC:
            return None
        try:
            listeners = await self._copies.listeners(copy)
        except EngineError:  # the reason is reported without advice
            return None
        return find_port_mismatch(
            self._workload, copy, probe.port, listeners, from_outside=self._copies.has_go_between
        )

    async def _obstacle(self, deadline: float) -> Obstacle | None:
        """Returns why the generation is not ready yet; None if it is ready."""
        try:
            copies = await self._own_copies()
            for copy in copies:
                if copy.phase is not Phase.RUNNING or copy.restarts:
                    ended = await self._with_end_reason(copy)
                    if self._ends and not ended.is_cut_off:
                        ended = await self._ends.confirm(ended)
                    if not ended.is_cut_off:
                        raise NotReady(_early_end_message(self._workload.name, ended.reason or "ended"))
                    if ended.phase is Phase.EXITED and (refused := await self._start_again(ended.index)):
                        return refused
                    if ended.phase is not Phase.RUNNING:
                        return Obstacle(f"it {ended.reason}. It is waited for")
            if self._was_away:
                for index in {*range(self._count)} - {copy.index for copy in copies}:
                    if refused := await self._start_again(index):
                        return refused
                self._was_away = False
        except EngineUnavailable as away:
            self._was_away = True
            if time.monotonic() > deadline:
                raise
            return Obstacle(str(away))
        hindrances = await asyncio.gather(*(self._obstacle_of(copy) for copy in copies))
        missing = self._count - len(copies)
        absent = Obstacle(f"{missing} of its instances never started") if missing > 0 else None
        return next(filter(None, hindrances), absent)

    async def _start_again(self, index: int) -> Obstacle | None:
        """Starts a copy whose end was not caused by its program. An engine that is being stopped or started
        may refuse it."""
        try:
            if self._ends:
                await self._ends.start_again(self._workload, index)
        except (ArtifactLost, EngineUnavailable):
            raise
        except EngineError as refused:
            return Obstacle(str(refused))
        return None

    async def _own_copies(self) -> list[Instance]:
        copies = await self._copies.copies(self._workload.service)
        return [copy for copy in copies if copy.generation == self._workload.generation]

    async def _with_end_reason(self, ended_instance: Instance) -> Instance:
        """Returns an ended copy with its reason. Waits for the reason if necessary, because an engine may
        detect the end first."""
        for _ in range(_LOOKS_FOR_REASON):
            if ended_instance.reason:
                break
            await asyncio.sleep(FIRST_PAUSE)
            ended_instance = next(
                (copy for copy in await self._own_copies() if copy.id == ended_instance.id), ended_instance
            )
        return ended_instance

    async def _obstacle_of(self, instance: Instance) -> Obstacle | None:
        """Returns why a copy is not ready yet; None if it is ready."""
        if not self._workload.ready:
            age = (self._clock.now() - instance.started_at) / 1000
            return None if age >= self._workload.settle else Obstacle("it has not run for long enough")
        for number, probe in enumerate(self._workload.ready):
            key = instance.id, instance.restarts, number
            if self._passed[key] >= probe.successes:
                continue
            if problem := await self._copies.probe(instance, probe):
                self._passed[key] = 0
                return Obstacle(problem, instance, probe)
            self._passed[key] += 1
            if self._passed[key] < probe.successes:
                return Obstacle("its probe succeeds, but not often enough in a row yet")
        return None


def longest_pause(look_seconds: float) -> float:
    """Returns the longest pause after a look that has taken this long."""
    return min(max(_PAUSE_PER_LOOK * look_seconds, _SHORTEST_LIMIT), MAX_PAUSE)


def _early_end_message(name: str, reason: str) -> str:
    end, colon, meaning = reason.partition(":")
    if end == _ENDED_WELL:
        return (
            "Name a command that keeps running, such as `web: gunicorn app:app` in a Procfile: "
            f"{name} ended by itself, and {end}, while it was starting{colon}{meaning}"
        )
    return f"{LOG_HINT}{name} {end} while it was starting{colon}{meaning}"
