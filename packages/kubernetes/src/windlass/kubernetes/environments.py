"""Creates the prerequisites of a workload in the cluster: its namespace, Secrets, volumes and Services.

Objects of others are never changed: one without the label of this installation is refused.
"""

from __future__ import annotations

import asyncio
from typing import Final, TypeVar

from windlass.base.log import log
from windlass.engines.engine import VolumeLost
from windlass.engines.workload import Workload
from windlass.kubernetes import manifests, names, paths
from windlass.kubernetes.api import ClusterApi, ClusterRefusal
from windlass.kubernetes.cache import ClusterCache
from windlass.kubernetes.documents import KubeObject, VolumeClaim
from windlass.kubernetes.manifests import ClusterOptions, Manifest
from windlass.kubernetes.namespaces import Namespaces
from windlass.kubernetes.own_objects import OwnObjects
from windlass.kubernetes.pull_logins import PullLogins

T = TypeVar("T")
_ACCOUNT_CHECKS, _ACCOUNT_PAUSE = 100, 0.05
_LOST_PHASE: Final = "Lost"
_FORBIDDEN: Final = 403
_log = log("engines.kubernetes")


class NamespaceObjects:
    def __init__(
        self, api: ClusterApi, cache: ClusterCache, options: ClusterOptions, logins: PullLogins
    ) -> None:
        self._api, self._cache, self._options, self._logins = api, cache, options, logins
        self._namespaces, self._objects = Namespaces(api, options), OwnObjects(api, options.installation)
        self._has_told = False
        self._ready: set[str] = set()
        """Namespaces that were seen complete."""
        self._written: dict[tuple[str, str], str] = {}
        """The digest of the last written pull secret and Services, by namespace and name."""

    def refuse_lost_volumes(self, workload: Workload) -> None:
        """Raises VolumeLost if a volume that held data is gone."""
        namespace = names.namespace(self._options.installation, workload.environment)
        for volume in workload.volumes:
            found = self._cache.claims.get(namespace, names.claim(workload.service, volume))
            if volume.is_known and (found is None or found.status.phase == _LOST_PHASE):
                raise VolumeLost(workload, volume)

    async def prepare(self, workload: Workload, *, is_run: bool, count: int = 1) -> str:
        """Creates what `count` instances of a workload need. Returns its namespace."""
        namespace = await self._namespace(workload)
        self.refuse_lost_volumes(workload)
        for volume in workload.volumes:
            claim = manifests.claim(self._options, workload, volume)
            if self._cache.claims.get(namespace, claim["metadata"]["name"]) is None:
                made = await self._create(paths.claims(namespace), claim, VolumeClaim)
                if made is not None:
                    self._cache.claims.note(made)
        await self._create(paths.secrets(namespace), manifests.secret(self._options, workload), KubeObject)
        if (login := self._logins.secret(workload)) is not None:
            await self._put(paths.secrets(namespace), login)
        if not is_run:
            for service in manifests.neighbours(self._options, workload):
                await self._service(namespace, service)
        if count > 1:
            await self._limit_disruptions(namespace, workload)
        return namespace

    async def _limit_disruptions(self, namespace: str, workload: Workload) -> None:
        """Writes the PodDisruptionBudget of a service, if the account of the cluster has the right."""
        try:
            await self._put(paths.budgets(namespace), manifests.disruption_budget(self._options, workload))
        except ClusterRefusal as refused:
            if refused.status != _FORBIDDEN:
                raise
            if not self._has_told:
                self._has_told = True
                _log.warning(
                    "give the account of the cluster the right to create poddisruptionbudgets: without it, a "
                    "drained node may end all instances of a service at once"
                )

    def forget(self, namespace: str) -> None:
        """Forgets that a namespace was complete, because something in it is missing."""
        self._ready.discard(namespace)
        self._written = {key: digest for key, digest in self._written.items() if key[0] != namespace}

    def forget_all(self) -> None:
        """Forgets which namespaces are complete, because what they should contain has changed."""
        self._ready.clear()

    async def _namespace(self, workload: Workload) -> str:
        name = names.namespace(self._options.installation, workload.environment)
        if name in self._ready:
            return name
        await self._namespaces.add(workload.environment, workload.org)
        # Until its account is there, a new namespace refuses Pods.
        for _ in range(_ACCOUNT_CHECKS):
            if await self._api.find(paths.accounts(name, "default"), KubeObject):
                break
            await asyncio.sleep(_ACCOUNT_PAUSE)
        self._ready.add(name)
        return name

    async def _service(self, namespace: str, wanted: Manifest) -> None:
        await self._put(paths.services(namespace), wanted)

    async def _put(self, path: str, wanted: Manifest) -> None:
        """Creates an object, or brings it to this state. Does not write what is unchanged."""
        metadata = wanted["metadata"]
        key, digest = (metadata["namespace"], f"{path} {metadata['name']}"), manifests.digest(wanted)
        if self._written.get(key) == digest:
            return
        if await self._create(path, wanted, KubeObject) is None:
            found = await self._api.get(f"{path}/{metadata['name']}", KubeObject)
            self._objects.refuse_foreign(found, f"the {wanted['kind']} {metadata['name']}")
            if found.label(names.SERVICE) != metadata["labels"][names.SERVICE]:
                return  # the alias of another service, which came first
            kept = metadata.get("annotations", {}).get(names.DIGEST)
            if kept is None or found.annotation(names.DIGEST) != kept:
                change = {
                    **wanted,
                    "metadata": {**metadata, "resourceVersion": found.metadata.resource_version},
                }
                await self._api.patch(f"{path}/{metadata['name']}", change, KubeObject)
        self._written[key] = digest

    async def _create(self, path: str, wanted: Manifest, type: type[T]) -> T | None:
        """Creates an object; returns None if one of this name exists."""
        try:
            return await self._objects.create(path, wanted, type)
        except ClusterRefusal as refused:
            if refused.is_absent:
                self._ready.discard(wanted["metadata"].get("namespace", ""))
            raise
