"""A cache of an installation's objects in a cluster: one watch for each kind of object answers all reads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Final

from windlass.engines.engine import EngineUnavailable
from windlass.kubernetes import names
from windlass.kubernetes.api import ClusterApi
from windlass.kubernetes.documents import GenerationObject, KubeObject, Pod, VolumeClaim
from windlass.kubernetes.homes import ServiceHomes
from windlass.kubernetes.watch import Changed, KeptObjects, Recovered, Watch

_SYNC_TIMEOUT: Final = 15.0
PODS: Final = "/api/v1/pods"
CLAIMS: Final = "/api/v1/persistentvolumeclaims"
DEPLOYMENTS: Final = "/apis/apps/v1/deployments"
STATEFUL_SETS: Final = "/apis/apps/v1/statefulsets"
REPLICA_SETS: Final = "/apis/apps/v1/replicasets"


class ClusterCache:
    def __init__(
        self,
        api: ClusterApi,
        installation: str,
        homes: ServiceHomes,
        pod_changed: Changed,
        controller_changed: Changed,
        recovered: Recovered,
    ) -> None:
        self._recovered = recovered
        selector = names.selector(installation)
        self._changes = asyncio.Event()
        self._homes = homes

        def waking(changed: Changed) -> Changed:
            def note(before: KubeObject | None, after: KubeObject | None) -> None:
                self._wake()
                changed(before, after)

            return note

        def ignore(before: KubeObject | None, after: KubeObject | None) -> None:
            """Only wakes the waiting tasks."""

        kept = KeptObjects()
        self.pods = Watch(api, PODS, Pod, selector, waking(pod_changed), self._note_recovery, kept, self.home)
        self.deployments = Watch(
            api,
            DEPLOYMENTS,
            GenerationObject,
            selector,
            waking(controller_changed),
            self._note_recovery,
            kept,
            self.home,
        )
        self.stateful_sets = Watch(
            api,
            STATEFUL_SETS,
            GenerationObject,
            selector,
            waking(controller_changed),
            self._note_recovery,
            kept,
            self.home,
        )
        self.replica_sets = Watch(
            api,
            REPLICA_SETS,
            GenerationObject,
            selector,
            waking(ignore),
            self._note_recovery,
            kept,
            self.home,
        )
        self.claims = Watch(
            api, CLAIMS, VolumeClaim, selector, waking(ignore), self._note_recovery, kept, self.home
        )
        self._watches = (self.pods, self.deployments, self.stateful_sets, self.replica_sets, self.claims)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        if not self._tasks:
            self._homes.load()
            self._tasks = [asyncio.create_task(watch.run()) for watch in self._watches]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    @property
    def problem(self) -> str:
        """Why the state of the cluster is unknown; empty if it is known."""
        return next((watch.problem for watch in self._watches if watch.problem), "")

    @property
    def is_synced(self) -> bool:
        return all(watch.is_synced for watch in self._watches)

    async def synced(self, timeout: float = _SYNC_TIMEOUT) -> None:
        """Waits for the first complete list. Raises EngineUnavailable if there is none in time."""
        await self.wait(lambda: self.is_synced, timeout, "the cluster has not listed its objects yet")

    async def wait(self, check: Callable[[], bool], timeout: float, why: str) -> None:
        """Waits until a condition is true. Raises EngineUnavailable after `timeout` seconds."""
        until = monotonic() + timeout
        while not check():
            await self.change(until, why)

    async def change(self, until: float, why: str) -> None:
        """Waits for the next change of any object. Raises EngineUnavailable at the time `until`."""
        self._changes.clear()
        try:
            async with asyncio.timeout(max(0.0, until - monotonic())):
                await self._changes.wait()
        except TimeoutError as error:
            raise EngineUnavailable(self.problem or f"Check the Kubernetes cluster: {why}") from error

    def note_home(self, service: str, namespace: str) -> None:
        self._homes.note(service, namespace)

    def forget_home(self, service: str) -> None:
        self._homes.forget(service)

    def home(self, service: str) -> str:
        """Returns the namespace of a service. If it is not known, because another server has deployed the
        service, it is that of the oldest object. That is a guess: who may write to another namespace can give
        the label of a service to objects there, which may be older than those of the newest release."""
        if known := self._homes.get(service):
            return known
        found = [each.metadata for watch in self._watches for each in watch.labelled(service)]
        oldest = min(found, key=lambda each: each.creation_timestamp or "", default=None)
        return oldest.namespace if oldest else ""

    def controllers(self, service: str = "") -> Iterable[GenerationObject]:
        """Returns the Deployments and StatefulSets of a service, or of all services."""
        if service:
            return (*self.deployments.of(service), *self.stateful_sets.of(service))
        return (*self.deployments.all(), *self.stateful_sets.all())

    def _note_recovery(self) -> None:
        if not self.problem:
            self._recovered()

    def _wake(self) -> None:
        self._changes.set()
