"""Makes the folder of a run: the chart, which is pinned by its digest or commit, and its files of values."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from windlass.base.errors import Invalid
from windlass.base.file_names import read_beginning
from windlass.base.subprocesses import in_thread
from windlass.builders.builder import FILES_BUILDER, BuildError, BuildSettings, Order
from windlass.control.context.context import Context
from windlass.control.records.deployments import name_of, particulars
from windlass.control.services.repository_files import file_inside
from windlass.control.workloads.build_input import BuildInput
from windlass.control.workloads.builds import cache_secret_of, commit_record
from windlass.control.workloads.repositories import source_at
from windlass.control.workloads.work_folders import work_folder
from windlass.core.declare.shapes import GitRepositoryRequest
from windlass.core.deploy.progress import BuildResult, BuiltArtifact, CommitRecord
from windlass.helm.archives import unpack
from windlass.helm.chart_error import ChartError
from windlass.helm.chart_files import DESCRIPTION_FILE, ChartDescription, read_description
from windlass.helm.chart_needs import MAX_DESCRIPTION_BYTES, add_dependencies
from windlass.helm.charts import ChartRepositoryReader
from windlass.helm.families.helm import Helm
from windlass.helm.families.helm_repository import helm_repository
from windlass.helm.families.shapes import MAX_VALUES_LENGTH, ChartRepository, ValuesInGit
from windlass.helm.repositories import repository_settings
from windlass.registries.refusals import RegistryFailure
from windlass.sources.git import GitCommit, GitSource

CHART_FOLDER: Final = "chart"
REPOSITORY_FOLDER: Final = "repository"
VALUES_FOLDER: Final = "values"
VALUES_COMMIT: Final = "values_commit_id"
"""The choice of a commit of the repository with the values."""


class FetchedSource(Struct, frozen=True):
    """The fetched part of the folder of a run."""

    identity: str
    """A text that differs for another chart: its digest, or the address and the commit."""
    commit: CommitRecord | None = None
    branch: str | None = None
    version: str | None = None


def chart_path(spec: Helm) -> str:
    """Returns the path of the chart in the folder of a run."""
    repository = spec.source.git_repository
    if not repository:
        return CHART_FOLDER
    root = repository.root_path.strip("/")
    return f"{REPOSITORY_FOLDER}/{root}" if root else REPOSITORY_FOLDER


def values_paths(spec: Helm) -> list[str]:
    """Returns the paths of the fetched files of values, in their order."""
    files = spec.values_override.file or None
    git = files.git if files else None
    return [f"{VALUES_FOLDER}/{index:02}.yaml" for index in range(len(git.paths) if git else 0)]


async def make_folder(ctx: Context, build_input: BuildInput, image: str) -> BuiltArtifact:
    """Fetches the chart and the values of a deployment, and makes an artifact of them; an image if there is
    an `image` to add them to. Raises BuildError or GitError."""
    service, deployment, spec = build_input.service, build_input.deployment, build_input.service.read(Helm)
    place = await ctx.places.of(service.id)
    async with work_folder(ctx, deployment.id) as folder:
        source = folder / "source"
        await in_thread(_make_room, source)
        await ctx.point("about to fetch")
        try:
            fetched = await _fetch_chart(ctx, build_input, spec, source)
            values = await _fetch_values(ctx, build_input, spec, folder / "values-repository", source)
        except (ChartError, RegistryFailure, Invalid) as error:
            raise BuildError(f"source: {error}") from error
        await ctx.point("fetched")
        build_input.fetched.commit, build_input.fetched.branch = fetched.commit, fetched.branch
        key = _key(fetched.identity, values, image)
        artifact = await place.builder.find(service.id, key)
        if artifact is None:
            order = Order(
                service=service.id,
                org=service.org,
                environment=service.parent,
                name=name_of(service),
                deployment=deployment.id,
                key=key,
                commit=fetched.commit.git_commit_id if fetched.commit else key,
                source=source,
                settings=_build_settings(image),
                cache_secret=cache_secret_of(ctx, service.id),
                paused=build_input.paused,
            )
            artifact = await place.builder.build(order, build_input.say)
    return BuiltArtifact(BuildResult(artifact), fetched.commit, fetched.branch, fetched.version)


def _make_room(source: Path) -> None:
    source.mkdir(mode=0o700, parents=True)


def _build_settings(image: str) -> BuildSettings:
    if not image:
        return BuildSettings(builder=FILES_BUILDER)
    return BuildSettings(builder=FILES_BUILDER, base=image, base_chosen_in="the setting helm_image")


def _key(*parts: str) -> str:
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:40]


# The chart


async def _fetch_chart(ctx: Context, build_input: BuildInput, spec: Helm, into: Path) -> FetchedSource:
    if repository := spec.source.git_repository:
        return await _fetch_from_git(ctx, build_input, spec, repository, into)
    chart = spec.source.helm_repository
    assert isinstance(chart, ChartRepository)
    return await _fetch_from_repository(ctx, build_input, chart, into / CHART_FOLDER)


async def _fetch_from_repository(
    ctx: Context, build_input: BuildInput, chart: ChartRepository, into: Path
) -> FetchedSource:
    row = await ctx.store.reads.resources.find(helm_repository.name, str(chart.repository))
    if row is None or row.org != build_input.service.org:
        raise ChartError("helm_repository.repository: this repository was deleted: choose another")
    build_input.say(
        f"Fetching {chart.chart_name} {chart.chart_version} of {repository_settings(ctx, row).url}"
    )
    reader = ChartRepositoryReader(ctx, row.org, repository_settings(ctx, row))
    fetched = await reader.fetch(chart.chart_name, chart.chart_version)
    await in_thread(unpack, fetched.archive, into)
    await described(ctx, build_input.service.org, into)
    build_input.say(f"The chart {chart.chart_name} {fetched.version} has the digest sha256:{fetched.digest}")
    return FetchedSource(fetched.digest, version=fetched.version)


async def _fetch_from_git(
    ctx: Context, build_input: BuildInput, spec: Helm, repository: GitRepositoryRequest, into: Path
) -> FetchedSource:
    asked = particulars(build_input.deployment).git_commit_id
    # The whole repository is fetched, because links of a chart may lead to neighbouring folders.
    fetched, branch = await _fetch_git(ctx, build_input, repository, asked, into / REPOSITORY_FOLDER)
    chart = into / chart_path(spec)
    description = await described(ctx, build_input.service.org, chart)
    await add_dependencies(ctx, build_input, chart, description)
    identity = f"{repository.url} {repository.root_path} {fetched.id}"
    return FetchedSource(identity, commit_record(fetched), branch)


async def _fetch_git(
    ctx: Context,
    build_input: BuildInput,
    repository: GitRepositoryRequest,
    commit: str | None,
    into: Path,
) -> tuple[GitCommit, str | None]:
    source: GitSource = await source_at(ctx, ctx.store.reads, build_input.service.org, repository, commit)
    if source.token:
        ctx.logs.masks.add(build_input.deployment.id, [source.token])
    branch = source.branch
    if commit is None:
        build_input.say(f"Looking for the newest commit of {branch or 'the default branch'} of {source.url}")
        branch, newest = await ctx.git.head(source)
        source = replace(source, commit=newest)
    build_input.say(f"Fetching commit {(source.commit or '')[:12]} of {source.url}")
    return await ctx.git.fetch(replace(source, root_path="/"), into), branch


async def described(ctx: Context, org: str, chart: Path) -> ChartDescription:
    """Returns the description of the chart in a folder. Raises ChartError if there is none."""
    content = await in_thread(_description_in, chart)
    return await ctx.calls.run(org, read_description, content)


def _description_in(chart: Path) -> bytes:
    try:
        return read_beginning(chart, file_inside(chart, DESCRIPTION_FILE, "root_path"), MAX_DESCRIPTION_BYTES)
    except (Invalid, OSError) as error:
        raise ChartError(
            f"Choose the folder of a chart (root_path): there is no {DESCRIPTION_FILE} in this one"
        ) from error


# The values


async def _fetch_values(
    ctx: Context, build_input: BuildInput, spec: Helm, repository_folder: Path, into: Path
) -> str:
    """Fetches the files of values, and returns what identifies them; empty if none are fetched."""
    files = spec.values_override.file or None
    if files is None or not files.git:
        return ""
    git: ValuesInGit = files.git
    asked = particulars(build_input.deployment).choices.get(VALUES_COMMIT)
    fetched, _ = await _fetch_git(ctx, build_input, git.git_repository, asked, repository_folder)
    root = repository_folder / git.git_repository.root_path.strip("/")
    await in_thread(_copy_values, root, git.paths, into / VALUES_FOLDER)
    return f"{git.git_repository.url} {git.git_repository.root_path} {fetched.id} {git.paths}"


def _copy_values(root: Path, paths: Sequence[str], into: Path) -> None:
    into.mkdir(mode=0o700)
    for index, path in enumerate(paths):
        at = f"values_override.file.git.paths[{index}]"
        content = read_beginning(root, file_inside(root, path, at), MAX_VALUES_LENGTH + 1)
        if len(content) > MAX_VALUES_LENGTH:
            raise ChartError(f"{at}: make the file smaller: it has more than {MAX_VALUES_LENGTH >> 20} MiB")
        (into / f"{index:02}.yaml").write_bytes(content)
