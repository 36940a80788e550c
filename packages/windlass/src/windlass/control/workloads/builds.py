"""Builds a commit into an artifact, or reuses an earlier build of the same input."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from windlass.base import ids
from windlass.base.clock import stamp
from windlass.base.subprocesses import in_thread
from windlass.builders.builder import BuildError, BuildSettings, Order
from windlass.builders.dockerfile import declared_arguments
from windlass.builders.instructions import DockerfileError
from windlass.builders.small_files import read_small_text
from windlass.control.context.context import Context
from windlass.control.records.deployments import particulars
from windlass.control.records.past_deployments import newest_first
from windlass.control.workloads.build_input import BuildInput
from windlass.control.workloads.repositories import source_in
from windlass.control.workloads.uploads import commit_of, find_upload, unpack_upload
from windlass.control.workloads.work_folders import work_folder
from windlass.core.deploy.progress import BuildResult, BuiltArtifact, CommitRecord, PushedRef
from windlass.core.deploy.states import ACTIONS_WITH_BUILD, DeploymentPhase
from windlass.core.settings.values import AdvancedValues
from windlass.families.application import GIT_SOURCE, Application
from windlass.sources.git import GitCommit, GitSource
from windlass.sources.git.remote import Progress
from windlass.sources.upload import ID_DIGITS, UploadError
from windlass.store import Row

_MAX_SEARCHED_DEPLOYMENTS = 200
"""Number of past deployments that are searched for an earlier build."""
_ALL_VARIABLES = "*"
"""A name that stands for all declared variables except secrets, in a set of build argument names."""
_PROGRESS_PATTERN: Final = re.compile("remote: |Receiving objects: |Resolving deltas: ")
_ARTIFACT_FORMAT = 2
"""Version of the artifact format. Artifacts of an earlier version keep running, but are not reused for a
deployment."""


async def build(ctx: Context, build_input: BuildInput) -> BuiltArtifact:
    """Builds the commit of a deployment, or returns its earlier build.

    Raises BuildError or GitError with a message for users.
    """
    if (upload := await _upload_of(ctx, build_input)) is not None:
        return await _build_upload(ctx, build_input, upload)
    built = await _build_from_git(ctx, build_input)
    if pushed := particulars(build_input.deployment).pushed:
        await _move_branch(ctx, build_input, pushed)
    return built


async def _move_branch(ctx: Context, build_input: BuildInput, pushed_ref: PushedRef) -> None:
    """Moves the pushed branch to the commit that is built now. Raises BuildError if another push has moved
    it."""
    commit = particulars(build_input.deployment).git_commit_id
    assert commit is not None
    branch = pushed_ref.ref.removeprefix("refs/heads/")
    if not await ctx.pushed.move(build_input.service.id, pushed_ref.ref, pushed_ref.old, commit):
        raise BuildError(f"Push again after `git fetch`: another push has moved {branch} meanwhile")
    build_input.say(f"{branch} is at {commit[:12]} now")


async def _build_from_git(ctx: Context, build_input: BuildInput) -> BuiltArtifact:
    deployment, say = build_input.deployment, build_input.say
    source, branch = await _source_of(ctx, build_input)
    assert source.commit is not None
    if earlier := await _earlier_build(ctx, build_input, source.commit):
        return BuiltArtifact(*earlier, branch)
    async with AsyncExitStack() as held:
        folder = await held.enter_async_context(work_folder(ctx, deployment.id))
        say(f"Fetching commit {source.commit[:12]} of {source.url}")
        await ctx.point("about to fetch")
        commit = await held.enter_async_context(
            ctx.git.fetching(source, folder, build_input.service.id, partial(_say_remark, say))
        )
        await ctx.point("fetched")
        say(f"Fetched {commit.id[:12]}: {_first_line(commit)} ({commit.author_name})")
        record = commit_record(commit)
        build_input.fetched.commit, build_input.fetched.branch = record, branch
        result = await _build_commit(ctx, build_input, commit.id, folder)
        if build_input.cleanup is not None:
            build_input.cleanup.push_async_exit(held.pop_all())
    return BuiltArtifact(result, record, branch)


def _say_remark(progress: Progress, line: str) -> None:
    """Writes what was left out of a fetch to the build log, without the progress of git."""
    if not _PROGRESS_PATTERN.match(line):
        progress(line)


async def _upload_of(ctx: Context, build_input: BuildInput) -> Row | None:
    """Returns the upload of a deployment; None if the deployment is built from a repository."""
    asked, service = particulars(build_input.deployment).git_commit_id, build_input.service
    is_from_git = service.read(Application).source == GIT_SOURCE
    if is_from_git and (asked is None or len(asked) < ID_DIGITS):
        return None
    upload = await find_upload(ctx.store.reads, service.id, asked)
    if upload is None and not is_from_git:
        raise UploadError("Upload the folder again: this version of it is not kept any more")
    return upload


async def _build_upload(ctx: Context, build_input: BuildInput, upload: Row) -> BuiltArtifact:
    """Builds an uploaded folder, or returns its earlier build."""
    commit = commit_of(upload)
    if earlier := await _earlier_build(ctx, build_input, commit.git_commit_id):
        return BuiltArtifact(*earlier)
    async with work_folder(ctx, build_input.deployment.id) as folder:
        build_input.say(f"Unpacking {commit.git_commit_id[:12]}: {commit.message}")
        await unpack_upload(ctx, upload, folder)
        await ctx.point("fetched")
        build_input.fetched.commit = commit
        result = await _build_commit(ctx, build_input, commit.git_commit_id, folder)
    return BuiltArtifact(result, commit)


async def _source_of(ctx: Context, build_input: BuildInput) -> tuple[GitSource, str | None]:
    """Returns the commit to build, and its branch. Without a commit in the deployment, this is the branch's
    newest commit."""
    deployment = build_input.deployment
    asked = particulars(deployment).git_commit_id
    repository = build_input.service.read(Application).git_repository or None
    source = await source_in(ctx, ctx.store.reads, build_input.service, repository, asked)
    if source.token:
        ctx.logs.masks.add(deployment.id, [source.token])
    if asked is not None:
        return source, source.branch
    build_input.say(
        f"Looking for the newest commit of {source.branch or 'the default branch'} of {source.url}"
    )
    branch, newest = await ctx.git.head(source)
    return replace(source, commit=newest), branch


async def _build_commit(ctx: Context, build_input: BuildInput, commit: str, folder: Path) -> BuildResult:
    service, spec = build_input.service, build_input.service.read(Application)
    base = _base(service, commit)
    root = _place_of(spec)[1].strip("/") or "."
    dockerfile = spec.dockerfile_path or None
    settings = _settings_of(service)
    if settings.dockerfile_raw:
        dockerfile = await in_thread(_write_dockerfile, folder, root, settings.dockerfile_raw)
    names = await in_thread(_arguments_of, folder, f"{root}/{dockerfile or 'Dockerfile'}", settings)
    used = _chosen_arguments(build_input, names)
    values = _digest(used)
    advanced = AdvancedValues(service.body)
    order = Order(
        service=service.id,
        org=service.org,
        environment=service.parent,
        name=spec.name,
        deployment=build_input.deployment.id,
        key=_digest([base, values])[:40],
        commit=commit,
        source=folder,
        root=root,
        dockerfile=dockerfile,
        stage=spec.docker_target_build_stage or None,
        arguments=used,
        variables=frozenset(build_input.inputs.variables),
        settings=settings,
        cache_secret=cache_secret_of(ctx, service.id),
        paused=build_input.paused,
        cpu=advanced["build.cpu_max_in_milli"],
        memory=advanced["build.ram_max_in_gib"] * 1024,
        uses_cache=not advanced["build.disable_buildkit_cache"],
        usage=build_input.usage,
    )
    place = await ctx.places.of(service.id)
    artifact = await place.builder.find(service.id, order.key)
    if artifact is None:
        await ctx.point("about to build")
        build_input.say.begin(DeploymentPhase.BUILD)
        with ctx.meters.building():
            artifact = await place.builder.build(order, build_input.say)
    return BuildResult(artifact, base, tuple(sorted(names)), values)


def cache_secret_of(ctx: Context, service: str) -> str:
    return ctx.encryption.mark(b"cached steps", service.encode())


def _chosen_arguments(build_input: BuildInput, names: Collection[str]) -> dict[str, str]:
    """Returns the build arguments with these names, or all declared variables."""
    inputs = build_input.inputs
    chosen = inputs.declared if _ALL_VARIABLES in names else names
    return {name: value for name, value in inputs.arguments.items() if name in chosen}


def _arguments_of(source: Path, path: str, settings: BuildSettings) -> Collection[str]:
    """Returns the names of the build arguments that a Dockerfile declares.

    Steps of a detected recipe may read any variable. Errors in a Dockerfile are reported by the builder.
    """
    if settings.is_dockerfile_left_out:
        return {_ALL_VARIABLES}
    try:
        source, file = source.resolve(), (source / path).resolve()
        if not file.is_relative_to(source):  # some files of the machine, such as /proc/kmsg, never end
            return frozenset()
        if not file.exists():
            return {_ALL_VARIABLES}
        return declared_arguments(read_small_text(file))
    except (BuildError, DockerfileError, OSError, RuntimeError):  # for example an invalid file name
        return frozenset()


async def _earlier_build(
    ctx: Context, build_input: BuildInput, commit: str
) -> tuple[BuildResult, CommitRecord | None] | None:
    """Returns an earlier build of the same commit with the same settings and build arguments; None if there
    is none."""
    service = build_input.service
    base = _base(service, commit)
    place = await ctx.places.of(service.id)
    async for row in newest_first(ctx, service.id, _MAX_SEARCHED_DEPLOYMENTS):
        details = particulars(row)
        build = details.made
        if row.action not in ACTIONS_WITH_BUILD or build is None or build.base != base:
            continue
        values = _digest(_chosen_arguments(build_input, build.arguments))
        if build.values == values and await place.builder.find(service.id, build.artifact.key):
            build_input.say(f"This commit was built for deployment {row.number}: nothing to build")
            return build, details.commit
    return None


def _base(service: Row, commit: str) -> str:
    spec = service.read(Application)
    url, root_path = _place_of(spec)
    how = [spec.build_mode, spec.dockerfile_path or None, spec.docker_target_build_stage or None]
    inputs = _settings_of(service).inputs
    return _digest([_ARTIFACT_FORMAT, url, root_path, commit, how, inputs])


def _place_of(spec: Application) -> tuple[str, str]:
    """Returns the address of the repository, empty for uploads, and the application's folder in the
    repository or upload."""
    repository = spec.git_repository or None
    return (repository.url, repository.root_path or "/") if repository else ("", spec.root_path or "/")


class WrittenDockerfile(Struct):
    """The field of a service with the text of a Dockerfile."""

    dockerfile_raw: str = ""


def _settings_of(service: Row) -> BuildSettings:
    raw = service.read(WrittenDockerfile).dockerfile_raw
    return replace(settings_of(service.read(Application)), dockerfile_raw=raw)


def _write_dockerfile(source: Path, root: str, text: str) -> str:
    """Writes a Dockerfile into the folder of a commit. Returns its path below `root`.

    Checks that the folder is inside the commit's files, whose links may lead elsewhere.
    """
    source, folder = source.resolve(), (source / root).resolve()
    if not folder.is_relative_to(source) or not folder.is_dir():
        raise BuildError("Choose another root_path: the repository has no such folder")
    name = f"Dockerfile.{ids.new_id()[:8]}"
    with (folder / name).open("x") as file:
        file.write(text)
    return name


def settings_of(spec: Application) -> BuildSettings:
    """Returns the settings that affect the build. Other settings are applied to the finished build."""
    return BuildSettings(
        builder=spec.builder,
        install_command=spec.install_command or "",
        build_command=spec.build_command or "",
        static_folder=spec.static_folder or "",
        language_version=spec.language_version or "",
        system_packages=tuple(sorted({*spec.system_packages})),
        mounts=tuple(sorted(volume.mount_point for volume in spec.storage)),
        has_command=bool(spec.start_command or spec.entrypoint or spec.arguments),
    )


def _digest(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()


def commit_record(commit: GitCommit) -> CommitRecord:
    return CommitRecord(
        git_commit_id=commit.id,
        created_at=stamp(commit.created_at),
        tag=commit.tag,
        message=commit.message,
        author_name=commit.author_name,
    )


def _first_line(commit: GitCommit) -> str:
    return commit.message.partition("\n")[0][:100]
