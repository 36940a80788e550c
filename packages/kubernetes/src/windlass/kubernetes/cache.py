"""A cache of an installation's objects in a cluster: one watch for each kind of object answers all reads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from time import monotonic
from typing import Final

from windlass.engines.engine import EngineUnavailable
from windlass.kubernetes import names
from windlass.kubernetes.api import ClusterApi
from windlass.kubernetes.documents import GenerationObject, KubeObject, ObjectT, Pod, VolumeClaim
from windlass.kubernetes.homes import ServiceHomes
from windlass.kubernetes.kept_objects import KeptObjects
from windlass.kubernetes.watch import Changed, Recovered, Watch

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
        self._recovered, self._pod_changed = recovered, pod_changed
        self._changes = asyncio.Event()
        self.homes = homes

        def waking(changed: Changed) -> Changed:
            def note(before: KubeObject | None, after: KubeObject | None) -> None:
                if after is not None:
                    homes.want(after.label(names.SERVICE))
                self._wake()
                changed(before, after)

            return note

        def ignore(before: KubeObject | None, after: KubeObject | None) -> None:
            """Only wakes the waiting tasks."""

        selector, kept = names.selector(installation), KeptObjects()

        def watch(path: str, type: type[ObjectT], changed: Changed) -> Watch[ObjectT]:
            return Watch(
                api, path, type, selector, waking(changed), self._note_recovery, kept, homes.contains
            )

        self.pods = watch(PODS, Pod, pod_changed)
        self.deployments = watch(DEPLOYMENTS, GenerationObject, controller_changed)
        self.stateful_sets = watch(STATEFUL_SETS, GenerationObject, controller_changed)
        self.replica_sets = watch(REPLICA_SETS, GenerationObject, ignore)
        self.claims = watch(CLAIMS, VolumeClaim, ignore)
        self._watches = (self.pods, self.deployments, self.stateful_sets, self.replica_sets, self.claims)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        if not self._tasks:
            self._tasks = [
                *(asyncio.create_task(watch.run()) for watch in self._watches),
                asyncio.create_task(self.homes.run(self._note_located)),
            ]

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
        await self.located(timeout)

    async def located(self, timeout: float = _SYNC_TIMEOUT) -> None:
        """Waits until the environments of all present services are known. Raises EngineUnavailable if the
        control plane does not tell them in time."""
        if wanted := {*self.homes.pending}:
            await self.wait(
                lambda: wanted.isdisjoint(self.homes.pending),
                timeout,
                "the environments of its services are not known yet",
            )

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

    def forget_absent(self) -> None:
        """Forgets the environments of services without objects."""
        self.homes.forget_others({service for watch in self._watches for service in watch.services()})

    def controllers(self, service: str = "") -> Iterable[GenerationObject]:
        """Returns the Deployments and StatefulSets of a service, or of all services."""
        if service:
            return (*self.deployments.of(service), *self.stateful_sets.of(service))
        return (*self.deployments.all(), *self.stateful_sets.all())

    def _note_recovery(self) -> None:
        if not self.problem:
            self._recovered()

    def _note_located(self, services: Collection[str]) -> None:
        """Handles the Pods of services whose namespaces have become known."""
        for service in services:
            for pod in self.pods.of(service):
                self._pod_changed(None, pod)
        self._wake()

    def _wake(self) -> None:
        self._changes.set()
