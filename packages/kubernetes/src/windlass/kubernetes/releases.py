"""Watches what Helm has installed in the namespaces of environments.

Helm labels the objects that it makes, so one watch for each kind of object is enough for a cluster. The
watches begin when they are first needed: most clusters have no releases of Windlass.

A chart chooses the contents of its objects. So an endpoint counts only if it is the address of a Pod in the
same namespace, and if Windlass may connect to it.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from ipaddress import ip_address
from itertools import islice, product
from typing import Final

from msgspec import Struct

from windlass.base.addresses import Reach
from windlass.engines.releases import (
    SINGLE_POD,
    ReleasedController,
    ReleasedEndpoint,
    ReleaseDetails,
    ReleasedRoute,
    ReleaseState,
)
from windlass.kubernetes import names, paths
from windlass.kubernetes.api import ClusterApi, ClusterRefusal, ClusterUnavailable
from windlass.kubernetes.cache import DEPLOYMENTS, STATEFUL_SETS
from windlass.kubernetes.documents import KubeObject, ObjectCondition, Pod
from windlass.kubernetes.instances import OUT_OF_MEMORY, has_ended, is_leaving
from windlass.kubernetes.kept_objects import KeptObjects
from windlass.kubernetes.manifests import ClusterOptions
from windlass.kubernetes.reasons import pending_reason
from windlass.kubernetes.release_details import read_release_events, released_pod, shown_pods
from windlass.kubernetes.watch import Watch

_SELECTOR: Final = "app.kubernetes.io/managed-by=Helm"
_RELEASE: Final = "meta.helm.sh/release-name"
_SERVICE_OF_SLICE: Final = "kubernetes.io/service-name"
_AUTHOR_OF_SLICE: Final = "endpointslice.kubernetes.io/managed-by"
_CONTROLLER: Final = "endpointslice-controller.k8s.io"
"""The controller that writes the addresses of Services with a selector. It corrects slices
that others write under its name."""
_SERVICES: Final = "/api/v1/services"
_DAEMON_SETS: Final = "/apis/apps/v1/daemonsets"
_JOBS: Final = "/apis/batch/v1/jobs"
_SLICES: Final = "/apis/discovery.k8s.io/v1/endpointslices"
MAX_OBJECTS: Final = 10_000
"""Maximum number of controllers, and of Services, of one environment that are looked at."""
MAX_ENDPOINTS: Final = 100_000
"""Maximum number of endpoints of one environment that are looked at, counted for each port. A chart, or a
foreign API server, may tell of any number, and the server has other work."""
MAX_PROBLEMS: Final = 200
"""Maximum number of Pods of one environment whose problems are told."""
_MAX_MATCHES: Final = 20_000
_MAX_SELECTOR: Final = 64
_MAX_TEXT: Final = 1_000


class _PodSelector(Struct, frozen=True, rename="camel"):
    match_labels: dict[str, str] | None = None


class _ReleaseControllerSpec(Struct, frozen=True):
    replicas: int = 1
    selector: _PodSelector = _PodSelector()


class _ReleaseControllerStatus(Struct, frozen=True, rename="camel"):
    ready_replicas: int = 0


class ReleaseController(KubeObject, frozen=True):
    spec: _ReleaseControllerSpec = _ReleaseControllerSpec()
    status: _ReleaseControllerStatus = _ReleaseControllerStatus()

    @property
    def counts(self) -> tuple[int, int]:
        """The wanted and the ready Pods."""
        return self.spec.replicas, self.status.ready_replicas

    @property
    def failure(self) -> str:
        """Why it will have no ready Pods; empty if that is not known."""
        return ""


class _DaemonSetSpec(Struct, frozen=True):
    selector: _PodSelector = _PodSelector()


class _DaemonSetStatus(Struct, frozen=True, rename="camel"):
    desired_number_scheduled: int = 0
    number_ready: int = 0


class ReleaseDaemonSet(KubeObject, frozen=True):
    spec: _DaemonSetSpec = _DaemonSetSpec()
    status: _DaemonSetStatus = _DaemonSetStatus()

    @property
    def counts(self) -> tuple[int, int]:
        return self.status.desired_number_scheduled, self.status.number_ready

    @property
    def failure(self) -> str:
        return ""


class _JobStatus(Struct, frozen=True):
    conditions: list[ObjectCondition] | None = None


class ReleaseJob(KubeObject, frozen=True):
    spec: _DaemonSetSpec = _DaemonSetSpec()
    status: _JobStatus = _JobStatus()

    @property
    def counts(self) -> tuple[int, int]:
        """A Job that runs, or has ended well, lacks no Pod."""
        return (1, 0) if self.failure else (0, 0)

    @property
    def failure(self) -> str:
        for each in self.status.conditions or ():
            if each.type == "Failed" and each.status == "True":
                return f"it failed: {each.message or each.reason}"
        return ""


class _ReleaseServicePort(Struct, frozen=True):
    port: int = 0
    name: str = ""


class _ReleaseServiceSpec(Struct, frozen=True):
    ports: list[_ReleaseServicePort] | None = None
    selector: dict[str, str] | None = None


class ReleaseService(KubeObject, frozen=True):
    spec: _ReleaseServiceSpec = _ReleaseServiceSpec()


class _SliceConditions(Struct, frozen=True):
    ready: bool | None = None


class _SliceEndpoint(Struct, frozen=True):
    addresses: list[str] = []
    conditions: _SliceConditions = _SliceConditions()


class _SlicePort(Struct, frozen=True):
    port: int | None = None
    name: str | None = None


class EndpointSlice(KubeObject, frozen=True):
    endpoints: list[_SliceEndpoint] | None = None
    ports: list[_SlicePort] | None = None


class _ReleasePods(Struct, frozen=True):
    items: list[Pod] = []


def _in_all_namespaces(service: str, namespace: str) -> bool:
    """Returns that an object counts wherever it is: objects of charts belong to no service by a label."""
    return True


class Releases:
    """See `windlass.engines.releases.ReleaseReader`."""

    def __init__(self, api: ClusterApi, options: ClusterOptions, allowed_addresses: Reach) -> None:
        self._api, self._options, self._reach = api, options, allowed_addresses
        self._environments: dict[str, str] = {}
        """Environments by namespace."""
        self._changed: set[str] = set()
        kept = KeptObjects([_RELEASE])

        def note(before: KubeObject | None, after: KubeObject | None) -> None:
            it = after or before
            if it is None:  # a list is complete
                self._changed |= {*self._environments.values()}
            elif environment := self._environments.get(it.metadata.namespace):
                self._changed.add(environment)

        def watch(path: str, kind: type[KubeObject]) -> Watch[KubeObject]:
            return Watch(api, path, kind, _SELECTOR, note, self._note_recovery, kept, _in_all_namespaces)

        self._controllers = {
            "Deployment": watch(DEPLOYMENTS, ReleaseController),
            "StatefulSet": watch(STATEFUL_SETS, ReleaseController),
            "DaemonSet": watch(_DAEMON_SETS, ReleaseDaemonSet),
            "Job": watch(_JOBS, ReleaseJob),
        }
        self._services, self._slices = watch(_SERVICES, ReleaseService), watch(_SLICES, EndpointSlice)
        self._tasks: list[asyncio.Task[None]] = []

    def note_run(self, environment: str) -> None:
        """Notes that a run begins to change a release."""
        self._follow(environment)
        self._changed.add(environment)

    def changed(self) -> Collection[str]:
        changed, self._changed = self._changed, set()
        return changed

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    async def state(self, environment: str) -> ReleaseState | None:
        namespace = self._follow(environment)
        if (pods := await self._pods(namespace)) is None:
            return None
        problems = _Problems(pods)
        own = islice(self._controllers_in(namespace), MAX_OBJECTS)
        controllers = [_controller(kind, it, problems) for kind, it in own]
        single = (_single_pod(pod) for pod in pods if _is_single(pod))
        controllers += islice(single, MAX_OBJECTS - len(controllers))
        return ReleaseState(controllers, [*self._routes(namespace, pods)])

    async def details(self, environment: str, release: str) -> ReleaseDetails | None:
        namespace = self._follow(environment)
        if (pods := await self._pods(namespace)) is None:
            return None
        own = [
            (f"{kind}/{it.metadata.name}", it.spec.selector.match_labels or {})
            for kind, it in islice(self._controllers_in(namespace), MAX_OBJECTS)
            if it.annotation(_RELEASE) == release
        ]
        shown = shown_pods(pods, [labels for _, labels in own], release, _RELEASE)
        addresses = {address for address, _ in own} | {f"Pod/{pod.metadata.name}" for pod in shown}
        try:
            events = await read_release_events(self._api, namespace, addresses)
        except ClusterUnavailable:
            return None
        return ReleaseDetails([released_pod(pod, pod_problem(pod)) for pod in shown], events)

    async def _pods(self, namespace: str) -> Sequence[Pod] | None:
        """Returns the Pods of a namespace; None while the cluster does not answer, or refuses to list
        something."""
        if any(watch.problem or not watch.is_synced for watch in self._watches):
            return None
        try:
            return (await self._api.get(paths.pods(namespace), _ReleasePods)).items
        except (ClusterUnavailable, ClusterRefusal):
            return None

    def _controllers_in(
        self, namespace: str
    ) -> Iterator[tuple[str, ReleaseController | ReleaseDaemonSet | ReleaseJob]]:
        for kind, watch in self._controllers.items():
            for it in watch.all():
                if (
                    isinstance(it, ReleaseController | ReleaseDaemonSet | ReleaseJob)
                    and it.metadata.namespace == namespace
                ):
                    yield kind, it

    @property
    def _watches(self) -> tuple[Watch[KubeObject], ...]:
        return (*self._controllers.values(), self._services, self._slices)

    def _follow(self, environment: str) -> str:
        """Begins to watch an environment. Returns its namespace."""
        namespace = names.namespace(self._options.installation, environment)
        self._environments[namespace] = environment
        if not self._tasks:
            self._tasks = [asyncio.create_task(watch.run()) for watch in self._watches]
        return namespace

    def _note_recovery(self) -> None:
        self._changed |= {*self._environments.values()}

    def _routes(self, namespace: str, pods: Iterable[Pod]) -> Iterable[ReleasedRoute]:
        # A Pod that has ended keeps its address in the answers, while another Pod may get it.
        there = (pod for pod in pods if not is_leaving(pod) and not has_ended(pod))
        own = {pod.status.pod_ip for pod in there if self._is_open(pod.status.pod_ip)}
        endpoints = self._endpoints(namespace, own)
        services = (it for it in self._services.all() if it.metadata.namespace == namespace)
        for service in islice(services, MAX_OBJECTS):
            if isinstance(service, ReleaseService):
                name = service.metadata.name
                # Addresses that a chart has written stay when a Pod of another environment gets them.
                ports = {port.name: port.port for port in service.spec.ports or () if service.spec.selector}
                yield ReleasedRoute(
                    name=name,
                    release=service.annotation(_RELEASE),
                    labels=service.metadata.labels or {},
                    ports={number: endpoints.get((name, port), ()) for port, number in ports.items()},
                )

    def _endpoints(
        self, namespace: str, own: Collection[str]
    ) -> Mapping[tuple[str, str], Sequence[ReleasedEndpoint]]:
        """Returns the endpoints by the names of their Services and ports."""
        pairs = (
            (it.label(_SERVICE_OF_SLICE), target, endpoint)
            for it in self._slices.all()
            if isinstance(it, EndpointSlice) and it.metadata.namespace == namespace
            if it.label(_AUTHOR_OF_SLICE) == _CONTROLLER
            for target, endpoint in product(it.ports or (), it.endpoints or ())
        )
        found: defaultdict[tuple[str, str], set[ReleasedEndpoint]] = defaultdict(set)
        for service, target, endpoint in islice(pairs, MAX_ENDPOINTS):
            # Only the first address counts: the others of an endpoint are equal to it.
            is_own = endpoint.addresses and endpoint.addresses[0] in own
            if is_own and endpoint.conditions.ready is not False and 0 < (target.port or 0) < 1 << 16:
                found[service, target.name or ""].add(
                    ReleasedEndpoint(endpoint.addresses[0], target.port or 0)
                )
        return {key: sorted(each, key=lambda one: (one.address, one.port)) for key, each in found.items()}

    def _is_open(self, address: str) -> bool:
        with suppress(ValueError):
            return self._reach.admits(ip_address(address))
        return False


class _Problems:
    """The problems of the Pods of an environment."""

    def __init__(self, pods: Iterable[Pod]) -> None:
        found = (
            ((pod.metadata.labels or {}).items(), problem)
            for pod in pods
            if not is_leaving(pod) and (problem := pod_problem(pod))
        )
        self._found = [*islice(found, MAX_PROBLEMS)]
        self._matches = 0

    def of(self, labels: Mapping[str, str]) -> str:
        """Returns a problem of a Pod with these labels; empty if none is known."""
        if not 0 < len(labels) <= _MAX_SELECTOR or self._matches > _MAX_MATCHES:
            return ""
        self._matches += len(self._found)
        return next((problem for own, problem in self._found if labels.items() <= own), "")


def _controller(
    kind: str, it: ReleaseController | ReleaseDaemonSet | ReleaseJob, problems: _Problems
) -> ReleasedController:
    wanted, ready = it.counts
    reason = problems.of(it.spec.selector.match_labels or {}) or it.failure if ready < wanted else ""
    return ReleasedController(
        kind=kind,
        name=it.metadata.name,
        release=it.annotation(_RELEASE),
        generation=it.metadata.generation,
        wanted=wanted,
        ready=ready,
        reason=reason[:_MAX_TEXT],
    )


def _is_single(pod: Pod) -> bool:
    """Returns whether a Pod is an object of a release, and of no controller."""
    return bool(pod.annotation(_RELEASE)) and not pod.metadata.owner_references and not is_leaving(pod)


def _single_pod(pod: Pod) -> ReleasedController:
    has_ended_well = pod.status.phase == "Succeeded"
    statuses = pod.status.container_statuses or ()
    is_ready = bool(statuses) and all(status.ready for status in statuses)
    reason = "" if has_ended_well or is_ready else pod_problem(pod)
    return ReleasedController(
        kind=SINGLE_POD,
        name=pod.metadata.name,
        release=pod.annotation(_RELEASE),
        generation=pod.metadata.generation,
        wanted=0 if has_ended_well else 1,
        ready=int(is_ready),
        reason=reason[:_MAX_TEXT],
    )


def pod_problem(pod: Pod) -> str:
    """Returns why a Pod of a chart does not run; empty if no problem is known."""
    if reason := pending_reason(pod):
        return f"the Pod {pod.metadata.name} does not start: {reason}"
    statuses = (*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ()))
    for status in statuses:
        end = status.state.terminated or status.last_state.terminated
        if status.ready or end is None or (status.state.terminated and end.exit_code == 0):
            continue
        how = "was killed: out of memory" if end.reason == OUT_OF_MEMORY else f"exited with {end.exit_code}"
        return f"the container {status.name} of the Pod {pod.metadata.name} {how}"
    return ""
