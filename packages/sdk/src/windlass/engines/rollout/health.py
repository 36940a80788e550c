"""Probes running copies: restarts copies that are not alive, and marks copies that are not ready."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from msgspec import Struct, structs

from windlass.base.clock import Clock
from windlass.base.log import log
from windlass.engines.engine import EngineError, Notice, Sink
from windlass.engines.rollout.copies import Copies
from windlass.engines.workload import HealthProbe, Instance, OutputLine, Phase, Workload

_WRITER_NAME: Final = "windlass"
"""Source name of Windlass's own messages in a service's log."""
_log = log("engines.health")

Generation = tuple[str, int]
"""Service and generation."""
Identity = tuple[str, int, int]
"""Service, generation and index."""


class ProbeStreak(Struct):
    """Consecutive results of one probe for one instance."""

    failures: int = 0
    successes: int = 0

    def add(self, problem: str) -> None:
        self.failures = self.failures + 1 if problem else 0
        self.successes = 0 if problem else self.successes + 1


Streaks = dict[tuple[str, int, str, int], ProbeStreak]
"""Streaks by instance id, number of restarts, purpose of the probe, and number of the probe."""


class HealthMonitor:
    """Runs a task for each generation with probes that continue after its start."""

    def __init__(self, copies: Copies, clock: Clock) -> None:
        self._copies, self._clock = copies, clock
        self._notice: Notice = lambda service: None
        self._sink: Sink = lambda service, lines: None
        self._workloads: dict[Generation, Workload] = {}
        self._tasks: dict[Generation, asyncio.Task[None]] = {}
        self._paused: set[Generation] = set()
        self._reasons: dict[Identity, str] = {}
        """Reasons why instances must not get requests."""

    def start(self, notice: Notice, sink: Sink) -> None:
        self._notice, self._sink = notice, sink

    async def stop(self) -> None:
        tasks = [*self._tasks.values()]
        for key in [*self._tasks]:
            self._drop(key)
        await asyncio.gather(*tasks, return_exceptions=True)

    def watch(self, workload: Workload) -> None:
        """Starts probing the copies of a generation. Restarts use the latest version of the workload."""
        key = workload.service, workload.generation
        if not (workload.alive or _declared_probes(workload)):
            return
        self._workloads[key] = workload
        if key not in self._tasks:
            self._tasks[key] = asyncio.create_task(self._watch(key))

    def forget(self, service: str, generation: int | None = None) -> None:
        for key in [*self._tasks]:
            if key[0] == service and generation in (None, key[1]):
                self._drop(key)

    def mark(self, instance: Instance) -> Instance:
        """Returns a copy with the reason why it must not get requests, if there is one."""
        reason = self._reasons.get(_identity(instance))
        return structs.replace(instance, unready=reason) if reason else instance

    @contextmanager
    def pause(self, workload: Workload) -> Iterator[None]:
        """Pauses the monitoring of a generation during its start, because `ReadinessWait` probes it."""
        key = workload.service, workload.generation
        self._paused.add(key)
        try:
            yield
        finally:
            self._paused.discard(key)

    @contextmanager
    def unready(self, copies: Sequence[Instance], reason: str) -> Iterator[None]:
        """Marks copies as not ready during the block, whatever their probes return."""
        self._reasons.update({_identity(copy): reason for copy in copies})
        try:
            yield
        finally:
            for copy in copies:
                self._reasons.pop(_identity(copy), None)

    def _drop(self, key: Generation) -> None:
        del self._workloads[key]
        self._tasks.pop(key).cancel()
        for identity in [identity for identity in self._reasons if identity[:2] == key]:
            del self._reasons[identity]

    async def _watch(self, key: Generation) -> None:
        streaks: Streaks = {}
        while True:
            workload = self._workloads[key]
            await asyncio.sleep(min(probe.period for probe in (*workload.alive, *_declared_probes(workload))))
            if key in self._paused:
                continue
            try:
                if not await self._check_copies(self._workloads[key], streaks):
                    return self._drop(key)
            except EngineError as error:
                _log.info("cannot probe a service", extra={"id": key[0], "why": str(error)})
            except Exception:  # noqa: BLE001 (the monitor of one service must outlive one failed check)
                _log.exception("the probes of a service failed", extra={"id": key[0]})

    async def _check_copies(self, workload: Workload, streaks: Streaks) -> bool:
        """Probes all copies of a generation. Returns False if no copies exist: another server has removed the
        generation."""
        present = await self._copies.copies(workload.service)
        copies = [copy for copy in present if copy.generation == workload.generation]
        for copy in copies:
            if copy.phase is Phase.RUNNING:
                await self._check_alive(workload, copy, streaks)
                await self._check_ready(workload, copy, streaks)
        return bool(copies)

    async def _check_alive(self, workload: Workload, instance: Instance, streaks: Streaks) -> None:
        age = (self._clock.now() - instance.started_at) / 1000
        for number, probe in enumerate(workload.alive):
            if age < probe.initial_delay:
                continue
            streak = streaks.setdefault((instance.id, instance.restarts, "alive", number), ProbeStreak())
            problem = await self._copies.probe(instance, probe)
            streak.add(problem)
            if streak.failures >= probe.failures:
                self._log_event(workload, instance, f"is not alive ({problem}): it is restarted")
                streak.failures = 0
                return await self._restart(workload, instance)
        return None

    async def _restart(self, workload: Workload, instance: Instance) -> None:
        try:
            await self._copies.end(
                workload.service,
                generation=workload.generation,
                indexes=[instance.index],
                grace=workload.grace,
            )
            await self._copies.run(workload, instance.index)
        finally:  # after a failure, the next `apply` starts the missing copy
            self._notice(workload.service)

    async def _check_ready(self, workload: Workload, instance: Instance, streaks: Streaks) -> None:
        failed, passed = "", True
        for number, probe in enumerate(_declared_probes(workload)):
            streak = streaks.setdefault((instance.id, 0, "ready", number), ProbeStreak())
            problem = await self._copies.probe(instance, probe)
            streak.add(problem)
            failed = failed or (problem if streak.failures >= probe.failures else "")
            passed = passed and streak.successes >= probe.successes
        identity = _identity(instance)
        if failed and identity not in self._reasons:
            self._log_event(workload, instance, f"is not ready ({failed}): it gets no requests")
            self._reasons[identity] = failed
            self._notice(workload.service)
        elif passed and identity in self._reasons and _declared_probes(workload):
            self._log_event(workload, instance, "is ready again")
            del self._reasons[identity]
            self._notice(workload.service)

    def _log_event(self, workload: Workload, instance: Instance, event: str) -> None:
        message = f"Instance {instance.index} {event}"
        self._sink(
            workload.service, [OutputLine(self._clock.now(), message, _WRITER_NAME, workload.deployment)]
        )


def _identity(instance: Instance) -> Identity:
    return instance.service, instance.generation, instance.index


def _declared_probes(workload: Workload) -> tuple[HealthProbe, ...]:
    """Returns the readiness probes that users declared. Derived probes only detect the end of the start."""
    return workload.ready if workload.watched else ()
