"""Creates the namespaces of environments with the policy that keeps others out, and deletes those of deleted
environments."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from windlass.kubernetes import manifests, names, paths
from windlass.kubernetes.api import ClusterApi
from windlass.kubernetes.documents import KubeObject, ObjectList
from windlass.kubernetes.manifests import ClusterOptions, Manifest
from windlass.kubernetes.own_objects import OwnObjects

MAX_LISTED: Final = 1000
"""Maximum number of namespaces that are looked at together."""
_CLUSTER_AUTHORITY: Final = "kube-root-ca.crt"
"""The ConfigMap that the cluster puts into each namespace."""
_CORE, _APPS, _BATCH = "/api/v1", "/apis/apps/v1", "/apis/batch/v1"
_KINDS: Final = (
    (_CORE, "persistentvolumeclaims"),
    (_CORE, "pods"),
    (_CORE, "secrets"),
    (_CORE, "configmaps"),
    (_CORE, "services"),
    (_APPS, "deployments"),
    (_APPS, "statefulsets"),
    (_APPS, "daemonsets"),
    (_BATCH, "jobs"),
    (_BATCH, "cronjobs"),
)
"""The objects of others for which a namespace stays, such as a volume that its owner keeps."""


class Namespaces:
    def __init__(self, api: ClusterApi, options: ClusterOptions) -> None:
        self._api, self._options = api, options
        self._objects = OwnObjects(api, options.installation)

    async def add(self, environment: str, org: str) -> str:
        """Creates what the namespace of an environment has from its beginning. Returns its name."""
        name = await self.add_empty(manifests.namespace(self._options, environment, org))
        policy = manifests.network_policy(self._options, environment)
        await self._objects.replace(paths.policies(name), policy)  # a chart may have changed it
        return name

    async def add_empty(self, wanted: Manifest) -> str:
        """Creates a namespace. Raises EngineError if it exists and is not of this installation."""
        name: str = wanted["metadata"]["name"]
        if await self._objects.create(paths.NAMESPACES, wanted, KubeObject) is None:
            found = await self._api.get(f"{paths.NAMESPACES}/{name}", KubeObject)
            self._objects.refuse_foreign(found, f"the namespace {name}")
        return name

    async def environments(self) -> list[str]:
        """Returns the environments with a namespace."""
        own = {"labelSelector": f"{names.selector(self._options.installation)},{names.ENVIRONMENT}"}
        found = await self._api.get(paths.NAMESPACES, ObjectList, {**own, "limit": str(MAX_LISTED)})
        return [
            each.label(names.ENVIRONMENT)
            for each in found.items[:MAX_LISTED]
            if each.metadata.deletion_timestamp is None
        ]

    async def remove(self, environment: str, in_use: Collection[str]) -> None:
        """Deletes the namespace of an environment. It stays while it is one of those `in_use`, or contains
        objects of others."""
        name = names.namespace(self._options.installation, environment)
        found = await self._api.find(f"{paths.NAMESPACES}/{name}", KubeObject)
        if found is None or name in in_use or found.metadata.deletion_timestamp is not None:
            return
        label = names.installation_label(self._options.installation)
        if found.label(names.INSTALLATION) != label or await self._has_objects_of_others(name):
            return
        await self._api.delete(f"{paths.NAMESPACES}/{name}", {"preconditions": {"uid": found.metadata.uid}})

    async def _has_objects_of_others(self, namespace: str) -> bool:
        foreign = {"labelSelector": f"!{names.INSTALLATION}", "limit": "2"}
        for group, kind in _KINDS:
            found = await self._api.get(f"{group}/namespaces/{namespace}/{kind}", ObjectList, foreign)
            if any(each.metadata.name != _CLUSTER_AUTHORITY for each in found.items):
                return True
        return False
