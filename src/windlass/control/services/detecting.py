"""Detection for requests: fetches a repository into a folder of its own, and reads it there.

The request waits for it. The folder is removed at the end; that of a killed server is swept.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from windlass.base import ids
from windlass.base.errors import Conflict
from windlass.base.file_names import file_names, read_beginning
from windlass.base.subprocesses import in_thread
from windlass.builders.git import GitError, GitSource
from windlass.control.context.call import Call, Reply, encode, reads, results
from windlass.control.context.context import Context
from windlass.control.request.paths import target
from windlass.control.request.references import check_reference
from windlass.control.workloads.repositories import source_at
from windlass.control.workloads.work_folders import DETECTIONS, work_folder
from windlass.core.declare.shapes import normalise_repository
from windlass.core.detect import Recipe, Tree, detect
from windlass.families.git_token import git_token
from windlass.families.organization import RepositoryBranch, RepositoryToDetect


@reads("organization.detect")
async def read_recipe(ctx: Context, call: Call) -> Reply:
    try:
        org, source = await _source(ctx, call)
        recipe = await ctx.git_reader.recipe(org, source, partial(_fetch_and_detect, ctx))
    except GitError as error:
        raise Conflict(f"The repository cannot be read: {error}") from error
    return Reply(encode(recipe))


@reads("organization.branches")
async def list_branches(ctx: Context, call: Call) -> Reply:
    try:
        org, source = await _source(ctx, call)
        names = await ctx.git_reader.branches(org, source, ctx.git.branches)
    except GitError as error:
        raise Conflict(f"The repository cannot be read: {error}") from error
    return Reply(results([encode(RepositoryBranch(name=name)) for name in names]))


async def _source(ctx: Context, call: Call) -> tuple[str, GitSource]:
    """Returns the organization, and the repository of the body, which the caller may read."""
    org = await target(ctx.store.reads, call)
    repository = call.sent(RepositoryToDetect).git_repository
    normalise_repository(repository)
    if token := repository.git_token_id:
        path = "git_repository.git_token_id"
        await check_reference(ctx.store.reads, path, git_token.name, token, org.id, call.actor)
    return org.id, await source_at(ctx, ctx.store.reads, org.id, repository, None)


async def _fetch_and_detect(ctx: Context, source: GitSource) -> Recipe:
    async with work_folder(ctx, f"{DETECTIONS}{ids.new_id()}") as folder:
        await ctx.git.fetch(source, folder)
        return await in_thread(_detect_below, folder / source.root_path.strip("/"))


def _detect_below(folder: Path) -> Recipe:
    return detect(Tree(file_names(folder), partial(read_beginning, folder)))
