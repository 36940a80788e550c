"""Logins with which nodes pull images, and the Secrets that hold them.

A Secret with the login of the registry for built images is written again when that login changes, because a
node may pull the image of a release long after its deployment.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from typing import Final

from windlass.base.log import log
from windlass.engines.image_names import WINDLASS_PREFIX
from windlass.engines.registries import BuildRegistry, RegistryLogin, parse_ref
from windlass.engines.workload import Workload
from windlass.kubernetes import manifests, names, paths
from windlass.kubernetes.api import ClusterApi, ClusterRefusal, ClusterUnavailable
from windlass.kubernetes.cache import ClusterCache
from windlass.kubernetes.documents import KubeObject, ObjectList
from windlass.kubernetes.manifests import ClusterOptions, Manifest

_DOCKER_HUB_AUTH: Final = "https://index.docker.io/v1/"
_FIRST_PAUSE, _MAX_PAUSE = 5.0, 300.0
_log = log("kubernetes.pull_logins")


class PullLogins:
    def __init__(
        self, api: ClusterApi, cache: ClusterCache, options: ClusterOptions, registry: BuildRegistry | None
    ) -> None:
        """`registry`: the registry for built images."""
        self._api, self._cache, self._options = api, cache, options
        self._registry = registry
        self._logins: dict[str, tuple[str, RegistryLogin]] = {}
        """The last login for each service with an image of another registry, with its host."""
        self._changed = asyncio.Event()
        self._changed.set()

    def use(self, registry: BuildRegistry | None) -> None:
        """Changes the registry for built images, or its login."""
        if registry != self._registry:
            self._registry = registry
            self._changed.set()

    def keep(self, service: str, ref: str, login: RegistryLogin) -> None:
        self._logins[service] = parse_ref(ref).host, login

    def secret(self, workload: Workload) -> Manifest | None:
        """Returns the Secret with the login for the image of a workload; None if there is no login."""
        registry, ref = self._registry, parse_ref(workload.artifact.ref)
        # Only for images of the same service: the registry has those of all services.
        if registry and ref.name == registry.name_of(f"{WINDLASS_PREFIX}{workload.service}"):
            login = registry.pull_login or registry.login
            found = (ref.host, login) if login else None
            label = _label_of(ref.host)
        else:
            found, label = self._logins.get(workload.service), ""
        if found is None:
            return None
        return manifests.pull_secret(self._options, workload, _data(*found), label)

    async def run(self) -> None:
        """Writes a changed login of the registry into the cluster, in an endless loop."""
        pause = _FIRST_PAUSE
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self.refresh()
                pause = _FIRST_PAUSE
            except (ClusterUnavailable, ClusterRefusal) as error:
                _log.warning("pull secrets are written later", extra={"reason": str(error)})
                self._changed.set()
                await asyncio.sleep(pause)
                pause = min(pause * 2, _MAX_PAUSE)

    async def refresh(self) -> None:
        """Writes the present login into all Secrets with an outdated login of the same registry."""
        registry = self._registry
        if registry is None or (login := registry.pull_login or registry.login) is None:
            return
        host = parse_ref(registry.name_of(WINDLASS_PREFIX)).host
        data = _data(host, login)
        selector = f"{names.selector(self._options.installation)},{names.REGISTRY}={_label_of(host)}"
        await self._cache.synced(_MAX_PAUSE)
        for namespace in sorted({each.metadata.namespace for each in self._cache.controllers()}):
            path = paths.secrets(namespace)
            for each in (await self._api.get(path, ObjectList, {"labelSelector": selector})).items:
                if each.annotation(names.DIGEST) != manifests.digest(data):
                    await self._rewrite(f"{path}/{each.metadata.name}", data)

    async def _rewrite(self, path: str, data: Mapping[str, str]) -> None:
        change = {"metadata": {"annotations": {names.DIGEST: manifests.digest(data)}}, "data": data}
        try:
            await self._api.patch(path, change, KubeObject)
        except ClusterRefusal as refused:
            if not refused.is_absent:  # its service was deleted
                raise


def _label_of(host: str) -> str:
    return hashlib.sha256(host.encode()).hexdigest()[:16]


def _data(host: str, login: RegistryLogin) -> Mapping[str, str]:
    return manifests.pull_data(_DOCKER_HUB_AUTH if host == "docker.io" else host, login)
