"""Ends instances, and waits until they have ended."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import ceil
from time import monotonic
from typing import Final

from windlass.kubernetes import names, paths
from windlass.kubernetes.api import ClusterApi, ClusterRefusal
from windlass.kubernetes.cache import ClusterCache
from windlass.kubernetes.documents import GenerationObject, Pod
from windlass.kubernetes.generations import Generations, is_removed
from windlass.kubernetes.instances import has_ended, is_leaving, is_running, number
from windlass.kubernetes.output_readers import OutputReaders
from windlass.kubernetes.runs import Runs

LEAVE_SECONDS: Final = 2.0
"""Seconds until all nodes have stopped sending connections of other services to a Pod that has left its
Service. A node applies changes at most once in a second (`minSyncPeriod` of kube-proxy)."""
_ASIDE_GRACE: Final = 10.0
_END_PATIENCE: Final = 90.0
"""Seconds beyond the grace period in which a node ends an instance."""


class Endings:
    def __init__(
        self,
        api: ClusterApi,
        cache: ClusterCache,
        generations: Generations,
        runs: Runs,
        readers: OutputReaders,
    ) -> None:
        self._api, self._cache, self._generations = api, cache, generations
        self._runs, self._readers = runs, readers

    async def end_run(self, run: Pod, grace: float) -> None:
        await self._runs.remove(run, grace)
        await self._readers.until_silent(run)

    async def leave_service(self, service: str, generation: int | None) -> None:
        """Takes Pods that are about to end out of the addresses of their service, if Pods of another
        generation stay there. A node takes a moment to learn that; otherwise, neighbours would connect to a
        program that has ended."""
        running = [pod for pod in self._controlled(service, None) if _has_neighbours(pod)]
        leaving = [pod for pod in running if generation in (None, number(pod.label(names.GENERATION)))]
        if not leaving or len(leaving) == len(running):
            return
        await self.label(leaving, {names.SERVES: None})
        await asyncio.sleep(LEAVE_SECONDS)

    async def await_neighbours(self, pods: Sequence[Pod], since: float) -> None:
        """Waits until nodes know that surplus Pods have left their service. `pods`: as they were before.
        `since`: when they left, by `monotonic`."""
        if any(map(_has_neighbours, pods)):
            await asyncio.sleep(max(0.0, since + LEAVE_SECONDS - monotonic()))

    async def label(
        self,
        pods: Sequence[Pod],
        labels: Mapping[str, str | None],
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Changes labels and annotations of Pods, except of those that are gone."""
        for pod in pods:
            change = {"metadata": {"labels": labels, "annotations": annotations or {}}}
            with suppress(ClusterRefusal):
                await self._api.patch(paths.pods(pod.metadata.namespace, pod.metadata.name), change, Pod)

    async def end_pods(
        self, service: str, generation: int | None, controllers: Sequence[GenerationObject], grace: float
    ) -> None:
        """Waits until the Pods of removed generations are gone, and no more are created."""
        if not controllers:
            return
        shortened: set[str] = set()

        def ended() -> bool:
            return not self._controlled(service, generation) and self._are_empty(service, generation)

        until = monotonic() + grace + _END_PATIENCE
        while not ended():
            for pod in self._controlled(service, generation):
                if pod.metadata.uid not in shortened:
                    shortened.add(pod.metadata.uid)
                    await self._shorten(pod, grace)
            if not ended():
                left = ", ".join(self._names(service, generation))
                await self._cache.change(until, f"the node of an instance does not end it ({left})")

    def _names(self, service: str, generation: int | None) -> list[str]:
        return [pod.metadata.name for pod in self._controlled(service, generation)]

    def _controlled(self, service: str, generation: int | None) -> list[Pod]:
        return [pod for pod in self._generations.pods(service, generation) if not pod.label(names.INDEX)]

    def _are_empty(self, service: str, generation: int | None) -> bool:
        """Returns whether the controllers of removed generations create no more Pods."""
        replica_sets = [
            each
            for each in self._cache.replica_sets.of(service)
            if generation is None or number(each.label(names.GENERATION)) == generation
        ]
        controllers = [each for each in self._generations.of(service, generation) if is_removed(each)]
        return all(
            each.is_settled and not each.spec.replicas and not each.status.replicas
            for each in (*controllers, *replica_sets)
        )

    async def _shorten(self, pod: Pod, grace: float) -> None:
        """Ends a Pod after this grace period, which may be shorter than its own."""
        options = {"gracePeriodSeconds": max(1, ceil(grace)), "preconditions": {"uid": pod.metadata.uid}}
        with suppress(ClusterRefusal):
            await self._api.delete(paths.pods(pod.metadata.namespace, pod.metadata.name), options)

    async def gone(self, pods: Sequence[Pod], grace: float) -> None:
        def over() -> bool:
            return not any(self._is_there(pod) for pod in pods)

        await self._cache.wait(over, grace + _END_PATIENCE, "the node of an instance does not end it")
        for pod in pods:
            await self._readers.until_silent(pod)

    async def set_aside(self, service: str) -> None:
        """Ends all Pods of a service, also those without a Deployment."""
        for controller in self._generations.of(service):
            if not is_removed(controller):
                await self._generations.scale(controller, 0)
        pods = self._controlled(service, None)
        runs = [
            pod for pod in self._generations.pods(service) if pod.label(names.INDEX) and not has_ended(pod)
        ]
        for pod in pods:
            await self._shorten(pod, _ASIDE_GRACE)
        await asyncio.gather(
            self.gone(pods, _ASIDE_GRACE), *(self.end_run(run, _ASIDE_GRACE) for run in runs)
        )

    def _is_there(self, pod: Pod) -> bool:
        found = self._cache.pods.get(pod.metadata.namespace, pod.metadata.name)
        return found is not None and found.metadata.uid == pod.metadata.uid


def _has_neighbours(pod: Pod) -> bool:
    """Returns whether a Pod gets connections of neighbours."""
    return (
        bool(pod.label(names.SERVES) and pod.annotation(names.PORTS))
        and is_running(pod)
        and not is_leaving(pod)
    )
