"""An engine that rolls out by itself, as Kubernetes does: it is told a number, and its controller acts.

It has no verb for a single copy, and probes without Windlass. Everything is in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from windlass.engines.engine import (
    UNKNOWN_LIMITS,
    DiskMeasurement,
    EngineError,
    Execution,
    ExecutionRequest,
    Leave,
    Missed,
    Note,
    Notice,
    NotReady,
    Sink,
    ignore_lost_lines,
    ignore_note,
    leave_immediately,
)
from windlass.engines.registries import PullRequest, RegistryLogin
from windlass.engines.workload import (
    Artifact,
    HealthProbe,
    Instance,
    Observation,
    Outcome,
    Phase,
    Presence,
    RoutedAddress,
    ServiceAddress,
    StoredData,
    Usage,
    Workload,
)

Generation = tuple[str, int]
MOMENT = 0.001


class DeclarativeEngine:
    name = "declarative"
    limits = UNKNOWN_LIMITS
    identity = ""
    is_unavailable = False
    server_host = ""

    def __init__(self) -> None:
        self.takes: Literal["native", "image"] = "image"
        self.replicas: dict[Generation, tuple[Workload, int]] = {}
        """As declared."""
        self.pods: dict[Generation, list[Instance]] = {}
        """As they are."""
        self.crashes: set[str] = set()
        """Services whose pods end as soon as they start."""
        self._made = 0
        self._notice: Notice = lambda service: None
        self._controller: asyncio.Task[None] | None = None

    async def start(self, notice: Notice, sink: Sink, missed: Missed = ignore_lost_lines) -> None:
        self._notice = notice
        if self._controller is None:
            self._controller = asyncio.create_task(self._control())

    async def stop(self) -> None:
        if self._controller is not None:
            self._controller.cancel()
            self._controller = None

    async def _control(self) -> None:
        while True:
            await asyncio.sleep(MOMENT)
            for key, (workload, count) in [*self.replicas.items()]:
                pods = self.pods.setdefault(key, [])
                if len(pods) < count:
                    pods.append(self._pod(workload))
                    self._notice(workload.service)

    def _pod(self, workload: Workload) -> Instance:
        self._made += 1
        crashes = workload.service in self.crashes
        return Instance(
            id=f"pod-{self._made}",
            service=workload.service,
            generation=workload.generation,
            index=self._made,
            phase=Phase.WAITING if crashes else Phase.RUNNING,
            address=f"10.200.0.{self._made}",
            reason="exited with code 1" if crashes else "",
            ports={port.internal: port.internal for port in workload.ports},
        )

    async def resolve(self, request: PullRequest, say: Callable[[str], None]) -> str:
        return request.ref

    async def prepare(
        self,
        artifact: Artifact,
        say: Callable[[str], None],
        login: RegistryLogin | None = None,
        org: str = "",
        service: str = "",
    ) -> None:
        """A node pulls images itself."""

    async def export(self, artifact: Artifact, folder: str, into: Path) -> Path:
        return into

    async def apply(self, workload: Workload, count: int, leave: Leave = leave_immediately) -> Observation:
        key = workload.service, workload.generation
        pods = self.pods.setdefault(key, [])
        if surplus := pods[count:]:
            kept = [*pods]
            pods[count:] = [replace(pod, unready="it is about to end") for pod in surplus]
            try:
                await leave(surplus)
            except BaseException:
                self.pods[key] = kept
                raise
            del pods[count:]
        self.replicas[key] = workload, count
        return await self.observe(workload.service)

    async def wait_until_ready(self, workload: Workload, count: int, note: Note = ignore_note) -> None:
        ready = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(workload.patience):
                while (ready := await self._count_ready(workload)) < count:  # noqa: ASYNC110 (a fake polls)
                    await asyncio.sleep(MOMENT)
        if ready < count:
            raise NotReady(f"{workload.name} was not healthy: {count - ready} of its instances never started")

    async def _count_ready(self, workload: Workload) -> int:
        seen = (await self.observe(workload.service)).of(workload.generation)
        for pod in seen.broken:
            raise NotReady(f"Look at the log: {workload.name} {pod.reason} while it was starting")
        return len(seen.ready)

    async def once(self, workload: Workload, index: int = 0) -> Outcome:
        raise EngineError("a Job would do it")

    async def read_output(self, workload: Workload, index: int = 0) -> bytes | None:
        return None

    async def observe(self, service: str) -> Observation:
        return Observation(
            tuple(pod for key in sorted(self.pods) if key[0] == service for pod in self.pods[key])
        )

    async def all(self) -> list[Instance]:
        return [pod for pods in self.pods.values() for pod in pods]

    async def present(self) -> Sequence[Presence]:
        return [Presence(pod.service, pod.generation, pod.phase is Phase.RUNNING) for pod in await self.all()]

    async def remove(self, service: str, *, generation: int | None = None, grace: float = 10.0) -> None:
        for key in [*self.replicas]:
            if key[0] == service and generation in (None, key[1]):
                del self.replicas[key]
                self.pods.pop(key, None)

    async def discard(self, service: str) -> None:
        await self.remove(service)

    async def execute(self, instance: Instance, command: Sequence[str], timeout: float) -> tuple[int, str]:
        return 0, ""

    async def probe(self, instance: Instance, probe: HealthProbe) -> str:
        return ""

    async def open_execution(self, instance: Instance, request: ExecutionRequest) -> Execution:
        raise EngineError("nothing runs here")

    async def neighbour_address(
        self, environment: str, service: str, name: str, internal: int
    ) -> ServiceAddress:
        return ServiceAddress(f"{service}.windlass-{environment}.svc", internal)

    @property
    def measures_memory(self) -> bool:
        return True

    @property
    def server_folder(self) -> str:
        return ""

    async def shared_network(self) -> str:
        return ""

    async def why_one_organization(self) -> str:
        return ""

    async def volume_sizes(self) -> Mapping[str, int]:
        return {}

    def note_disk_use(self, use: DiskMeasurement) -> None:
        """Has no disk to share."""

    async def routed_addresses(self, workload: Workload, internal: int) -> Sequence[RoutedAddress]:
        return ()

    async def usage(self) -> Mapping[str, Usage]:
        return {}

    async def services(self) -> Mapping[str, StoredData]:
        return {service: StoredData(instances=1) for service, _ in self.replicas}

    async def sweep(self, erase: Collection[str]) -> None:
        for service in erase:
            await self.discard(service)

    async def set_aside(self, service: str, into: Path) -> None:
        await self.remove(service)

    async def put_back(self, service: str, out: Path) -> None:
        """Has nothing to do: no data was moved."""

    async def problem(self) -> str:
        return ""
