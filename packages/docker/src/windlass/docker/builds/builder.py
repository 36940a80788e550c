"""Builds images with a Docker engine, from the files of a commit and its Dockerfile.

Uses BuildKit if the engine supports it, otherwise the classic builder; the build log reports which. Images
are found by tag and labels. A failed build leaves only BuildKit's cache, whose size the engine's settings
limit. `guard` decides what a Dockerfile may do.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from ipaddress import IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

from msgspec import Struct
from msgspec.structs import replace

from windlass.base import subprocesses
from windlass.base.bounded import BoundedCalls
from windlass.base.dockerignore import DOCKERIGNORE
from windlass.base.log import log
from windlass.builders.builder import BuildError, BuilderUnavailable, Order, Say
from windlass.builders.detecting import bounded_detection, read_order
from windlass.docker.builds import engine_version
from windlass.docker.builds.build_network import BuildNetworks
from windlass.docker.builds.build_turns import BuildOwner, BuildTurns
from windlass.docker.builds.context import packing
from windlass.docker.builds.engine_turn import EngineTurn
from windlass.docker.builds.expansion import inherited
from windlass.docker.builds.guard import (
    SCOPE_ARGUMENT,
    Around,
    Rewritten,
    by_digest,
    check_image,
    is_plain_image,
    rewritten,
)
from windlass.docker.builds.image_metadata import NOTES_LABEL, notes_of, parse_exposed
from windlass.docker.builds.leftover_steps import LeftSteps
from windlass.docker.builds.progress import BuildProgress, parts_of
from windlass.docker.builds.step_labels import label_names
from windlass.docker.builds.step_scores import raised_scores
from windlass.docker.builds.step_usage import measured
from windlass.docker.client import Away, Docker, EngineRefused
from windlass.docker.client.answers import REFUSED_PREFIX, AnswerTooLong
from windlass.docker.client.built_images import KEY_LABEL, SERVICE_LABEL, BuiltImages
from windlass.docker.client.client import Pace
from windlass.docker.client.disk_room import keeping_reserve
from windlass.docker.client.engine_memory import PullBackoff
from windlass.docker.client.image_limits import why_unfit
from windlass.docker.client.images import ask_registry, has_digest, image, is_undecided, pull, why_not_pulled
from windlass.docker.client.pulled_images import NOTES_FOLDER, ImageUser, PulledImages
from windlass.docker.client.subnets import SubnetsUsedUp
from windlass.engines.image_names import WINDLASS_PREFIX
from windlass.engines.registries import BuildRegistry
from windlass.engines.workload import MAX_EXPOSED_PORTS, Artifact

if TYPE_CHECKING:
    from windlass.docker.builds.recipes import ChosenDockerfile

INSTALLATION_LABEL: Final = "windlass.installation"
CPU_PERIOD_MICROSECONDS: Final = 100_000
MEGABYTE: Final = 1024 * 1024
HEREDOCS_SINCE: Final = 23
"""First Docker version whose built-in Dockerfile parser supports heredocs."""
MAX_GIVEN_IMAGES: Final = 10_000
"""Maximum number of entries in `_given`."""
MAX_INTERRUPTED_SERVICES: Final = 10_000
"""Maximum number of entries in `_interrupted`."""
WAIT_NOTICE_SECONDS: Final = 1.0
"""Seconds of waiting for BuildKit after which the build log reports the wait."""
MAX_OUTPUT_BYTES_PER_SECOND: Final = 1024 * 1024
"""Maximum rate at which the output of a build is read, in bytes per second. Faster steps are slowed down by
back-pressure."""
_MESSAGE_BYTES: Final = 256
"""The bytes that a message of the engine counts besides its text: short ones cost time, too."""
UNNAMED_IMAGE: Final = "<none>:<none>"
"""Name that older engines report for an unnamed image."""

SERVICE_ID_LENGTH: Final = 36
"""Length of a service id in characters."""
_OF_IDS: Final = "0123456789abcdef-"

_MAX_MEMORY: Final = 2048
"""MiB of memory of a build."""
_MAX_CPU: Final = 2000
"""Processor time of a build, in thousandths of a core."""
_TAG_PATTERN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_log = log("builders.docker")


class _ImageSummary(TypedDict):
    Id: str
    RepoTags: list[str] | None
    Labels: dict[str, str]


class _LayerOrigin(Struct, rename="pascal"):
    """An entry of an image's history: the step that created a layer, and the tags of that layer."""

    created_by: str = ""
    tags: list[str] | None = None


