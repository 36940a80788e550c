"""Checks and lists files in the newest commit of a repository."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

from windlass.base import ids
from windlass.base.bounded import OutOfBounds
from windlass.base.errors import Conflict, Invalid
from windlass.base.file_names import folder_names, read_beginning
from windlass.base.subprocesses import in_thread
from windlass.builders.dockerfile import MAX_LENGTH, Dockerfile, declared_arguments, read
from windlass.builders.instructions import DockerfileError
from windlass.control.context.call import Call, Reply, encode, reads
from windlass.control.context.context import Context
from windlass.control.context.git_reader import ReadCaller
from windlass.control.request.paths import target
from windlass.control.request.references import check_reference
from windlass.control.workloads.repositories import source_at
from windlass.control.workloads.work_folders import DETECTION_PREFIX, work_folder
from windlass.core.declare.shapes import GitRepositoryRequest, normalise_repository
from windlass.families.git_token import git_token
from windlass.families.repository_files import (
    CheckedDockerfile,
    CheckedFiles,
    Directories,
    DockerfileCheck,
    GitFileCheck,
)
from windlass.sources.git import GitError, GitSource

MAX_FOLDERS: Final = 10_000
_FIELD: Final = "git_repository"
T = TypeVar("T")
Look: TypeAlias = Callable[[str, Path], Awaitable[T]]
"""A function that examines a folder on behalf of an organization, and returns the result."""


@reads("environment.checkDockerfile")
async def check_dockerfile(ctx: Context, call: Call) -> Reply:
    asked = call.sent(DockerfileCheck)
    look = aside(partial(_parse_dockerfile, path=asked.dockerfile_path))
    purpose = f"Dockerfile {asked.dockerfile_path}"
    return Reply(encode(await look_into(ctx, call, asked.git_repository, _FIELD, purpose, look)))


@reads("environment.checkGitFile")
async def check_files(ctx: Context, call: Call) -> Reply:
    asked = call.sent(GitFileCheck)
    look = aside(partial(_find_files, paths=asked.files))
    purpose = "\0".join(["files", *asked.files])
    return Reply(encode(await look_into(ctx, call, asked.git_repository, _FIELD, purpose, look)))


@reads("organization.listDirectories")
async def list_directories(ctx: Context, call: Call) -> Reply:
    repository = call.sent(GitRepositoryRequest)
    return Reply(encode(await look_into(ctx, call, repository, "", "folders", aside(_list_folders))))


async def look_into(
    ctx: Context,
    call: Call,
    repository: GitRepositoryRequest,
    body_field: str,
    purpose: str,
    examine_folder: Look[T],
) -> T:
    """Fetches a repository that the caller may read, and examines its folder.

    `body_field`: the field of the body with the repository; empty if it is the body itself. `purpose`:
    identifies results that can be reused.
    """
    row = await target(ctx.store.reads, call)
    source = await readable_source(ctx, call, row.org, repository, body_field)
    try:
        return await ctx.git_reader.look(
            ReadCaller(row.org, call.actor.subject),
            source,
            purpose,
            partial(_fetch, ctx, row.org, examine_folder=examine_folder),
        )
    except GitError as error:
        raise unreadable(error) from error
    except OutOfBounds as error:
        raise Conflict(str(error)) from error


async def readable_source(
    ctx: Context, call: Call, org: str, repository: GitRepositoryRequest, body_field: str
) -> GitSource:
    """Returns the source of the repository in a body. Raises if the caller may not use its git token."""
    normalise_repository(repository, body_field)
    if token := repository.git_token_id:
        path = f"{body_field}.git_token_id".lstrip(".")
        await check_reference(ctx.store.reads, path, git_token.name, token, org, call.actor)
    try:
        return await source_at(ctx, ctx.store.reads, org, repository, None)
    except GitError as error:
        raise unreadable(error) from error


def unreadable(error: GitError) -> Conflict:
    return Conflict(f"The repository cannot be read: {error}")


def aside(examine_folder: Callable[[Path], T]) -> Look[T]:
    """Makes a function run in a thread. Suitable for functions whose running time is limited."""

    async def answer(_: str, folder: Path) -> T:
        return await in_thread(examine_folder, folder)

    return answer


async def _fetch(ctx: Context, org: str, source: GitSource, examine_folder: Look[T]) -> T:
    async with work_folder(ctx, f"{DETECTION_PREFIX}{ids.new_id()}") as folder:
        await ctx.git.fetch(source, folder)
        return await examine_folder(org, folder / source.root_path.strip("/"))


def _parse_dockerfile(folder: Path, path: str) -> CheckedDockerfile:
    try:
        beginning = read_beginning(folder, file_inside(folder, path, "dockerfile_path"), MAX_LENGTH + 1)
        text = beginning.decode(errors="replace")
        dockerfile = read(text)
        images = list(dict.fromkeys(_images(dockerfile)))
    except DockerfileError as error:
        raise Invalid(f"dockerfile_path: {path} cannot be parsed: {error}") from error
    return CheckedDockerfile(dockerfile_path=path, arg=sorted(declared_arguments(text)), repositories=images)


def _images(dockerfile: Dockerfile) -> Iterator[str]:
    """Yields the images in FROM instructions. A variable without a value is left as written."""
    variables = dockerfile.outer({})
    for stage in dockerfile.stages:
        if dockerfile.earlier(stage.base, stage) is None:
            yield dockerfile.read(stage.line, stage.base, variables) or stage.base


def _find_files(folder: Path, paths: Sequence[str]) -> CheckedFiles:
    for index, path in enumerate(paths):
        file_inside(folder, path, f"files[{index}]")
    return CheckedFiles(files=[*paths])


def _list_folders(folder: Path) -> Directories:
    return Directories(results=[*islice(folder_names(folder), MAX_FOLDERS)])


def file_inside(folder: Path, path: str, field: str) -> str:
    """Returns the path of a file relative to the folder, with links resolved. Raises Invalid if it is not a
    file inside the folder."""
    top = folder.resolve()
    try:
        file = (top / path.strip("/")).resolve(strict=True)
        if file.is_file() and file.is_relative_to(top):
            return str(file.relative_to(top))
    except (OSError, RuntimeError, ValueError):
        pass  # the file does not exist, or its links form a cycle
    raise Invalid(f"{field}: there is no file {path} in this folder of the repository")
