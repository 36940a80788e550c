"""Deletes objects that are no longer needed. Only objects with the label of this installation are touched."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import datetime
from typing import Final

from windlass.engines.rollout.removed_generations import MAX_DELAY_SECONDS
from windlass.kubernetes import names, paths
from windlass.kubernetes.api import ClusterApi, ClusterRefusal
from windlass.kubernetes.cache import ClusterCache
from windlass.kubernetes.documents import GenerationObject, ObjectList, Pod
from windlass.kubernetes.generations import REMOVED_AT, Generations, is_removed
from windlass.kubernetes.instances import has_ended, is_leaving, number
from windlass.kubernetes.manifests import ClusterOptions
from windlass.kubernetes.runs import Runs

_CLAIM_PATIENCE: Final = 90.0


class Leftovers:
    def __init__(
        self,
        api: ClusterApi,
        cache: ClusterCache,
        generations: Generations,
        runs: Runs,
        options: ClusterOptions,
    ) -> None:
        self._api, self._cache = api, cache
        self._generations, self._runs, self._options = generations, runs, options

    async def delete_secrets(self, namespace: str, service: str, generation: int | None) -> None:
        """Deletes the variables and files of removed generations."""
        selector = names.selector(self._options.installation, service)
        selector += f",{names.GENERATION}={generation}" if generation is not None else f",{names.GENERATION}"
        await self._api.delete(paths.secrets(namespace), params={"labelSelector": selector})

    async def discard(self, service: str) -> None:
        """Deletes everything of a service whose instances have ended, except the marks of removed
        generations."""
        await self._release_runs(service)
        claims = [*self._cache.claims.of(service)]
        owned = (*self._generations.of(service), *self._generations.pods(service), *claims)
        namespaces = sorted({each.metadata.namespace for each in owned})
        selector = names.selector(self._options.installation, service)
        for namespace in namespaces:
            await self._api.delete(paths.claims(namespace), params={"labelSelector": selector})
            for name in await self._services(namespace, selector):
                await self._api.delete(paths.services(namespace, name))
            with suppress(ClusterRefusal):  # the account may not change them, and so has made none
                await self._api.delete(paths.budgets(namespace, names.budget(service)))
        uids = {claim.metadata.uid for claim in claims}
        await self._cache.wait(
            lambda: not any(claim.metadata.uid in uids for claim in self._cache.claims.of(service)),
            _CLAIM_PATIENCE,
            "a volume is not deleted",
        )
        # At last: the request of a server that was killed may have come late.
        for namespace in namespaces:
            await self._api.delete(paths.secrets(namespace), params={"labelSelector": selector})
        await self._forget_removed(service)

    async def _release_runs(self, service: str) -> None:
        """Removes the marks of removed runs, which hold their volumes. One mark stands for all of them."""
        runs = [run for run in self._generations.pods(service) if run.label(names.INDEX)]
        if runs:
            latest = max(number(run.label(names.GENERATION)) for run in runs)
            if not self._generations.of(service, latest):
                await self._generations.record_absent_removal(service, latest, is_discarded=True)
        for run in runs:
            await self._runs.release(run)

    async def sweep(self) -> None:
        """Deletes the marks of generations that were removed so long ago that no late call can come."""
        services = {
            each.label(names.SERVICE) for each in (*self._cache.controllers(), *self._cache.pods.all())
        }
        for service in services:
            await self._forget_removed(service)
        self._cache.forget_absent()

    async def _forget_removed(self, service: str) -> None:
        for controller in self._generations.of(service):
            if is_removed(controller) and _is_old(_removed_at(controller)):
                await self._generations.delete(controller)
        for run in self._generations.pods(service):
            if run.label(names.INDEX) and is_leaving(run) and has_ended(run) and _is_old(_deleted_at(run)):
                await self._runs.release(run)

    async def _services(self, namespace: str, selector: str) -> list[str]:
        try:
            found = await self._api.get(paths.services(namespace), ObjectList, {"labelSelector": selector})
        except ClusterRefusal as refused:
            if refused.is_absent:
                return []
            raise
        return [each.metadata.name for each in found.items]


def _removed_at(controller: GenerationObject) -> float:
    at = controller.annotation(REMOVED_AT)
    return number(at) or time.time()


def _deleted_at(run: Pod) -> float:
    with suppress(ValueError):
        return datetime.fromisoformat(run.metadata.deletion_timestamp or "").timestamp()
    return time.time()


def _is_old(moment: float) -> bool:
    return moment < time.time() - MAX_DELAY_SECONDS
