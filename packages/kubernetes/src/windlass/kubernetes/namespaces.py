"""Creates the namespaces of environments, and the policy that keeps other environments out of them."""

from __future__ import annotations

from windlass.kubernetes import manifests, paths
from windlass.kubernetes.api import ClusterApi
from windlass.kubernetes.documents import KubeObject
from windlass.kubernetes.manifests import ClusterOptions, Manifest
from windlass.kubernetes.own_objects import OwnObjects


class Namespaces:
    def __init__(self, api: ClusterApi, options: ClusterOptions) -> None:
        self._api, self._options = api, options
        self._objects = OwnObjects(api, options.installation)

    async def add(self, environment: str, org: str) -> str:
        """Creates what the namespace of an environment has from its beginning. Returns its name."""
        name = await self.add_empty(manifests.namespace(self._options, environment, org))
        await self._objects.put(paths.policies(name), manifests.network_policy(self._options, environment))
        return name

    async def add_empty(self, wanted: Manifest) -> str:
        """Creates a namespace. Raises EngineError if it exists and is not of this installation."""
        name: str = wanted["metadata"]["name"]
        if await self._objects.create(paths.NAMESPACES, wanted, KubeObject) is None:
            found = await self._api.get(f"{paths.NAMESPACES}/{name}", KubeObject)
            self._objects.refuse_foreign(found, f"the namespace {name}")
        return name
