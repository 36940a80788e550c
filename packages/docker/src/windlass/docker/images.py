"""Images of instances: resolves tags, and pulls images that are not on the engine.

Images are pulled by digest, so they have no tag on the engine: a service cannot find by tag an image that was
pulled with another service's login. Only the operator puts tagged images on the engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.docker.client import Docker, EngineRefused
from windlass.docker.client.built_images import SERVICE_LABEL, BuiltImages
from windlass.docker.client.engine_memory import PullBackoff
from windlass.docker.client.images import ask_registry, image, pull, why_not_pulled
from windlass.docker.client.pulled_images import ImageUser, PulledImages
from windlass.engines.engine import ArtifactLost, EngineError, Say
from windlass.engines.image_names import NOT_ITS_OWN, is_named_by_id, is_ours
from windlass.engines.registries import BuildRegistry, ImageRef, PullRequest, RegistryLogin, parse_ref


def _ignore_line(line: str) -> None:
    """Discards a log line."""


class DockerImages:
    def __init__(self, docker: Docker, pulled: PulledImages, registry: BuildRegistry | None = None) -> None:
        """`registry`: the registry for built images, if configured."""
        self._docker, self._pulled = docker, pulled
        self._built = BuiltImages(docker, registry)
        self._backoff = PullBackoff()

    async def resolve(self, request: PullRequest, write_line: Say) -> str:
        """Resolves a tag to a digest reference. Returns the reference unchanged for an image that only exists
        on the engine."""
        own = None if request.is_registered else await self._local_image(request.ref)
        if own and not own.get("RepoDigests"):
            return request.ref  # the operator has created it locally; it is not in a registry
        try:
            with self._backoff.of(request.org):
                digest = await ask_registry(self._docker, request.ref, request.login)
        except EngineRefused as refused:
            why = why_not_pulled(request.ref, refused.message, has_login=request.login is not None)
            if own is None:
                raise EngineError(why) from refused
            write_line(f"The image that the Docker engine has is used. {why}")
            return _digest_reference(own, request.ref)
        return str(ImageRef(parse_ref(request.ref).name, digest=digest))

    async def have(
        self,
        ref: str,
        write_line: Say = _ignore_line,
        login: RegistryLogin | None = None,
        user: ImageUser | None = None,
    ) -> Mapping[str, Any]:
        """Ensures that an image is on the engine, and returns its metadata. Records the `user` of a pulled
        image, so that the image is removed once no service uses it."""
        if inspection := await self._local_image(ref):
            if user and not is_ours(ref):
                await self._pulled.note_use(user, ref, str(inspection.get("Id")))
            return inspection
        if await self._built.fetch(ref):
            return await image(self._docker, ref) or {}
        if is_ours(ref):
            raise ArtifactLost("Deploy again: the image of this release is no longer on the Docker engine")
        write_line(f"Pulling {ref}")
        try:
            with self._backoff.of(user.org if user else ""):
                await pull(self._docker, ref, login)
        except EngineRefused as refused:
            why = why_not_pulled(ref, refused.message, has_login=login is not None)
            if login is None and parse_ref(ref).digest:  # a new deployment pulls it with the service's login
                raise ArtifactLost(f"The image is no longer on the Docker engine. {why}") from refused
            raise EngineError(why) from refused
        if user and (id := str((await image(self._docker, ref) or {}).get("Id", ""))):
            await self._pulled.note_pull(user, ref, id)
        return await self._local_image(ref) or {}

    async def _local_image(self, ref: str) -> Mapping[str, Any] | None:
        """Returns the metadata of an image if the engine has it under this name. Raises EngineError for an
        image id, and for images that Windlass built for a service."""
        inspection = await image(self._docker, ref)
        if inspection and is_named_by_id(ref, str(inspection.get("Id", ""))):
            raise EngineError("Name the image by its name and tag: an image cannot be named by its id")
        # Checked by label, because the installation's registry may have further addresses.
        if inspection and not is_ours(ref) and _is_built(inspection):
            raise EngineError(f"Name another image than {ref}: {NOT_ITS_OWN}")
        return inspection


def _is_built(inspection: Mapping[str, Any]) -> bool:
    return SERVICE_LABEL in ((inspection.get("Config") or {}).get("Labels") or {})


def _digest_reference(inspection: Mapping[str, Any], ref: str) -> str:
    """Returns the digest reference with which a local image was pulled; the unchanged reference if
    unknown."""
    name = parse_ref(ref).name
    digests = [str(entry) for entry in inspection.get("RepoDigests") or ()]
    return next((entry for entry in digests if parse_ref(entry).name == name), ref)
