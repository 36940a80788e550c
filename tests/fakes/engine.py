"""An engine for tests: runs nothing, remembers everything, and misbehaves on request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from tests.fakes.execution import FakeExecution
from windlass.engines.engine import (
    UNKNOWN_LIMITS,
    ArtifactLost,
    EngineError,
    EngineUnavailable,
    ExecutionRequest,
    Missed,
    Notice,
    Sink,
    VolumeLost,
    ignore_lost_lines,
)
from windlass.engines.environment_spaces import FindEnvironments
from windlass.engines.namespace_access import NamespaceCredential
from windlass.engines.registries import PullRequest, RegistryLogin
from windlass.engines.rollout.engine import RolloutEngine
from windlass.engines.rollout.listeners import ListeningPort
from windlass.engines.workload import (
    Artifact,
    HealthProbe,
    Instance,
    Outcome,
    OutputLine,
    Phase,
    RoutedAddress,
    ServiceAddress,
    StoredData,
    Usage,
    Workload,
)

Key = tuple[str, int, int]


class FakeProbes:
    """Answers every probe as the test says."""

    def __init__(self) -> None:
        self.problem = ""
        """If set, no instance passes, for this reason."""
        self.asked: list[HealthProbe] = []
        self.listeners: list[ListeningPort] = []
        """The ports on which every instance listens."""
        self.speaks: set[int] = set()
        """The ports on which every instance answers HTTP."""


_ADDRESSES: dict[tuple[str, int], int] = {}
"""Services and their ports, in the order in which somebody asked where they are: no two share an address."""


class FakeEngine(RolloutEngine):
    name = "fake"
    limits = UNKNOWN_LIMITS
    identity = ""

    def __init__(self, takes: Literal["native", "image"] = "native") -> None:
        super().__init__()
        self.takes = takes
        self.probes = FakeProbes()
        self.instances: dict[Key, Instance] = {}
        self.deployments: dict[Key, str] = {}
        """The deployment to which each instance belongs."""
        self.running: dict[str, Workload] = {}
        """By service: what was started last and not removed since."""
        self.applied: list[Workload] = []
        """Every generation that was asked for, in order."""
        self.digests: dict[str, str] = {}
        """The digests of images that a registry has, by name and tag; without one, only the engine has it."""
        self.resolved: list[PullRequest] = []
        self.prepared: list[str] = []
        """Every artifact that was to be made ready, in order."""
        self.logins: list[RegistryLogin | None] = []
        """The login with which each of these was asked for."""
        self.users: list[tuple[str, str]] = []
        """The organization and the service for which each of these was asked for."""
        self.missing = ""
        """If set, no artifact can be made ready, for this reason."""
        self.begun = 0
        """Number of starts of instances that did not run yet."""
        self.discarded: list[str] = []
        self.ended: dict[Key, asyncio.Future[Outcome]] = {}
        """Workloads that run once: under way, or with their result."""
        self.work: Callable[[Workload], Awaitable[int]] | None = None
        """The work of a workload that runs once; returns its exit code. If None, it ends well at once."""
        self.output: bytes | None = None
        """The file that each run writes."""
        self.outputs: dict[Key, bytes | None] = {}
        self.removed: dict[str, set[int]] = {}
        """Generations that were removed as a whole, by service."""
        self.aside: dict[str, dict[Key, Instance]] = {}
        """By service: what was set aside."""
        self.load: dict[str, Usage] = {}
        self.builds: Mapping[tuple[str, str], Artifact] | None = None
        """If set, what was built and is there."""
        self.files: Mapping[str, bytes] = {"index.html": b"<h1>Hello</h1>"}
        """The files of each static site."""
        self.lost: set[str] = set()
        """Services whose volumes are gone."""
        self.broken = ""
        """If set, nothing starts, for this reason."""
        self.writes = ""
        """If set, whatever is started writes this line first."""
        self.shares = ""
        """If set, its instances share one network, for this reason."""
        self.exits = ""
        """If set, whatever is started ends at once, for this reason."""
        self.away = False
        """If set, it does not answer."""
        self.keeps = ""
        """If set, nothing can be discarded, for this reason."""
        self.executions: list[FakeExecution] = []
        """The commands beside instances, in order."""
        self.crash: BaseException | None = None
        """If set, starting raises what no engine should."""
        self.leaving: dict[str, asyncio.Event] = {}
        """What the instances of a service wait for before they end."""
        self.gate: asyncio.Event | None = None
        """If set, starting waits for it."""
        self.spaces: frozenset[str] = frozenset()
        """The environments for which it keeps a namespace."""
        self.credentials: set[tuple[str, str]] = set()
        """Environment and run of each credential for a cluster that is valid."""
        self._notice: Notice = lambda service: None
        self.answers_at = 0
        """The port of this machine at which all instances answer; 0: made up, and none does."""
        self._sink: Sink = lambda service, lines: None
        self.comes_back: Missed = ignore_lost_lines
        """Tells that it was away, and that notices may have been missed."""

    async def namespace_credential(
        self, environment: str, org: str, *, run: str, seconds: float, has_whole_cluster: bool
    ) -> NamespaceCredential:
        """It stands for a Kubernetes cluster, too."""
        self._answer()
        self.credentials.add((environment, run))
        return NamespaceCredential(
            server="https://127.0.0.1:1",
            ca_certificate="",
            token=f"{org} {seconds:g} {has_whole_cluster}",
            namespace=f"wl-{environment}",
        )

    def find_environments_with(self, find: FindEnvironments) -> None:
        self.find_environments = find

    async def environments(self) -> Collection[str]:
        self._answer()
        return self.spaces

    async def remove_environments(self, deleted_environments: Collection[str]) -> None:
        self._answer()
        self.spaces = self.spaces.difference(deleted_environments)

    async def revoke_credential(self, environment: str, run: str) -> None:
        self._answer()
        self.credentials.discard((environment, run))

    async def shared_network(self) -> str:
        return self.shares

    async def why_one_organization(self) -> str:
        return self.shares

    @property
    def is_unavailable(self) -> bool:
        return self.away

    async def start(self, notice: Notice, sink: Sink, missed: Missed = ignore_lost_lines) -> None:
        await super().start(notice, sink)
        self._notice, self._sink, self.comes_back = notice, sink, missed

    async def resolve(self, request: PullRequest, say: Callable[[str], None]) -> str:
        self._answer()
        self.resolved.append(request)
        name, digest = request.ref.rpartition(":")[0], self.digests.get(request.ref)
        return f"{name}@{digest}" if digest else request.ref

    async def prepare(
        self,
        artifact: Artifact,
        say: Callable[[str], None],
        login: RegistryLogin | None = None,
        org: str = "",
        service: str = "",
    ) -> None:
        self._answer()
        if self.missing:
            raise EngineError(self.missing)
        self.prepared.append(artifact.ref)
        self.logins.append(login)
        self.users.append((org, service))

    async def export(self, artifact: Artifact, folder: str, into: Path) -> Path:
        self._answer()
        if self.builds is not None and artifact not in self.builds.values():
            raise ArtifactLost("the build is gone")
        for path, content in self.files.items():
            (into / path).parent.mkdir(parents=True, exist_ok=True)
            (into / path).write_bytes(content)
        return into

    async def run(self, wanted: Workload, index: int) -> Instance:
        self._answer()
        return await self._begun(wanted, index)

    async def once(self, wanted: Workload, index: int = 0) -> Outcome:
        self._answer()
        key = (wanted.service, wanted.generation, index)
        if wanted.generation in self.removed.get(wanted.service, ()):
            raise EngineError(f"Deployment {wanted.generation} of {wanted.name} was removed")
        await self._begun(wanted, index)
        if key not in self.ended:
            self.ended[key] = asyncio.ensure_future(self._run_to_its_end(wanted, key))
        run = self.ended[key]
        await asyncio.wait([run])
        if key not in self.instances:
            raise EngineError(f"{wanted.name} was removed while it ran")
        return run.result()

    async def _begun(self, wanted: Workload, index: int) -> Instance:
        key = (wanted.service, wanted.generation, index)
        if (known := self.instances.get(key)) and self.deployments.get(
            key, wanted.deployment
        ) == wanted.deployment:
            return known
        self.deployments[key] = wanted.deployment
        self.ended.pop(key, None)
        self.begun += 1
        if not self.applied or self.applied[-1] != wanted:
            self.applied.append(wanted)
        if self.writes:
            at, pod = self._health_clock.now(), f"{wanted.name}-{wanted.generation}-{index}"
            self.says(wanted.service, OutputLine(at, self.writes, pod, wanted.deployment))
        if self.gate is not None:
            await self.gate.wait()
        if self.crash is not None:
            raise self.crash
        if self.broken:
            raise EngineError(self.broken)
        for volume in wanted.volumes if wanted.service in self.lost else ():
            if volume.is_known:
                raise VolumeLost(wanted, volume)
        if self.builds is not None and wanted.artifact not in self.builds.values():
            raise ArtifactLost("the build is gone")
        instance = Instance(
            id="-".join(map(str, key)),
            service=wanted.service,
            generation=wanted.generation,
            index=index,
            phase=Phase.EXITED if self.exits else Phase.RUNNING,
            address="127.0.0.1",
            reason=self.exits,
            ports={
                port.internal: self.answers_at or 30_000 + port.internal % 30_000 for port in wanted.ports
            },
        )
        self.instances[key] = instance
        self.running[wanted.service] = wanted
        return instance

    async def _run_to_its_end(self, wanted: Workload, key: Key) -> Outcome:
        instance = self.instances[key]
        exit_code = 0 if self.work is None else await self.work(wanted)
        reason = self.exits or f"exited with code {exit_code}"
        self.instances[key] = replace(instance, phase=Phase.EXITED, exit_code=exit_code, reason=reason)
        self._notice(wanted.service)
        return Outcome(exit_code=exit_code, reason=reason, started_at=1, ended_at=2)

    async def read_output(self, workload: Workload, index: int = 0) -> bytes | None:
        self._answer()
        return self.outputs.get((workload.service, workload.generation, index), self.output)

    async def copies(self, service: str) -> list[Instance]:
        self._answer()
        return [one for one in self.instances.values() if one.service == service]

    async def all(self) -> list[Instance]:
        self._answer()
        return [*self.instances.values()]

    async def end(
        self,
        service: str,
        *,
        generation: int | None = None,
        indexes: Collection[int] | None = None,
        grace: float = 10.0,
    ) -> None:
        self._answer()
        if held := self.leaving.get(service):
            await held.wait()
        for key, one in [*self.instances.items()]:
            other = generation is not None and one.generation != generation
            if one.service == service and not other and (indexes is None or one.index in indexes):
                del self.instances[key]
                if indexes is None:
                    self.removed.setdefault(service, set()).add(one.generation)
                if run := self.ended.pop(key, None):
                    run.cancel()
        left = [one for one in self.instances.values() if one.service == service]
        if not left:
            self.running.pop(service, None)

    async def discard(self, service: str) -> None:
        await self.remove(service)
        if self.keeps:
            raise EngineError(self.keeps)
        self.discarded.append(service)

    async def execute(self, instance: Instance, command: Sequence[str], timeout: float) -> tuple[int, str]:
        return 0, ""

    async def open_execution(self, instance: Instance, request: ExecutionRequest) -> FakeExecution:
        self._answer()
        if self.broken:
            raise EngineError(self.broken)
        self.executions.append(FakeExecution(request))
        return self.executions[-1]

    async def neighbour_address(
        self, environment: str, service: str, name: str, internal: int
    ) -> ServiceAddress:
        number = _ADDRESSES.setdefault((service, internal), len(_ADDRESSES))
        return ServiceAddress("127.0.0.1", 20_000 + number % 10_000)

    async def routed_addresses(self, workload: Workload, internal: int) -> Sequence[RoutedAddress]:
        if self.takes != "native":
            return ()
        at = await self.neighbour_address(workload.environment, workload.service, workload.name, internal)
        return (RoutedAddress(at.host, at.port),)

    async def listeners(self, instance: Instance) -> Collection[ListeningPort]:
        return self.probes.listeners

    async def queued(self, instance: Instance, port: int) -> int | None:
        return None

    async def probe(self, instance: Instance, probe: HealthProbe) -> str:
        self.probes.asked.append(probe)
        return self.probes.problem if probe.port not in self.probes.speaks else ""

    async def speaks_http(self, instance: Instance, port: int) -> bool:
        return port in self.probes.speaks

    async def usage(self) -> Mapping[str, Usage]:
        self._answer()
        return self.load

    async def services(self) -> Mapping[str, StoredData]:
        self._answer()
        found = [one.service for one in self.instances.values()]
        return {service: StoredData(instances=found.count(service)) for service in found}

    async def sweep(self, erase: Collection[str]) -> None:
        for service in (await self.services()).keys() & set(erase):
            await self.discard(service)

    async def set_aside(self, service: str, into: Path) -> None:
        moved = {key: one for key, one in self.instances.items() if one.service == service}
        self.aside.setdefault(service, {}).update(moved)
        await self.remove(service)

    async def put_back(self, service: str, out: Path) -> None:
        for key, one in self.aside.pop(service, {}).items():
            self.instances[key] = replace(one, phase=Phase.EXITED)

    async def problem(self) -> str:
        return "it does not answer" if self.away else ""

    # Misfortunes

    def ends(self, service: str, reason: str) -> None:
        """Ends all instances of a service, which then wait to be restarted."""
        self._alter(service, phase=Phase.WAITING, reason=reason)

    def forgets_everything(self) -> None:
        """Comes back without instances and volumes, as an engine whose disk was not mounted."""
        self.lost |= {instance.service for instance in self.instances.values()}
        self.instances.clear()
        self.running.clear()
        self.comes_back()

    def recovers(self, service: str) -> None:
        self._alter(service, phase=Phase.RUNNING, unready="")

    def loses(self, service: str, index: int, unready: str) -> None:
        """Makes one instance unready, for this reason."""
        for key, instance in self.instances.items():
            if (instance.service, instance.index) == (service, index):
                self.instances[key] = replace(instance, unready=unready)
        self._notice(service)

    def says(self, service: str, *lines: OutputLine) -> None:
        self._sink(service, lines)

    def _alter(self, service: str, **changes: object) -> None:
        for key, one in self.instances.items():
            if one.service == service:
                restarts = one.restarts + (changes.get("phase") is Phase.WAITING)
                self.instances[key] = replace(one, restarts=restarts, **changes)
        self._notice(service)

    def _answer(self) -> None:
        if self.away:
            raise EngineUnavailable("The engine does not answer")
