"""Probes instances while they start. Later, nodes probe by themselves."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from windlass.base.clock import Clock
from windlass.engines.engine import EngineError, EngineUnavailable, InstanceEnded
from windlass.engines.rollout.listeners import ListeningPort, listening_sockets, queued_at
from windlass.engines.rollout.probes import run_probe, speaks_http
from windlass.engines.workload import HealthProbe, Instance, Phase, ProbeKind

if TYPE_CHECKING:
    from windlass.kubernetes.engine import KubernetesEngine

_TCP_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")
_TABLES_TIMEOUT: Final = 5.0


class Probing:
    """The interface `ProbedCopies` of the engine."""

    has_go_between = False

    def __init__(self, engine: KubernetesEngine) -> None:
        self._engine = engine

    @property
    def clock(self) -> Clock:
        return self._engine.clock

    async def copies(self, service: str) -> list[Instance]:
        """Returns the copies that have started. `readiness` explains why others have not."""
        seen = (await self._engine.observe(service)).instances
        return [copy for copy in seen if copy.phase is not Phase.WAITING or copy.exit_code is not None]

    async def execute(self, instance: Instance, command: Sequence[str], timeout: float) -> tuple[int, str]:
        return await self._engine.execute(instance, command, timeout)

    async def probe(self, instance: Instance, probe: HealthProbe) -> str:
        """Returns the result of the node, which probes by itself. Probes the instance if there is none."""
        if probe.kind is not ProbeKind.EXEC and not instance.address and instance.unready:
            return instance.unready  # no connection may be opened to it
        if probe.kind is not ProbeKind.EXEC and not probe.accepted and self._engine.is_passing(instance):
            return ""
        problem = await run_probe(self, instance, probe)
        is_passing = self._engine.is_passing(instance)
        if problem and probe.accepted and is_passing:
            # Its address may not be reachable from here; its connections are counted inside.
            with suppress(EngineError):
                if await self.queued(instance, probe.port) == 0:
                    return ""
        return problem or ("" if is_passing else "its node has not seen it answer yet")

    async def listeners(self, instance: Instance) -> Collection[ListeningPort]:
        _, tables = await self.execute(instance, ("cat", *_TCP_TABLES), _TABLES_TIMEOUT)
        return sorted({listener for listener, _ in listening_sockets(tables)})

    async def queued(self, instance: Instance, port: int) -> int | None:
        before = self._engine.start_of(instance)
        try:
            code, tables = await self.execute(instance, ("cat", *_TCP_TABLES), _TABLES_TIMEOUT)
        except EngineUnavailable:
            raise
        except EngineError as error:  # no command can begin in a container that has ended
            raise InstanceEnded("The instance does not run") from error
        if before is None or before != self._engine.start_of(instance):
            raise InstanceEnded("The instance does not run")
        count = queued_at(tables, port)
        if count is None and code == 0:
            raise InstanceEnded("The program does not listen any more")
        return count

    async def speaks_http(self, instance: Instance, port: int) -> bool:
        return bool(instance.address) and await speaks_http(instance.address, port)