class _Read(Struct, frozen=True):
    chosen: ChosenDockerfile
    """The Dockerfile before `guard` rewrites it."""
    around: Around
    guarded: Rewritten


class DockerBuilder:
    makes: Literal["native", "image"] = "image"

    def __init__(
        self,
        *,
        host: str | Docker,
        installation: str,
        buildkit: bool | None = None,
        registry: BuildRegistry | None = None,
        calls: BoundedCalls | None = None,
        pool: IPv4Network | None = None,
        folder: Path,
        disk_reserve: int = 0,
    ) -> None:
        """`installation`: id that distinguishes this installation's images on a shared engine. `buildkit`:
        whether to use BuildKit; None lets the engine decide. `registry`: receives built images. `calls`:
        reads the files of commits. `pool`: the subnets of build networks. `folder`: the engine's data
        folder. `disk_reserve`: bytes of the engine's disk to keep free, if it is a disk of this machine."""
        self._docker = host if isinstance(host, Docker) else Docker(host, disk_reserve=disk_reserve)
        self.built = BuiltImages(self._docker, registry)
        self._calls = calls or bounded_detection()
        self._installation = installation
        self._buildkit = buildkit
        self._networks = BuildNetworks(self._docker, installation, pool)
        self._turns, self._engine_turn = BuildTurns(), EngineTurn(self._docker, installation)
        self._left_steps = LeftSteps(self._docker)
        self._backoff, self._pulled = PullBackoff(), PulledImages(self._docker, folder / NOTES_FOLDER)
        self._building: list[tuple[str, str]] = []
        self._given: dict[tuple[str, str], None] = {}
        """Ordered set of organizations and digest references that a registry has served to the
        organization."""
        self._interrupted: dict[str, None] = {}
        """Ordered set of services whose last build was interrupted because the engine became unavailable."""
        self._left: list[tuple[BuildProgress, str]] = []
        """Progress and scope of failed builds whose layers could not be removed, because the engine was
        unavailable."""

    async def stop(self) -> None:
        await self._docker.close()

    async def find(self, service: str, key: str) -> Artifact | None:
        with self._translate():
            if artifact := await self._artifact(service, key):
                return artifact
            return await self._artifact(service, key) if await self.built.fetch(_ref(service, key)) else None

    async def build(self, order: Order, write_line: Say) -> Artifact:
        if not _TAG_PATTERN.fullmatch(order.key):
            raise BuildError(f"{order.key!r} cannot name an image")
        self._building.append((order.service, order.key))
        try:
            with self._translate():
                return await self._build(order, write_line)
        finally:
            self._building.remove((order.service, order.key))

    async def discard(self, service: str) -> None:
        with self._translate():
            for metadata in await self._list_images(of=service):
                await self._forget(metadata, force=True)
            await self._pulled.discard(service)

    async def prune(self, service: str, kept_keys: Collection[str]) -> None:
        with self._translate():
            for metadata in await self._list_images(of=service):
                if metadata["Labels"].get(KEY_LABEL, "") not in kept_keys:
                    await self._forget(metadata)
            await self._pulled.keep(service, "run", kept_keys)

    async def services(self) -> Collection[str]:
        with self._translate():
            return {*await self._image_services(), *await self._pulled.services()}

    async def set_aside(self, service: str, destination: Path) -> None:
        """Does nothing: images stay on the engine, where nothing starts them."""

    async def put_back(self, service: str, source: Path) -> None:
        """Does nothing: `set_aside` moved nothing."""

    async def sweep(self, deleted_services: Collection[str]) -> None:
        with self._translate():
            left, self._left = self._left, []
            for progress, scope in left:
                await self._remove_layers(progress, scope)
            await self._networks.sweep()
            await self._engine_turn.sweep()
            # A later build with the same key takes over the name, and leaves the old image unnamed.
            unused = await self._list_images(dangling=True)
            for service in deleted_services:
                unused += await self._list_images(of=service)
                await self._pulled.discard(service)
            for metadata in unused:
                labels = metadata["Labels"]
                if (labels.get(SERVICE_LABEL, ""), labels.get(KEY_LABEL, "")) not in self._building:
                    await self._forget(metadata)

    async def _build(self, order: Order, write_line: Say) -> Artifact:
        kit = await self._has_buildkit() if self._buildkit is None else self._buildkit
        read = await self._read(order, kit)
        if kit and not await self._is_free(order) and (plain := await self._read_plain(order, write_line)):
            write_line("BuildKit builds one service at a time, and is not free")
            try:
                return await self._make(order, plain, write_line, uses_buildkit=False, is_limited=False)
            except BuildError as error:
                if order.service in self._interrupted:
                    raise
                write_line(f"{error}. BuildKit tries again: builds of others must not decide about this one")
        return await self._make(order, read, write_line, uses_buildkit=kit, is_limited=not kit)

    async def _make(
        self, order: Order, read_dockerfile: _Read, write_line: Say, *, uses_buildkit: bool, is_limited: bool
    ) -> Artifact:
        for line in (_default_shell(uses_buildkit), *read_dockerfile.chosen.lines):
            write_line(line)
        chosen, arguments = await self._check_bases(order, read_dockerfile, write_line)
        order = replace(order, arguments=arguments)
        scope = self._cache_scope(order)
        progress = BuildProgress(write_line, scope)
        async with self._lock_network(order, uses_buildkit, write_line) as network, AsyncExitStack() as undo:
            undo.push_async_callback(lambda: asyncio.shield(self._remove_layers(progress, scope)))
            options = self._build_options(order, chosen, uses_buildkit, is_limited=is_limited)
            with self._retry_interrupted(order.service):
                async with measured(self._docker, network, order.usage, uses_buildkit=uses_buildkit):
                    await self._send(chosen, {**options, "networkmode": network}, progress)
            undo.pop_all()
        if progress.error:
            await self._remove_layers(progress, scope)
            raise BuildError(progress.failure)
        await self._refuse_unfit(_ref(order.service, order.key))
        artifact = await self._artifact(order.service, order.key, write_line)
        if artifact is None:
            raise BuildError(
                "Deploy again: the Docker engine ended the build without an image, and gave no reason"
            )
        await self._pulled.keep(order.service, "build", read_dockerfile.guarded.images)
        if why := await self.built.send(artifact.ref):
            write_line(f"The image stays on the Docker engine alone: the registry did not take it: {why}")
        return artifact

    async def _read(self, order: Order, uses_buildkit: bool) -> _Read:
        # Imported at the first build: the module loads all frameworks, which would delay the start.
        from windlass.docker.builds.recipes import choose_dockerfile  # noqa: PLC0415

        version = await self._docker.json("GET", "/version")
        has_caches = uses_buildkit and not engine_version.trusts_devices(version)
        chosen = await read_order(self._calls, choose_dockerfile, order, has_caches)
        around = self._around(order, chosen, uses_buildkit, version)
        return _Read(chosen, around, await _rewrite_file(chosen, around))

    async def _read_plain(self, order: Order, write_line: Say) -> _Read | None:
        """Returns the Dockerfile if the classic builder certainly creates the same image as BuildKit;
        otherwise None."""
        try:
            read = await self._read(order, uses_buildkit=False)
        except BuildError:
            return None
        # With BuildKit, <Dockerfile>.dockerignore replaces .dockerignore.
        files = read.chosen.files
        has_own_ignore = (files.folder / f"{files.dockerfile}{DOCKERIGNORE}").exists()
        if has_own_ignore or not read.guarded.is_plain:
            return None
        bases = [await self._base_image(ref, order, read.around, write_line) for ref in read.guarded.images]
        return read if all(map(is_plain_image, bases)) else None

    async def _check_bases(
        self, order: Order, read_dockerfile: _Read, write_line: Say
    ) -> tuple[ChosenDockerfile, Mapping[str, str]]:
        """Checks the base images. Returns the Dockerfile to send, with image names pinned to the checked
        digests, and the build arguments."""
        digests, bases = {}, []
        for ref in read_dockerfile.guarded.images:
            base = await self._base_image(ref, order, read_dockerfile.around, write_line)
            digests[ref] = by_digest(ref, base)
            bases.append(base)
        around = replace(
            read_dockerfile.around,
            digests=digests,
            inherited=inherited(bases),
            has_volumes=any(map(engine_version.has_volumes, bases)),
            labels=label_names(read_dockerfile.guarded.images, bases),
        )
        guarded = await _rewrite_file(read_dockerfile.chosen, around)
        if guarded.leaves_out_caches:
            write_line(f"Cache mounts of RUN are left out. To use them, {engine_version.UPDATE}")
        files = replace(read_dockerfile.chosen.files, text=guarded.text)
        return replace(read_dockerfile.chosen, files=files), guarded.arguments

    @asynccontextmanager
    async def _lock_network(self, order: Order, uses_buildkit: bool, write_line: Say) -> AsyncIterator[str]:
        """Yields the network for a build's steps. Waits until no step of another service uses it."""
        if not uses_buildkit:
            async with self._networks.made() as network:
                yield network
            return
        async with AsyncExitStack() as turn:
            waits = "Waiting for BuildKit: it builds one service at a time, and another one has the turn"
            notice = asyncio.get_running_loop().call_later(WAIT_NOTICE_SECONDS, write_line, waits)
            try:
                with order.paused():
                    await turn.enter_async_context(
                        self._turns.of(BuildOwner(order.org, order.service, order.environment))
                    )
                    await turn.enter_async_context(self._engine_turn.of(order.service))
                    notice.cancel()
                    await turn.enter_async_context(self._left_steps.absent(write_line))
            finally:
                notice.cancel()
            await turn.enter_async_context(raised_scores(self._docker.host))
            yield "default"

    async def _is_free(self, order: Order) -> bool:
        owner = BuildOwner(order.org, order.service, order.environment)
        return (
            self._turns.is_free(owner)
            and await self._engine_turn.is_free(order.service)
            and not await self._left_steps.are_there()
        )

    @contextmanager
    def _retry_interrupted(self, service: str) -> Iterator[None]:
        """Lets an interrupted build be repeated once. The first interruption, usually a restart of the
        engine, raises Away, after which the build is repeated. The second one raises BuildError: the build
        itself may crash the engine, and would do so at every deployment."""
        again = service in self._interrupted
        try:
            yield
        except Away as away:
            if again:
                raise BuildError(
                    "Ask the operator why the Docker engine stops, and deploy again when it runs: it went "
                    "away during two builds of this service, which are not repeated, because they may be the "
                    "reason"
                ) from away
            self._interrupted[service] = None
            if len(self._interrupted) > MAX_INTERRUPTED_SERVICES:
                del self._interrupted[next(iter(self._interrupted))]
            raise
        self._interrupted.pop(service, None)

    async def _send(
        self, dockerfile: ChosenDockerfile, params: Mapping[str, Any], progress: BuildProgress
    ) -> None:
        pace = Pace(MAX_OUTPUT_BYTES_PER_SECOND)
        async with packing(dockerfile.files) as parcel:
            try:
                async with (
                    keeping_reserve(self._docker),
                    self._docker.stream(
                        "POST", "/build", params=params, data=parcel.pieces(), timeout=None
                    ) as answer,
                ):
                    async for message in answer.objects():
                        for part in parts_of(message):
                            progress.take(part)
                            await asyncio.sleep(0)
                        await pace.keep(_MESSAGE_BYTES + len(str(message.get("stream", ""))))
            except Away as away:
                raise parcel.failure() or away from away
        progress.close()

    def _build_options(
        self, order: Order, dockerfile: ChosenDockerfile, uses_buildkit: bool, *, is_limited: bool
    ) -> dict[str, Any]:
        """Returns the build options. BuildKit does not support limits through this API. On an engine with
        BuildKit, the classic builder gets no limits either, so that success does not depend on the
        builder."""
        return {
            "t": _ref(order.service, order.key),
            "dockerfile": dockerfile.files.dockerfile,
            "buildargs": dict(order.arguments),
            "labels": {
                INSTALLATION_LABEL: self._installation,
                SERVICE_LABEL: order.service,
                KEY_LABEL: order.key,
                # Even if it is empty, so that the repository's Dockerfile cannot set the label.
                NOTES_LABEL: dockerfile.notes.written(),
            },
            "target": dockerfile.stage or None,
            "version": "2" if uses_buildkit else "1",
            "rm": True,
            "forcerm": True,
            "nocache": not order.uses_cache,
            **(limits_of(order) if is_limited else {}),
        }

    async def _has_buildkit(self) -> bool:
        """Returns whether the engine builds with BuildKit. Returns False if BuildKit is disabled (builder
        version 1), or if the engine is not Docker."""
        headers = {name.lower(): value for name, value in (await self._docker.ping()).items()}
        return headers.get("server", "").startswith("Docker/") and headers.get("builder-version") != "1"

    def _around(
        self, order: Order, dockerfile: ChosenDockerfile, uses_buildkit: bool, version: Mapping[str, Any]
    ) -> Around:
        return Around(
            service=order.service,
            scope=self._cache_scope(order),
            arguments=order.arguments,
            platform=engine_version.platform_arguments(version),
            heredocs=uses_buildkit and engine_version.major_version(version) >= HEREDOCS_SINCE,
            stage=dockerfile.stage,
            refuses_mounts=engine_version.trusts_devices(version),
            refuses_volumes=engine_version.trusts_devices(version) and not uses_buildkit,
            hides_labels=not uses_buildkit,
        )

    def _cache_scope(self, order: Order) -> str:
        named = f"{self._installation}/{order.service}/{order.cache_secret}"
        return hashlib.sha256(named.encode()).hexdigest()[:32]

    async def _base_image(self, ref: str, order: Order, context: Around, write_line: Say) -> dict[str, Any]:
        """Returns the metadata of a base image that the service may use, after pulling it if necessary.

        The use is noted only now: a name that is refused may be the id of another organization's image, which
        would be removed with the note."""
        user = ImageUser(order.service, order.org, "build")
        metadata = await self._find_or_pull_image(ref, user, write_line)
        check_image(ref, metadata, order.service, SERVICE_LABEL, context.platform["TARGETPLATFORM"])
        await self._pulled.note_use(user, ref, str(metadata["Id"]))
        return metadata

    async def _find_or_pull_image(self, ref: str, user: ImageUser, write_line: Say) -> dict[str, Any]:
        """Returns the metadata of an image, after pulling it if necessary.

        The engine pulls the image, not BuildKit: BuildKit could not log in here, and its error messages are
        less clear. If an image is referenced by digest, it may be on the engine because another organization
        has pulled it with credentials. The registry is therefore asked each time whether this organization
        may pull it. If the registry is unavailable, an image that it has served to the organization before is
        used."""
        org, metadata = user.org, await image(self._docker, ref)
        if metadata and not has_digest(ref):
            return metadata
        write_line(f"Pulling {ref}")
        try:
            # Pulling a digest that the engine already has would not contact the registry.
            with self._backoff.of(org):
                await (ask_registry if metadata else pull)(self._docker, ref)
        except EngineRefused as refused:
            why, is_unavailable = why_not_pulled(ref, refused.message), is_undecided(refused.message)
            if not (metadata and is_unavailable and (org, ref) in self._given):
                self._given.pop((org, ref), None)
                raise BuildError(why) from refused
            write_line(f"The image that the Docker engine has is used. {why}")
            return metadata
        if has_digest(ref):
            self._given[org, ref] = None
            if len(self._given) > MAX_GIVEN_IMAGES:
                del self._given[next(iter(self._given))]
        if metadata is None:
            if (metadata := await image(self._docker, ref)) is None:
                raise BuildError(
                    f"Deploy again: the image {ref} was removed from the Docker engine meanwhile"
                )
            await self._pulled.note_pull(user, ref, str(metadata["Id"]))
        return metadata

    async def _artifact(self, service: str, key: str, write_line: Say | None = None) -> Artifact | None:
        ref = _ref(service, key)
        metadata = await image(self._docker, ref)
        if metadata is None:
            return None
        config = metadata.get("Config") or {}
        ports, others = parse_exposed(config.get("ExposedPorts") or {})
        if write_line and others:
            write_line(f"EXPOSE {others[0][:40]} is not published: it is no TCP or UDP port")
        if write_line and len(ports) > MAX_EXPOSED_PORTS:
            write_line(
                f"Add those that the service needs to `ports`: EXPOSE names {len(ports)} ports, and the "
                f"lowest {MAX_EXPOSED_PORTS} are published"
            )
        artifact = Artifact(kind="image", ref=ref, key=key, ports=tuple(ports[:MAX_EXPOSED_PORTS]))
        return notes_of(config.get("Labels") or {}).added_to(artifact)

    async def _refuse_unfit(self, ref: str) -> None:
        """Removes a newly built image, and raises BuildError, if its metadata exceeds the limits."""
        try:
            why = why_unfit(await image(self._docker, ref) or {})
        except AnswerTooLong:
            why = (
                "Expose fewer ports, or shorten labels and variables: the description of the image is too "
                "long"
            )
        if why:
            await self._delete(f"/images/{ref}", force=True)
            raise BuildError(why)

    async def _list_images(self, *, of: str = "", dangling: bool = False) -> list[_ImageSummary]:
        """Returns images of this installation, either by service id pattern (`of`), or unnamed (`dangling`).
        One list of all images could be too long, because the engine includes all labels of each image."""
        chosen = {"dangling": ["true"]} if dangling else {"reference": [f"{WINDLASS_PREFIX}{of}"]}
        params = {"filters": {"label": [f"{INSTALLATION_LABEL}={self._installation}"], **chosen}}
        return list(await self._docker.read_list("/images/json", list[_ImageSummary], params=params))

    async def _image_services(self, prefix: str = "") -> set[str]:
        """Returns the ids of services with images, filtered by an id prefix. Splits the query by longer
        prefixes if the answer is too long."""
        try:
            images = await self._list_images(of=f"{prefix}*")
        except AnswerTooLong:
            if len(prefix) >= SERVICE_ID_LENGTH:
                raise
            parts = [await self._image_services(prefix + character) for character in _OF_IDS]
            return set().union(*parts)
        return {service for metadata in images if (service := metadata["Labels"].get(SERVICE_LABEL))}

    async def _forget(self, metadata: _ImageSummary, *, force: bool = False) -> None:
        for name in _tags_of(metadata) or [metadata["Id"]]:
            await self._delete(f"/images/{name}", force)

    async def _remove_layers(self, progress: BuildProgress, scope: str) -> None:
        """Removes the layers of a failed build by the classic builder. Deletes the last layer first, because
        each layer depends on the previous one."""
        try:
            for layer in reversed(progress.named):
                if await self._is_layer_of(scope, layer):
                    await self._delete(f"/images/{layer}")
        except Away:
            self._left.append((progress, scope))

    async def _is_layer_of(self, scope: str, layer: str) -> bool:
        """Returns whether an unnamed image was created by builds with this scope. The build log alone does
        not prove that, because a build step can print ids of other images."""
        try:
            history = await self._docker.read_list(f"/images/{layer}/history", list[_LayerOrigin])
        except EngineRefused:
            return False
        is_named = bool(history and history[0].tags)
        return not is_named and any(
            f"ARG {SCOPE_ARGUMENT}={scope}" in origin.created_by for origin in history
        )

    async def _delete(self, path: str, force: bool = False) -> None:
        try:
            await self._docker.raw("DELETE", path, params={"force": force})
        except EngineRefused as refused:
            # 404: already deleted. 409: used by a container or another image; a later sweep tries
            # again.
            if refused.status not in (404, 409):
                raise

    @contextmanager
    def _translate(self) -> Iterator[None]:
        try:
            yield
        except Away as away:
            raise BuilderUnavailable(self._docker.advice(away)) from away
        except SubnetsUsedUp as used_up:
            raise BuildError(str(used_up)) from used_up
        except EngineRefused as refused:
            raise BuildError(f"{REFUSED_PREFIX}: {refused.message}") from refused


async def _rewrite_file(dockerfile: ChosenDockerfile, build_context: Around) -> Rewritten:
    text = dockerfile.files.text.decode(errors="surrogateescape")
    return await subprocesses.in_thread(rewritten, text, build_context)


def _ref(service: str, key: str) -> str:
    return f"{WINDLASS_PREFIX}{service}:{key}"


def _tags_of(metadata: _ImageSummary) -> list[str]:
    return [name for name in metadata["RepoTags"] or () if name != UNNAMED_IMAGE]


def _default_shell(uses_buildkit: bool) -> str:
    if uses_buildkit:
        return "Building with BuildKit"
    return "Building with the classic builder, without BuildKit: it does not support RUN --mount"


def limits_of(order: Order) -> dict[str, int]:
    """Returns the limits of a build. An order may lower the usual ones, and not raise them: the memory is
    that of all services of the machine."""
    memory = min(order.memory, _MAX_MEMORY) * MEGABYTE
    return {
        "memory": memory,
        "memswap": memory,
        "cpuperiod": CPU_PERIOD_MICROSECONDS,
        "cpuquota": min(order.cpu, _MAX_CPU) * CPU_PERIOD_MICROSECONDS // 1000,
    }
