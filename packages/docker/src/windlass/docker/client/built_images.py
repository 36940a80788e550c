"""Pushes built images to a registry, and pulls them from there if the engine has lost them.

The login of the installation's registry belongs to the operator. It is only sent to the installation's own
engine, never to the engine of a cluster, which belongs to an organization.
"""

from __future__ import annotations

from typing import Final, Protocol

from windlass.docker.client.answers import EngineRefused
from windlass.docker.client.client import Docker
from windlass.docker.client.images import image, pull, push
from windlass.engines.image_names import WINDLASS_PREFIX
from windlass.engines.registries import BuildRegistry, parse_ref

SERVICE_LABEL: Final = "windlass.service"
KEY_LABEL: Final = "windlass.key"


class PushRecord(Protocol):
    """Remembers the digests of pushed builds by their names on the engine."""

    async def get(self, ref: str) -> str: ...

    async def record(self, ref: str, digest: str) -> None: ...

    async def forget(self, ref: str) -> None: ...


class BuiltImages:
    def __init__(self, docker: Docker, registry: BuildRegistry | None) -> None:
        self._docker = docker
        self.registry = registry
        self.pushed: PushRecord | None = None
        """For a registry to which others may push, too. Then only images with a recorded digest are fetched
        from there."""

    async def send(self, ref: str) -> str:
        """Pushes a built image to the registry, if a registry is configured. Returns the reason of a failure;
        empty on success."""
        if self.registry is None:
            return ""
        remote = self.registry.name_of(ref)
        try:
            await self._tag(ref, remote)
            if self.pushed:
                await self.pushed.forget(ref)
            digest = await push(self._docker, remote, self.registry.login)
            if self.pushed:
                await self.pushed.record(ref, digest)
        except EngineRefused as refused:
            return refused.message
        finally:
            await self.untag(remote)
        return ""

    async def fetch(self, ref: str) -> bool:
        """Pulls a built image that the engine does not have. Returns whether the registry had the image."""
        if self.registry is None or not ref.startswith(WINDLASS_PREFIX):
            return False
        remote = self.registry.name_of(ref)
        if self.pushed:
            if not (digest := await self.pushed.get(ref)):
                return False
            remote = f"{parse_ref(remote).name}@{digest}"
        try:
            await pull(self._docker, remote, self.registry.login)
        except EngineRefused:
            return False
        try:
            if not await self._is_build_of(remote, ref):
                return False
            await self._tag(remote, ref)
        finally:
            await self.untag(remote)
        return True

    async def _is_build_of(self, remote: str, ref: str) -> bool:
        """Returns whether the image's labels match the service and the key in its name."""
        labels = ((await image(self._docker, remote) or {}).get("Config") or {}).get("Labels") or {}
        named = parse_ref(ref)
        return (labels.get(SERVICE_LABEL), labels.get(KEY_LABEL)) == (
            named.name.removeprefix(WINDLASS_PREFIX),
            named.tag,
        )

    async def _tag(self, ref: str, other: str) -> None:
        named = parse_ref(other)
        params = {"repo": named.name, "tag": named.tag}
        await self._docker.raw("POST", f"/images/{ref}/tag", params=params)

    async def untag(self, ref: str) -> None:
        """Removes a name of an image. Succeeds if there is none, or if a container uses it."""
        try:
            await self._docker.raw("DELETE", f"/images/{ref}", params={"noprune": True})
        except EngineRefused as refused:
            if refused.status not in (404, 409):
                raise
