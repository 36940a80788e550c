"""The verbs of the Kubernetes engine; see `windlass.engines.engine`.

The cluster starts, restarts and probes instances by itself. This module declares what should run, waits for
what the cluster does, and reports it. All reads are answered by watches.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from ipaddress import ip_address
from pathlib import Path
from time import monotonic
from typing import Final, Literal
from weakref import WeakValueDictionary

from msgspec.structs import replace

from windlass.base.addresses import Reach
from windlass.base.clock import Clock, SystemClock
from windlass.builders.publisher import ImagePublisher
from windlass.engines.engine import (
    UNKNOWN_LIMITS,
    DiskMeasurement,
    EngineError,
    EngineLimits,
    EngineUnavailable,
    Execution,
    ExecutionRequest,
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
from windlass.engines.environment_spaces import FindEnvironments
from windlass.engines.namespace_access import NamespaceCredential
from windlass.engines.registries import BuildRegistry, PullRequest, RegistryLogin
from windlass.engines.rollout.listeners import ListeningPort
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
from windlass.kubernetes import names
from windlass.kubernetes.access import ClusterAccess
from windlass.kubernetes.api import ClusterApi, ClusterRefusal, ClusterUnavailable
from windlass.kubernetes.cache import ClusterCache
from windlass.kubernetes.cluster import ClusterState, read_usage
from windlass.kubernetes.documents import GenerationObject, KubeObject, Pod
from windlass.kubernetes.endings import Endings
from windlass.kubernetes.environments import NamespaceObjects
from windlass.kubernetes.execution import ExecutionRecords, KubernetesExecution, PodName, execute
from windlass.kubernetes.generations import DELETION_COST, Generations, is_removed
from windlass.kubernetes.homes import ServiceHomes
from windlass.kubernetes.instances import (
    has_ended,
    hindrance,
    instance,
    is_leaving,
    is_running,
    number,
    passes_probes,
    restart_count,
)
from windlass.kubernetes.leftovers import Leftovers
from windlass.kubernetes.manifests import ClusterOptions
from windlass.kubernetes.namespace_accounts import NamespaceAccounts
from windlass.kubernetes.namespaces import Namespaces
from windlass.kubernetes.notices import ChangeNotices
from windlass.kubernetes.output_readers import OutputReaders
from windlass.kubernetes.probing import Probing
from windlass.kubernetes.pull_logins import PullLogins
from windlass.kubernetes.readiness import GenerationReadiness
from windlass.kubernetes.reasons import controller_reason
from windlass.kubernetes.refusals import translated_refusals
from windlass.kubernetes.releases import Releases
from windlass.kubernetes.runs import Runs

_START_PATIENCE: Final = 20.0
"""Seconds for which `apply` waits for the start of instances, so that its result has them."""
_START_TIMEOUT: Final = 10.0
_LOOK_INTERVAL: Final = 0.5
_LISTING: Final = 15.0
_TERMINATION_COST: Final = "-1000"


class KubernetesEngine:
    name = "kubernetes"
    takes: Literal["native", "image"] = "image"
    measures_memory = is_tag_pulling = True
    server_host = server_folder = ""

    def __init__(
        self,
        api: ClusterApi,
        *,
        folder: Path,
        options: ClusterOptions,
        allowed_addresses: Reach,
        expected_id: str = "",
        publisher: ImagePublisher,
        registry: BuildRegistry | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`allowed_addresses`: those at which instances may be, because the gateway connects to what the
        API server tells. `registry`: the registry for built images. `publisher`: builds them."""
        self._api, self._options, self._reach = api, options, allowed_addresses
        self.clock = clock or SystemClock()
        self._notices = notices = ChangeNotices()
        self._homes = ServiceHomes(options.installation)
        self._cache = ClusterCache(
            api,
            options.installation,
            self._homes,
            notices.pod_changed,
            notices.controller_changed,
            notices.recovered,
        )
        self._generations = Generations(api, self._cache, options)
        self._accounts, self._namespaces = NamespaceAccounts(api, options), Namespaces(api, options)
        self.releases = Releases(api, options, allowed_addresses)
        self.logins, self._publisher = PullLogins(api, self._cache, options, registry), publisher
        self._environments = NamespaceObjects(api, self._cache, options, self.logins)
        self._runs = Runs(api, self._cache, options, self._generations, self._environments)
        self._leftovers = Leftovers(api, self._cache, self._generations, self._runs, options)
        self._readers = OutputReaders(api, self._cache, folder)
        self._endings = Endings(api, self._cache, self._generations, self._runs, self._readers)
        self.probing = Probing(self)
        self._executions = ExecutionRecords(folder / "executions")
        self.limits, self.identity = UNKNOWN_LIMITS, ""
        self._state = ClusterState(api, expected_id, self._note_cluster)
        self._locks: WeakValueDictionary[tuple[str, int], asyncio.Lock] = WeakValueDictionary()
        self._leaving: set[str] = set()
        """Uids of surplus Pods that are about to end."""
        self._tasks: list[asyncio.Task[None]] = []

    # The engine itself

    @property
    def is_unavailable(self) -> bool:
        return bool(self._cache.problem or self._state.wrong_cluster)

    async def start(self, notice: Notice, sink: Sink, on_missed_notices: Missed = ignore_lost_lines) -> None:
        self._readers.start(sink)
        self._notices.start(self._generations, self._readers, notice, on_missed_notices)
        self._cache.start()
        self._tasks = self._tasks or [
            asyncio.create_task(run()) for run in (self._state.run, self.logins.run)
        ]
        with suppress(EngineUnavailable):
            await self._cache.synced(_START_TIMEOUT)
        self._readers.forget_others()
        self._executions.look(self._api)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await self._executions.stop()
        for part in (self._cache, self.releases, self._notices, self._readers):
            await part.stop()
        await self._api.close()

    async def move(self, access: ClusterAccess, expected_id: str) -> None:
        """Switches to another address or other credentials."""
        self._state.expect(expected_id)
        await self._api.move(access)

    def accept_from(self, sources: Sequence[str]) -> None:
        """Changes from where services accept connections, in each environment with its next deployment."""
        if tuple(sources) != self._options.allowed_sources:
            self._options.allowed_sources = tuple(sources)
            self._environments.forget_all()

    async def problem(self) -> str:
        if self._state.wrong_cluster:
            return self._state.wrong_cluster
        try:
            await self._api.raw("GET", "/readyz", timeout=5.0)
        except (ClusterUnavailable, ClusterRefusal) as error:
            return str(error)
        return self._cache.problem

    async def shared_network(self) -> str:
        return ""

    async def why_one_organization(self) -> str:
        return (
            "Use a network plugin that enforces NetworkPolicies, and keep organizations that do not trust "
            "each other on clusters of their own: Windlass cannot see whether this cluster enforces them"
        )

    def note_disk_use(self, measurement: DiskMeasurement) -> None:
        """Does nothing: volumes are not on the disk of the server."""

    async def volume_sizes(self) -> Mapping[str, int]:
        return {}

    async def namespace_credential(
        self, environment: str, org: str, *, run: str, seconds: float, has_whole_cluster: bool
    ) -> NamespaceCredential:
        self.releases.note_run(environment)
        return await self._accounts.credential(
            environment, org, run=run, seconds=seconds, has_whole_cluster=has_whole_cluster
        )

    async def revoke_credential(self, environment: str, run: str) -> None:
        await self._accounts.revoke(environment, run)

    # Environments

    def find_environments_with(self, find: FindEnvironments) -> None:
        self._homes.find = find

    async def environments(self) -> Collection[str]:
        with translated_refusals():
            return await self._namespaces.environments()

    async def remove_environments(self, deleted_environments: Collection[str]) -> None:
        """Deletes namespaces. One with the record of a removed generation stays as long as the record."""
        with translated_refusals():
            await self._ready()
            in_use = {each.metadata.namespace for each in self._kept()}
            for environment in deleted_environments:
                await self._namespaces.remove(environment, in_use)

    # Images

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
        """Keeps the login for the namespace of the service. A node pulls images itself."""
        if login is not None and service:
            self.logins.keep(service, artifact.ref, login)

    async def export(self, artifact: Artifact, folder: str, destination: Path) -> Path:
        return await self._publisher.export(artifact, folder, destination)

    # Generations

    async def apply(self, workload: Workload, count: int, leave: Leave = leave_immediately) -> Observation:
        service, generation = workload.service, workload.generation
        self._homes.note(workload.service, workload.environment)
        with self._notices.own_effects(service, generation), translated_refusals():
            await self._ready()
            async with self._locks.setdefault((service, generation), asyncio.Lock()):
                surplus = self._surplus(workload, count)
                if surplus:
                    await self._retire(workload, count, surplus, leave)
                elif count or self._generations.of(service, generation):
                    self._generations.refuse_removed(workload)
                    namespace = await self._environments.prepare(workload, is_run=False, count=count)
                    controller = await self._put(workload, namespace, count)
                    await self._settle(workload, controller, count)
            return await self.observe(service)

    async def _put(self, workload: Workload, namespace: str, count: int) -> GenerationObject:
        try:
            return await self._generations.put(workload, namespace, count)
        except EngineError:
            if any(map(is_removed, self._generations.of(workload.service, workload.generation))):
                await self._leftovers.delete_secrets(namespace, workload.service, workload.generation)
            raise
        except ClusterRefusal as refused:
            if refused.is_absent:  # the namespace was deleted by hand
                self._environments.forget(namespace)
                namespace = await self._environments.prepare(workload, is_run=False, count=count)
                return await self._generations.put(workload, namespace, count)
            raise

    async def _settle(self, workload: Workload, controller: GenerationObject, count: int) -> None:
        """Waits until the instances of a generation have begun, or have a reason why not, for some
        seconds."""
        service, generation = workload.service, workload.generation
        deployment = controller.label(names.DEPLOYMENT)

        def own() -> list[Pod]:
            return [
                pod
                for pod in self._generations.pods(service, generation)
                if not pod.label(names.INDEX) and not has_ended(pod)
            ]

        until = monotonic() + _START_PATIENCE
        while monotonic() < until:
            await self._generations.give_indexes(service, generation)
            pods = own()
            begun = [
                pod for pod in pods if pod.label(names.DEPLOYMENT) == deployment and self._has_begun(pod)
            ]
            is_refused = bool(controller_reason(self._generations.of(service, generation)))
            if len(begun) == len(pods) == count or is_refused:
                return
            with suppress(EngineUnavailable):  # a hindrance counts after a while, which no change tells
                await self._cache.change(monotonic() + _LOOK_INTERVAL, "")

    def _has_begun(self, pod: Pod) -> bool:
        return self._seen_as(pod) is not None or bool(hindrance(pod))

    def _surplus(self, workload: Workload, count: int) -> list[Pod]:
        label = names.labels(self._options.installation, workload)[names.DEPLOYMENT]
        pods = self._live_pods(workload.service, workload.generation)
        return [
            pod
            for pod in pods
            if (index := self._generations.index(pod)) is not None
            and index >= count
            and pod.label(names.DEPLOYMENT) == label
        ]

    async def _retire(self, workload: Workload, count: int, surplus: Sequence[Pod], leave: Leave) -> None:
        """Ends surplus instances, after the routes have left them."""
        uids = {pod.metadata.uid for pod in surplus}
        leaving = [found for pod in surplus if (found := self._seen_as(pod))]
        self._leaving |= uids
        try:
            await self._endings.label(surplus, {names.SERVES: None})
            left_at = monotonic()
            async with AsyncExitStack() as undo:
                undo.push_async_callback(self._endings.label, surplus, {names.SERVES: "yes"})
                await leave(leaving)
                if count:
                    await self._endings.await_neighbours(surplus, left_at)
                undo.pop_all()
            await self._endings.label(surplus, {}, {DELETION_COST: _TERMINATION_COST})
            for controller in self._generations.of(workload.service, workload.generation):
                if not is_removed(controller):
                    await self._generations.scale(controller, count)
            await self._endings.gone(surplus, workload.grace)
        finally:
            self._leaving -= uids

    async def remove(self, service: str, *, generation: int | None = None, grace: float = 10.0) -> None:
        with self._notices.own_effects(service, generation), translated_refusals():
            await self._ready()
            controllers = sorted(
                self._generations.of(service, generation),
                key=lambda each: number(each.label(names.GENERATION)),
            )
            if grace:
                await self._endings.leave_service(service, generation)
            for controller in controllers:
                await self._generations.record_removal(controller)
            runs = [pod for pod in self._generations.pods(service, generation) if pod.label(names.INDEX)]
            if generation is not None and not controllers and not runs:
                await self._generations.record_absent_removal(service, generation)
            await asyncio.gather(
                self._endings.end_pods(service, generation, controllers, grace),
                *(
                    self._endings.end_run(run, grace)
                    for run in runs
                    if not (is_leaving(run) and has_ended(run))
                ),
            )
            for namespace in {each.metadata.namespace for each in (*controllers, *runs)}:
                await self._leftovers.delete_secrets(namespace, service, generation)

    async def wait_until_ready(self, workload: Workload, count: int, note_reason: Note = ignore_note) -> None:
        self._homes.note(workload.service, workload.environment)
        with self._notices.own_effects(workload.service, workload.generation), translated_refusals():
            await self._ready()
            await GenerationReadiness(
                self.probing, self._api, self._cache, self._generations, workload, count, note_reason
            ).run()

    # Runs

    async def once(self, workload: Workload, index: int = 0) -> Outcome:
        self._homes.note(workload.service, workload.environment)
        with translated_refusals():
            await self._ready()
            found, pod = await self._runs.once(workload, index)
            await self._readers.until_silent(pod)
            return found

    async def read_output(self, workload: Workload, index: int = 0) -> bytes | None:
        with translated_refusals():
            return await self._runs.read_output(workload, index)

    # Reading

    async def observe(self, service: str) -> Observation:
        with translated_refusals():
            await self._ready()
            generations = {number(pod.label(names.GENERATION)) for pod in self._unnumbered(service)}
            for generation in generations:
                await self._generations.give_indexes(service, generation)
            return Observation(tuple(self._instances(self._cache.pods.of(service))))

    async def all(self) -> list[Instance]:
        with translated_refusals():
            await self._ready()
            return self._instances(self._cache.pods.all())

    async def present(self) -> Sequence[Presence]:
        return [
            Presence(each.service, each.generation, each.phase is Phase.RUNNING) for each in await self.all()
        ]

    def _unnumbered(self, service: str) -> Iterator[Pod]:
        for pod in self._cache.pods.of(service):
            if not is_leaving(pod) and not has_ended(pod) and self._generations.index(pod) is None:
                yield pod

    def _instances(self, pods: Iterable[Pod]) -> list[Instance]:
        found = [seen for pod in pods if (seen := self._seen_as(pod))]
        return sorted(found, key=lambda each: (each.service, each.generation, each.index))

    def _seen_as(self, pod: Pod) -> Instance | None:
        """Returns the instance of a Pod; None if it has no index, or has not begun, or was removed."""
        index = self._generations.index(pod)
        if index is None or _is_mark(pod):
            return None
        if has_ended(pod) and not pod.label(names.INDEX):
            return None  # its controller replaces it
        seen = instance(pod, index)
        if seen is not None and seen.address and (why := self._closed_address(seen.address)):
            unready = why if seen.ports else seen.unready
            seen = replace(seen, address="", inside="", ports={}, unready=unready)
        if seen is not None and pod.metadata.uid in self._leaving and seen.phase is Phase.RUNNING:
            return replace(seen, unready="it is about to end")
        return seen

    def _closed_address(self, text: str) -> str:
        """Returns why nothing connects to the address that an API server tells; empty if it is allowed."""
        with suppress(ValueError):
            if self._reach.admits(ip_address(text)):
                return ""
        return (
            "Ask the operator to allow the network of the Pods with outbound_allow: Windlass may not connect "
            f"to {text[:50]}"
        )

    def _live_pods(self, service: str, generation: int) -> list[Pod]:
        return [
            pod
            for pod in self._generations.pods(service, generation)
            if not pod.label(names.INDEX) and not has_ended(pod) and not is_leaving(pod)
        ]

    def start_of(self, instance: Instance) -> tuple[str, int] | None:
        """Returns the uid and the restart count of an instance's Pod; None if it does not run."""
        for pod in self._cache.pods.of(instance.service):
            if pod.metadata.name == instance.id and is_running(pod):
                return pod.metadata.uid, restart_count(pod)
        return None

    def is_passing(self, instance: Instance) -> bool:
        """Returns whether the node reports an instance as ready."""
        return any(
            pod.metadata.name == instance.id and passes_probes(pod)
            for pod in self._cache.pods.of(instance.service)
        )

    def pod_of(self, instance: Instance) -> PodName:
        """Returns the Pod of an instance. Raises EngineError if it does not run."""
        for pod in self._cache.pods.of(instance.service):
            if pod.metadata.name == instance.id and not has_ended(pod):
                return PodName(pod.metadata.namespace, pod.metadata.name)
        raise EngineError("The instance does not run")

    async def usage(self) -> Mapping[str, Usage]:
        with translated_refusals():
            await self._ready()
            return await read_usage(self._api, [pod for pod in self._cache.pods.all() if not has_ended(pod)])

    # Commands

    async def execute(self, instance: Instance, command: Sequence[str], timeout: float) -> tuple[int, str]:
        with translated_refusals():
            return await execute(self._api, self.pod_of(instance), command, timeout)

    async def open_execution(self, instance: Instance, request: ExecutionRequest) -> Execution:
        with translated_refusals():
            pod = self.pod_of(instance)
            execution = KubernetesExecution(
                self._api, pod, self._executions, has_terminal=request.terminal is not None
            )
            await execution.start(request)
            return execution

    async def probe(self, instance: Instance, probe: HealthProbe) -> str:
        with translated_refusals():
            return await self.probing.probe(instance, probe)

    async def listeners(self, instance: Instance) -> Collection[ListeningPort]:
        with translated_refusals():
            return await self.probing.listeners(instance)

    # Addresses

    async def neighbour_address(
        self, environment: str, service: str, name: str, internal: int
    ) -> ServiceAddress:
        namespace = names.namespace(self._options.installation, environment)
        return ServiceAddress(f"{names.neighbour(service, name)}.{namespace}.svc", internal)

    async def routed_addresses(self, workload: Workload, internal: int) -> Sequence[RoutedAddress]:
        return ()

    # Data

    async def services(self) -> Mapping[str, StoredData]:
        with translated_refusals():
            await self._ready()
            pods = Counter(
                pod.label(names.SERVICE)
                for pod in self._cache.pods.all()
                if self._seen_as(pod) and not has_ended(pod)
            )
            volumes = Counter(claim.label(names.SERVICE) for claim in self._cache.claims.all())
            titles = {each.label(names.SERVICE): each.label(names.LINES_NAME) for each in self._kept()}
            return {
                service: StoredData(name=title, instances=pods[service], volumes=volumes[service])
                for service, title in sorted(titles.items())
                if service
            }

    async def discard(self, service: str) -> None:
        await self.remove(service, grace=0)
        with translated_refusals():
            await self._leftovers.discard(service)

    async def sweep(self, deleted_services: Collection[str]) -> None:
        known = await self.services()
        for service in [service for service in deleted_services if service in known]:
            await self.discard(service)
        with translated_refusals():
            await self._leftovers.sweep()
            await self._accounts.sweep()

    async def set_aside(self, service: str, destination: Path) -> None:
        """Stops a service. Its volumes stay in the cluster."""
        with self._notices.own_effects(service, None), translated_refusals():
            await self._ready()
            await self._endings.set_aside(service)

    async def put_back(self, service: str, source: Path) -> None:
        """Does nothing: `set_aside` moved nothing."""

    # Helpers

    def _kept(self) -> list[KubeObject]:
        """Returns all objects of services, with the records of removed generations and runs."""
        return [*self._cache.controllers(), *self._cache.claims.all(), *self._cache.pods.all()]

    def _note_cluster(self, identity: str, limits: EngineLimits) -> None:
        self.identity, self.limits = identity, limits

    async def _ready(self) -> None:
        if self._state.wrong_cluster:
            raise EngineUnavailable(self._state.wrong_cluster)
        if not self._cache.is_synced:
            await self._cache.synced(_LISTING)
        await self._cache.located()
        if self._cache.problem:
            raise EngineUnavailable(self._cache.problem)


def _is_mark(pod: Pod) -> bool:
    """Returns whether a Pod is the record of a removed run."""
    return bool(pod.label(names.INDEX)) and is_leaving(pod) and has_ended(pod)
