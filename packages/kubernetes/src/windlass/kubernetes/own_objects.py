"""Creates and replaces objects of this installation. Objects of others are never changed."""

from __future__ import annotations

from typing import TypeVar

from windlass.engines.engine import EngineError
from windlass.kubernetes import names
from windlass.kubernetes.api import ClusterApi, ClusterRefusal
from windlass.kubernetes.documents import KubeObject
from windlass.kubernetes.manifests import Manifest

T = TypeVar("T")


class OwnObjects:
    def __init__(self, api: ClusterApi, installation: str) -> None:
        self._api, self._label = api, names.installation_label(installation)

    async def create(self, path: str, wanted: Manifest, type: type[T]) -> T | None:
        """Creates an object; returns None if one of this name exists."""
        try:
            return await self._api.create(path, wanted, type)
        except ClusterRefusal as refused:
            if refused.is_conflict and refused.reason == "AlreadyExists":
                return None
            raise

    async def put(self, path: str, wanted: Manifest) -> None:
        """Creates an object, or replaces one of an earlier version. `wanted` has the annotation with its
        digest."""
        if await self.create(path, wanted, KubeObject) is not None:
            return
        name = wanted["metadata"]["name"]
        found = await self._api.get(f"{path}/{name}", KubeObject)
        self.refuse_foreign(found, f"the {wanted['kind']} {name}")
        if found.annotation(names.DIGEST) != wanted["metadata"]["annotations"][names.DIGEST]:
            await self._api.replace(f"{path}/{name}", wanted, KubeObject)

    async def replace(self, path: str, wanted: Manifest) -> None:
        """Creates an object, or replaces it whatever it is: its content decides what others may do."""
        if await self.create(path, wanted, KubeObject) is None:
            await self._api.replace(f"{path}/{wanted['metadata']['name']}", wanted, KubeObject)

    def refuse_foreign(self, found: KubeObject, what: str) -> None:
        if found.label(names.INSTALLATION) != self._label:
            raise EngineError(
                f"Rename or remove {what} of the cluster: it does not belong to this Windlass, which leaves "
                "it as it is"
            )
