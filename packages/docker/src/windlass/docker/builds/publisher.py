"""Builds images with a Docker engine for engines that cannot build, and pushes them to a registry.

A published image is named by its digest, so that each start of a release, and each rollback to it, uses the
same image, whatever is pushed under its tag later. The engine computes the digest from its build: an image
that others have pushed under the name of a build is never used.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

from msgspec.structs import replace

from windlass.base.subprocesses import in_thread
from windlass.builders.builder import BuildError, BuilderUnavailable, Order, Say
from windlass.docker.builds.builder import DockerBuilder
from windlass.docker.builds.published_digests import PublishedDigests
from windlass.docker.builds.registry_access import RegistryAccess
from windlass.docker.client import Away, Docker, EngineRefused
from windlass.docker.client.images import ask_registry, is_undecided, pull, why_not_pulled
from windlass.docker.export import export_folder
from windlass.engines.engine import EngineError, EngineUnavailable
from windlass.engines.registries import BuildRegistry, parse_ref
from windlass.engines.workload import Artifact

_UNIX: Final = "unix://"
_NO_REGISTRY: Final = (
    "Choose a registry for the images of the cluster (registry_id of a connected cluster, or the server "
    "setting registry), and deploy again: its nodes pull the images that Windlass builds from there"
)
_NO_ENGINE: Final = (
    "Ask the operator to install Docker on the machine of Windlass, or to set docker_host: a Docker engine "
    "builds the images for this cluster, and none is there"
)


class DockerPublisher:
    makes: Literal["native", "image"] = "image"

    def __init__(
        self,
        docker: Docker,
        builder: DockerBuilder,
        installation: str,
        digests: PublishedDigests,
        access: RegistryAccess,
    ) -> None:
        """`builder`: the builder of the same engine. `access`: decides which registries the engine may
        call."""
        self._docker, self._builder, self._installation = docker, builder, installation
        self._digests, self._access = digests, access
        builder.built.pushed = digests

    @property
    def registry(self) -> BuildRegistry | None:
        return self._builder.built.registry

    def use(self, registry: BuildRegistry | None) -> None:
        self._builder.built.registry = registry

    async def stop(self) -> None:
        await self._builder.stop()

    async def find(self, service: str, key: str) -> Artifact | None:
        registry = self.registry
        if registry is None or not await self._has_engine():
            return None
        await self._check_access(registry)
        artifact = await self._builder.find(service, key)
        return await self._publish(artifact, registry) if artifact else None

    async def build(self, order: Order, write_line: Say) -> Artifact:
        registry = self.registry
        if registry is None:
            raise BuildError(_NO_REGISTRY)
        if not await self._has_engine():
            raise BuildError(_NO_ENGINE)
        await self._check_access(registry)
        published = await self._publish(await self._builder.build(order, write_line), registry)
        write_line(f"The cluster pulls {published.ref}")
        return published

    async def export(self, artifact: Artifact, folder: str, destination: Path) -> Path:
        if not await self._is_usable():
            raise EngineError(
                "Deploy again when Windlass has a Docker engine and a registry for this cluster: they are "
                "needed to read the files of a static site"
            )
        if why := await self._access.refusal(artifact.ref):
            raise EngineError(why)
        inside = posixpath.join(artifact.workdir or "/", folder)
        with self._translated_for_engines():
            await self._pull(artifact.ref)
            try:
                await export_folder(self._docker, self._installation, artifact.ref, inside, destination)
            finally:
                await self._builder.built.untag(artifact.ref)
        return destination

    async def discard(self, service: str) -> None:
        if await self._is_usable():
            await self._builder.discard(service)
        await self._digests.discard(service)

    async def prune(self, service: str, kept_keys: Collection[str]) -> None:
        if await self._is_usable():
            await self._builder.prune(service, kept_keys)
        await self._digests.prune(service, kept_keys)

    async def services(self) -> Collection[str]:
        built = await self._builder.services() if await self._is_usable() else ()
        return {*built, *await self._digests.services()}

    async def sweep(self, deleted_services: Collection[str]) -> None:
        if await self._is_usable():
            await self._builder.sweep(deleted_services)
        for service in deleted_services:
            await self._digests.discard(service)

    async def set_aside(self, service: str, destination: Path) -> None:
        """Does nothing: images stay where they are, and nothing starts them."""

    async def put_back(self, service: str, source: Path) -> None:
        """Does nothing: `set_aside` moved nothing."""

    async def _publish(self, artifact: Artifact, registry: BuildRegistry) -> Artifact:
        """Returns a built artifact under its name in the registry, with the digest of the build. Pushes the
        image unless the registry has exactly this one."""
        name = parse_ref(registry.name_of(artifact.ref)).name
        digest = await self._digests.get(artifact.ref)
        if not digest or not await self._has(f"{name}@{digest}", registry):
            with self._translated():
                if why := await self._builder.built.send(artifact.ref):
                    if is_undecided(why):
                        raise BuilderUnavailable(why_not_pulled(name, why))
                    raise BuildError(
                        f"Check the login and its rights at the registry {registry.prefix}, and deploy "
                        f"again: it did not take the image: {why}"
                    )
            digest = await self._digests.get(artifact.ref)
            if not await self._has(f"{name}@{digest}", registry):
                raise BuildError(
                    f"Ask the operator of the registry {registry.prefix} why it loses images, and deploy "
                    "again: it does not have the image that it has just taken"
                )
        return replace(artifact, ref=f"{name}@{digest}")

    async def _has(self, ref: str, registry: BuildRegistry) -> bool:
        """Returns whether the registry has an image with this digest."""
        with self._translated():
            try:
                await ask_registry(self._docker, ref, registry.login)
            except EngineRefused as refused:
                if is_undecided(refused.message):
                    raise BuilderUnavailable(why_not_pulled(ref, refused.message)) from refused
                return False
        return True

    async def _check_access(self, registry: BuildRegistry) -> None:
        if why := await self._access.refusal(f"{registry.prefix}/image"):
            raise BuildError(why)

    async def _pull(self, ref: str) -> None:
        login = self.registry.login if self.registry else None
        try:
            await pull(self._docker, ref, login)
        except EngineRefused as refused:
            raise EngineError(why_not_pulled(ref, refused.message, has_login=login is not None)) from refused

    async def _is_usable(self) -> bool:
        return self.registry is not None and await self._has_engine()

    async def _has_engine(self) -> bool:
        """Returns whether there may be an engine. One that is there and does not answer is unavailable."""
        host = self._docker.host
        return not host.startswith(_UNIX) or await in_thread(Path(host.removeprefix(_UNIX)).exists)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except Away as away:
            raise BuilderUnavailable(self._docker.advice(away)) from away

    @contextmanager
    def _translated_for_engines(self) -> Iterator[None]:
        try:
            yield
        except Away as away:
            raise EngineUnavailable(self._docker.advice(away)) from away
        except EngineRefused as refused:
            raise EngineError(f"Deploy again: the Docker engine refuses: {refused.message}") from refused
