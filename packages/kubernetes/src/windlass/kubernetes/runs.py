"""Runs: Pods that run a program exactly once, and keep its outcome.

A run is created once under a name that has its generation and index. A removed run stays in the cluster as a
deleted Pod, held by a finalizer, so a late call finds its name taken.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable
from math import ceil
from typing import Final

from windlass.engines.engine import EngineError, EngineUnavailable, output_too_long
from windlass.engines.workload import MAX_OUTPUT_BYTES, Outcome, Workload
from windlass.kubernetes import manifests, names, paths
from windlass.kubernetes.api import ClusterApi, ClusterRefusal
from windlass.kubernetes.cache import ClusterCache
from windlass.kubernetes.documents import Pod
from windlass.kubernetes.environments import NamespaceObjects
from windlass.kubernetes.generations import Generations, removed_message
from windlass.kubernetes.instances import has_ended, is_leaving, outcome
from windlass.kubernetes.manifests import ClusterOptions
from windlass.kubernetes.reasons import creation_reason, is_certain, pending_reason

_END_PATIENCE: Final = 90.0
_FOREVER: Final = 10 * 365 * 86_400.0
_DELETE_PATIENCE: Final = 60.0
_REFUSALS: Final = 10
_REFUSAL_PAUSE: Final = 0.3
_NO_ACCOUNT: Final = "serviceaccount"
_END_MARK: Final = b"end"


class Runs:
    def __init__(
        self,
        api: ClusterApi,
        cache: ClusterCache,
        options: ClusterOptions,
        generations: Generations,
        environments: NamespaceObjects,
    ) -> None:
        self._api, self._cache, self._options = api, cache, options
        self._generations, self._environments = generations, environments

    async def once(self, workload: Workload, index: int) -> tuple[Outcome, Pod]:
        """Runs a workload, or waits for its run. Returns the outcome and its Pod."""
        self._generations.refuse_removed(workload)
        pod = await self._begin(workload, index)
        key = pod.metadata.namespace, pod.metadata.name
        uid = pod.metadata.uid

        def current() -> Pod | None:
            found = self._cache.pods.get(*key)
            return found if found is not None and found.metadata.uid == uid else None

        ended = await self._end_of(workload, current)
        found = outcome(ended)
        if found is None:
            raise EngineError(removed_message(workload))
        return found, ended

    async def _end_of(self, workload: Workload, current: Callable[[], Pod | None]) -> Pod:
        is_seen = False

        def is_over() -> bool:
            nonlocal is_seen
            pod = current()
            if pod is None:
                return is_seen  # removed, with its outcome
            is_seen = True
            return has_ended(pod) or is_leaving(pod) or is_certain(pending_reason(pod))

        await self._cache.wait(is_over, _FOREVER, "the run does not end")
        pod = current()
        if pod is None or is_leaving(pod):
            raise EngineError(removed_message(workload))
        if not has_ended(pod):
            raise EngineError(f"{pending_reason(pod)}. {workload.name} was not run")
        return pod

    async def _begin(self, workload: Workload, index: int) -> Pod:
        namespace = await self._environments.prepare(workload, is_run=True)
        wanted = manifests.run(self._options, workload, index)
        for attempt in range(_REFUSALS):
            try:
                made = await self._api.create(paths.pods(namespace), wanted, Pod)
            except ClusterRefusal as refused:
                if refused.is_conflict:
                    if pod := await self._existing(workload, namespace, index):
                        return pod
                    continue
                if refused.status == 403 and _NO_ACCOUNT in refused.message and attempt < _REFUSALS - 1:
                    await asyncio.sleep(_REFUSAL_PAUSE)  # its namespace is new
                    continue
                if refused.status == 403:
                    raise EngineError(
                        f"{creation_reason(refused.message)}. {workload.name} was not run"
                    ) from refused
                raise
            self._cache.pods.note(made)
            try:
                self._generations.refuse_removed(workload)
            except EngineError:  # it was removed meanwhile, by another server
                await self.remove(made, 0)
                raise
            return made
        raise EngineUnavailable("Deploy again: the cluster has not accepted the Pod of the run")

    async def _existing(self, workload: Workload, namespace: str, index: int) -> Pod | None:
        """Returns the Pod of this run; None if it has to be created again. Raises EngineError for a removed
        one."""
        name = names.run(workload, index)
        pod = await self._api.find(paths.pods(namespace, name), Pod)
        if pod is None:
            return None
        wanted = names.labels(self._options.installation, workload)
        if pod.label(names.INSTALLATION) != wanted[names.INSTALLATION]:
            raise EngineError(
                f"Remove the Pod {name} of the cluster: it does not belong to this Windlass, which leaves it "
                "as it is"
            )
        if pod.label(names.DEPLOYMENT) != wanted[names.DEPLOYMENT]:
            await self.remove(pod, 0)
            await self.release(pod)
            await self._cache.wait(
                lambda: not self._is_present(pod),
                _DELETE_PATIENCE,
                f"the Pod {name} of an earlier run does not end",
            )
            return None
        if is_leaving(pod):
            raise EngineError(removed_message(workload))
        self._cache.pods.note(pod)
        return pod

    def _is_present(self, pod: Pod) -> bool:
        found = self._cache.pods.get(pod.metadata.namespace, pod.metadata.name)
        return found is not None and found.metadata.uid == pod.metadata.uid

    async def remove(self, pod: Pod, grace: float) -> None:
        """Ends a run, and waits for its end. Its Pod stays as a mark."""
        path = paths.pods(pod.metadata.namespace, pod.metadata.name)
        if not is_leaving(pod):
            options = {"gracePeriodSeconds": max(1, ceil(grace)), "preconditions": {"uid": pod.metadata.uid}}
            try:
                await self._api.delete(path, options)
            except ClusterRefusal as refused:
                if not refused.is_conflict:
                    raise

        def is_over() -> bool:
            found = self._cache.pods.get(pod.metadata.namespace, pod.metadata.name)
            if found is None or found.metadata.uid != pod.metadata.uid:
                return True
            return is_leaving(found) and (has_ended(found) or not found.spec.node_name)

        await self._cache.wait(
            is_over, grace + _END_PATIENCE, f"the node of {pod.metadata.name} does not end it"
        )

    async def release(self, pod: Pod) -> None:
        """Removes the mark of a removed run."""
        try:
            change = {"metadata": {"finalizers": None}}
            await self._api.patch(paths.pods(pod.metadata.namespace, pod.metadata.name), change, Pod)
        except ClusterRefusal as refused:
            if not refused.is_absent:
                raise

    async def read_output(self, workload: Workload, index: int) -> bytes | None:
        """Returns the output file of a run, as the container beside it hands it over."""
        namespace = names.namespace(self._options.installation, workload.environment)
        path = f"{paths.pods(namespace, names.run(workload, index))}/log"
        try:
            said = await self._api.raw("GET", path, params={"container": names.OUTPUT_CONTAINER})
        except ClusterRefusal as refused:
            if refused.is_absent or refused.status == 400:
                return None
            raise
        return output_of(said)


def output_of(said: bytes) -> bytes | None:
    """Returns the output file from what was said about it; None if there was none. Raises EngineError for
    what is no regular file, or too long."""
    kind, *content = said.split() or [b"none"]
    match kind:
        case b"none":
            return None
        case b"long":
            raise output_too_long()
        case b"file" if content and content[-1] == _END_MARK:
            try:
                found = base64.b64decode(b"".join(content[:-1]), validate=True)
            except binascii.Error as error:
                raise EngineError("Run it again: the output file of the run arrived incomplete") from error
            if len(found) > MAX_OUTPUT_BYTES:
                raise output_too_long()
            return found
        case b"file":
            raise EngineError("Run it again: the output file of the run arrived incomplete")
    raise EngineError(
        "Write a regular file: the output file of the run is a folder, a link or something else"
    )
