"""The Deployments and StatefulSets of generations.

The object of a generation is created once, and every later write has the `resourceVersion` that was read
(compare-and-set). A removed generation stays as an object with 0 replicas and a label, so a late call finds
it and is refused.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final
from weakref import WeakValueDictionary

from windlass.engines.engine import EngineError, EngineUnavailable
from windlass.engines.workload import Workload
from windlass.kubernetes import manifests, names, paths
from windlass.kubernetes.api import ClusterApi, ClusterRefusal
from windlass.kubernetes.cache import ClusterCache
from windlass.kubernetes.documents import GenerationObject, KubeObject, Pod
from windlass.kubernetes.instances import has_ended, is_leaving, number
from windlass.kubernetes.manifests import ClusterOptions

REMOVED_AT: Final = "windlass.dev/removed-at"
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_ATTEMPTS: Final = 20
_STATEFUL_KIND: Final = "StatefulSet"


def is_removed(it: KubeObject) -> bool:
    return bool(it.label(names.REMOVED))


def removed_message(workload: Workload) -> str:
    return f"Deployment {workload.generation} of {workload.name} was removed, and is not started again"


class Generations:
    def __init__(self, api: ClusterApi, cache: ClusterCache, options: ClusterOptions) -> None:
        self._api, self._cache, self._options = api, cache, options
        self._numbering: WeakValueDictionary[tuple[str, int], asyncio.Lock] = WeakValueDictionary()

    # Reading

    def of(self, service: str, generation: int | None = None) -> list[GenerationObject]:
        """Returns the objects of a service, also of removed generations."""
        return [
            each
            for each in self._cache.controllers(service)
            if generation is None or number(each.label(names.GENERATION)) == generation
        ]

    def pods(self, service: str, generation: int | None = None) -> list[Pod]:
        """Returns the Pods of a service, including those that are leaving and those that have ended."""
        return [
            pod
            for pod in self._cache.pods.of(service)
            if generation is None or number(pod.label(names.GENERATION)) == generation
        ]

    def index(self, pod: Pod) -> int | None:
        """Returns the index of a Pod; None if it has none yet, or is not in the namespace of its service."""
        if not self._cache.homes.contains(pod.label(names.SERVICE), pod.metadata.namespace):
            return None
        if run := pod.label(names.INDEX):
            return number(run)
        for controller in self.of(pod.label(names.SERVICE), number(pod.label(names.GENERATION))):
            if _is_stateful(controller):
                return number(pod.metadata.name.rpartition("-")[2])
            return _indexes(controller.annotation(names.INDEXES)).get(pod.metadata.name)
        return None

    # Writing

    async def put(self, workload: Workload, namespace: str, replicas: int) -> GenerationObject:
        """Brings a generation to a number of replicas. Raises EngineError if it was removed."""
        wanted = manifests.controller(self._options, workload, replicas)
        for attempt in range(_ATTEMPTS):
            found = await self._current(workload, namespace, is_first=attempt == 0)
            try:
                if found is None:
                    return self._noted(
                        await self._api.create(
                            self._path(wanted["kind"], namespace), wanted, GenerationObject
                        )
                    )
                return await self._update(found, workload, wanted, replicas)
            except ClusterRefusal as refused:
                if not refused.is_conflict:
                    raise
        raise EngineUnavailable("Deploy again: another server keeps changing the same generation")

    async def scale(self, controller: GenerationObject, replicas: int) -> None:
        for _ in range(_ATTEMPTS):
            try:
                await self._patch(controller, {"spec": {"replicas": replicas}})
                return
            except ClusterRefusal as refused:
                if refused.is_absent:
                    return
                if not refused.is_conflict:
                    raise
            found = await self._api.find(self._own_path(controller), GenerationObject)
            if found is None or is_removed(found):
                return
            controller = self._noted(found)

    async def record_removal(self, controller: GenerationObject) -> GenerationObject | None:
        """Marks a generation as removed, with no replicas. Returns the object; None if it does not exist."""
        while not is_removed(controller):
            change = {
                "metadata": {
                    "labels": {names.REMOVED: str(self._next_number(controller.label(names.SERVICE)))},
                    "annotations": {REMOVED_AT: str(int(time.time()))},
                },
                "spec": {"replicas": 0},
            }
            try:
                return await self._patch(controller, change)
            except ClusterRefusal as refused:
                if not (refused.is_conflict or refused.is_absent):
                    raise
            found = await self._api.find(self._own_path(controller), GenerationObject)
            if found is None:
                return None
            controller = self._noted(found)
        return controller

    def refuse_removed(self, workload: Workload) -> None:
        """Raises EngineError for a generation that is known to be removed, before anything is made for it."""
        label = names.labels(self._options.installation, workload)[names.DEPLOYMENT]
        for each in self.of(workload.service):
            generation = number(each.label(names.GENERATION))
            is_it = generation == workload.generation and each.label(names.DEPLOYMENT) == label
            if is_it and is_removed(each) and not self._may_return(each):
                raise EngineError(removed_message(workload))
            if each.label(names.DISCARDED) and generation >= workload.generation:
                raise EngineError(removed_message(workload))

    async def record_absent_removal(
        self, service: str, generation: int, *, is_discarded: bool = False
    ) -> None:
        """Marks a generation as removed that has no object, if the service has others. `is_discarded`: the
        mark stands for all earlier generations."""
        beside: Sequence[KubeObject] = self.of(service) or self.pods(service)
        if not beside:
            return
        other = beside[0]
        labels = {
            key: other.label(key)
            for key in (
                names.INSTALLATION,
                names.SERVICE,
                names.ENVIRONMENT,
                names.ORGANIZATION,
                names.DEPLOYMENT,
                names.LINES_NAME,
            )
        }
        name = names.generation_object(service, other.label(names.LINES_NAME), generation)
        namespace = other.metadata.namespace
        wanted = manifests.tombstone(
            self._options,
            namespace=namespace,
            name=name,
            labels={
                **labels,
                names.GENERATION: str(generation),
                **({names.DISCARDED: "yes"} if is_discarded else {}),
            },
            number=self._next_number(service),
        )
        wanted["metadata"]["annotations"] = {REMOVED_AT: str(int(time.time()))}
        try:
            self._noted(await self._api.create(paths.deployments(namespace), wanted, GenerationObject))
        except ClusterRefusal as refused:
            if not refused.is_conflict:
                raise
            found = await self._api.find(paths.deployments(namespace, name), GenerationObject)
            if found is not None:
                await self.record_removal(self._noted(found))

    async def delete(self, controller: GenerationObject) -> None:
        await self._api.delete(self._own_path(controller), {"propagationPolicy": "Background"})

    async def give_indexes(self, service: str, generation: int) -> None:
        """Assigns the lowest free index to each Pod of a Deployment that has none."""
        async with self._numbering.setdefault((service, generation), asyncio.Lock()):
            await self._give_indexes(service, generation)

    async def _give_indexes(self, service: str, generation: int) -> None:
        for _ in range(_ATTEMPTS):
            controller = next((each for each in self.of(service, generation) if not is_removed(each)), None)
            if controller is None or _is_stateful(controller):
                return
            indexes = await self._with_new(controller)
            if indexes is None:
                return
            try:
                await self._patch(
                    controller, {"metadata": {"annotations": {names.INDEXES: json.dumps(indexes)}}}
                )
                return
            except ClusterRefusal as refused:
                if refused.is_absent:
                    return
                if not refused.is_conflict:
                    raise
            found = await self._api.find(self._own_path(controller), GenerationObject)
            if found is None:
                return
            self._noted(found)

    async def _with_new(self, controller: GenerationObject) -> dict[str, int] | None:
        """Returns the indexes of a Deployment with those of new Pods; None if there are no new Pods."""
        service, generation = controller.label(names.SERVICE), number(controller.label(names.GENERATION))
        given = dict(_indexes(controller.annotation(names.INDEXES)))
        pods = [pod for pod in self.pods(service, generation) if not pod.label(names.INDEX)]
        fresh = sorted(
            pod.metadata.name
            for pod in pods
            if pod.metadata.name not in given and not is_leaving(pod) and not has_ended(pod)
        )
        if not fresh:
            return None
        free = [index for index in range(controller.spec.replicas) if index not in given.values()]
        present = {pod.metadata.name for pod in pods if not has_ended(pod)}
        if len(free) < len(fresh):
            for name in [name for name in given if name not in present]:
                # The list may be behind: another server may have given the index just now.
                found = await self._api.find(paths.pods(controller.metadata.namespace, name), Pod)
                if found is None or has_ended(found):
                    del given[name]
            free = [index for index in range(controller.spec.replicas) if index not in given.values()]
        chosen = dict(zip(fresh, free, strict=False))
        return {**given, **chosen} if chosen else None

    async def _current(
        self, workload: Workload, namespace: str, *, is_first: bool
    ) -> GenerationObject | None:
        """Returns the object of a generation as it is now, at the first attempt as the cache has it. A write
        with an older version is refused."""
        found = self.of(workload.service, workload.generation)
        if found and is_first and not is_removed(found[0]):
            return found[0]
        name = found[0].metadata.name if found else names.controller(workload)
        for path in (paths.deployments, paths.stateful_sets):
            if current := await self._api.find(path(namespace, name), GenerationObject):
                return self._noted(current)
        return None

    async def _update(
        self, found: GenerationObject, workload: Workload, wanted: dict[str, Any], replicas: int
    ) -> GenerationObject:
        label = names.labels(self._options.installation, workload)
        if found.label(names.INSTALLATION) != label[names.INSTALLATION]:
            raise EngineError(
                f"Rename or remove {found.metadata.name} in the namespace {found.metadata.namespace}: it "
                "does not belong to this Windlass, which leaves it as it is"
            )
        is_same = found.label(names.DEPLOYMENT) == label[names.DEPLOYMENT]
        if is_same and is_removed(found) and not self._may_return(found):
            raise EngineError(removed_message(workload))
        if (
            is_same
            and not is_removed(found)
            and found.annotation(names.DIGEST) == wanted["metadata"]["annotations"][names.DIGEST]
        ):
            if found.spec.replicas == replicas:
                return found
            return await self._patch(found, {"spec": {"replicas": replicas}})
        metadata = {
            **wanted["metadata"],
            "name": found.metadata.name,
            "resourceVersion": found.metadata.resource_version,
        }
        is_same_kind = _is_stateful(found) == (wanted["kind"] == _STATEFUL_KIND)
        if not is_same_kind:
            await self.delete(found)
            raise ClusterRefusal(409, "Conflict", "another kind of object is replaced")
        made = await self._api.replace(
            self._own_path(found), {**wanted, "metadata": metadata}, GenerationObject
        )
        return self._noted(made)

    def _may_return(self, found: GenerationObject) -> bool:
        """Returns whether a removed generation may run again: all later generations are removed, and one of
        them was removed after it. Then it replaces a generation whose release failed."""
        generation, removal = number(found.label(names.GENERATION)), number(found.label(names.REMOVED))
        others = self.of(found.label(names.SERVICE))
        later = [each for each in others if number(each.label(names.GENERATION)) > generation]
        return all(map(is_removed, later)) and any(
            number(each.label(names.REMOVED)) > removal for each in later
        )

    def _next_number(self, service: str) -> int:
        return 1 + max((number(each.label(names.REMOVED)) for each in self.of(service)), default=0)

    async def _patch(self, controller: GenerationObject, change: Mapping[str, Any]) -> GenerationObject:
        metadata = {**change.get("metadata", {}), "resourceVersion": controller.metadata.resource_version}
        body = {**change, "metadata": metadata}
        return self._noted(await self._api.patch(self._own_path(controller), body, GenerationObject))

    def _own_path(self, controller: GenerationObject) -> str:
        kind = _STATEFUL_KIND if _is_stateful(controller) else "Deployment"
        return f"{self._path(kind, controller.metadata.namespace)}/{controller.metadata.name}"

    def _path(self, kind: str, namespace: str) -> str:
        return paths.stateful_sets(namespace) if kind == _STATEFUL_KIND else paths.deployments(namespace)

    def _noted(self, controller: GenerationObject) -> GenerationObject:
        watch = self._cache.stateful_sets if _is_stateful(controller) else self._cache.deployments
        watch.note(controller)
        return controller


def _is_stateful(controller: GenerationObject) -> bool:
    return controller.label(names.ALONE) == "yes"


@lru_cache(4096)
def _indexes(annotation: str) -> Mapping[str, int]:
    """Returns the index of each Pod of a Deployment. The annotation may have been edited by hand."""
    try:
        found = json.loads(annotation) if annotation else {}
    except ValueError:
        return {}
    pairs = found.items() if isinstance(found, dict) else ()
    return {str(name): index for name, index in pairs if isinstance(index, int)}
