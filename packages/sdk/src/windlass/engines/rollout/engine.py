"""Rollouts for engines that start copies one by one.

Scales copies, waits until they are ready, stops sending requests to surplus ones before they end, and
restarts copies that fail a probe. An engine inherits from `RolloutEngine`, and implements `Copies` and the
remaining methods of `Engine`.
"""

from __future__ import annotations

from windlass.base.clock import Clock, SystemClock
from windlass.base.slot_waits import waiting
from windlass.engines.engine import (
    Engine,
    Leave,
    Missed,
    Note,
    Notice,
    Say,
    Sink,
    ignore_lost_lines,
    ignore_note,
    leave_immediately,
)
from windlass.engines.registries import PullRequest, RegistryLogin
from windlass.engines.rollout import probes
from windlass.engines.rollout.copies import Copies
from windlass.engines.rollout.health import HealthMonitor
from windlass.engines.rollout.readiness import Ends, ReadinessWait
from windlass.engines.workload import Artifact, HealthProbe, Instance, Observation, Workload


class RolloutEngine(Engine, Copies):
    has_go_between: bool = False

    def __init__(self, clock: Clock | None = None) -> None:
        self._health_clock = clock or SystemClock()
        self._monitor = HealthMonitor(self, self._health_clock)

    async def start(self, notice: Notice, sink: Sink, on_missed_notices: Missed = ignore_lost_lines) -> None:
        self._monitor.start(notice, sink)

    async def stop(self) -> None:
        await self._monitor.stop()

    # Images: defaults for engines without images

    async def resolve(self, request: PullRequest, write_line: Say) -> str:
        return request.ref

    async def prepare(
        self,
        artifact: Artifact,
        write_line: Say,
        login: RegistryLogin | None = None,
        org: str = "",
        service: str = "",
    ) -> None:
        """Does nothing, because built artifacts are already on this machine."""

    # Rollouts

    async def apply(self, workload: Workload, count: int, leave: Leave = leave_immediately) -> Observation:
        for index in range(count):
            await self.run(workload, index)
        self._monitor.watch(workload)
        seen = await self.observe(workload.service)
        surplus = [copy for copy in seen.of(workload.generation).instances if copy.index >= count]
        if not surplus:
            return seen
        with self._monitor.unready(surplus, "it is about to end"):
            await leave(surplus)
            indexes = [copy.index for copy in surplus]
            with waiting.get()():
                await self.end(
                    workload.service, generation=workload.generation, indexes=indexes, grace=workload.grace
                )
        return Observation(tuple(copy for copy in seen.instances if copy not in surplus))

    async def wait_until_ready(self, workload: Workload, count: int, note_reason: Note = ignore_note) -> None:
        with self._monitor.pause(workload):
            await ReadinessWait(
                self, self._health_clock, workload, count, note_reason, Ends(self.confirm_end, self.run)
            ).run()

    async def confirm_end(self, copy: Instance) -> Instance:
        """Returns an ended copy once it is known whether its program caused the end."""
        return copy

    async def observe(self, service: str) -> Observation:
        return Observation(tuple(self._monitor.mark(copy) for copy in await self.copies(service)))

    async def remove(self, service: str, *, generation: int | None = None, grace: float = 10.0) -> None:
        self._monitor.forget(service, generation)
        # The owner of a service chooses its grace period. It holds no slot of other organizations.
        with waiting.get()():
            await self.end(service, generation=generation, grace=grace)

    def forget(self, service: str) -> None:
        """Stops the probes of a service that is being deleted."""
        self._monitor.forget(service)

    async def probe(self, instance: Instance, probe: HealthProbe) -> str:
        return await probes.run_probe(self, instance, probe)

    async def speaks_http(self, instance: Instance, port: int) -> bool:
        # From outside, an unpublished port is only reachable at the instance's own address.
        address = instance.inside if self.has_go_between else instance.address
        return bool(address) and await probes.speaks_http(address, port, instance.network)
