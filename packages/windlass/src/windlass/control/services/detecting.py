"""Detection before a service is created: how a repository is built and started, and its branches."""

from __future__ import annotations

from pathlib import Path

from windlass.builders.folder_recipe import planned_recipe
from windlass.control.context.call import Call, Reply, encode, reads, results
from windlass.control.context.context import Context
from windlass.control.context.git_reader import ReadCaller
from windlass.control.request.paths import target
from windlass.control.services.repository_files import look_into, readable_source, unreadable
from windlass.detect import Recipe
from windlass.families.organization import RepositoryBranch, RepositoryToDetect
from windlass.sources.git import GitError

_FIELD = "git_repository"


@reads("organization.detect")
async def read_recipe(ctx: Context, call: Call) -> Reply:
    repository = call.sent(RepositoryToDetect).git_repository

    executes = any(place.builder.makes == "image" for place in ctx.places.all())

    async def detect(org: str, folder: Path) -> Recipe:
        return await ctx.calls.run(org, planned_recipe, folder, executes)

    return Reply(encode(await look_into(ctx, call, repository, _FIELD, "detection", detect)))


@reads("organization.branches")
async def list_branches(ctx: Context, call: Call) -> Reply:
    org = await target(ctx.store.reads, call)
    repository = call.sent(RepositoryToDetect).git_repository
    source = await readable_source(ctx, call, org.id, repository, _FIELD)
    try:
        names = await ctx.git_reader.branches(
            ReadCaller(org.id, call.actor.subject), source, ctx.git.branches
        )
    except GitError as error:
        raise unreadable(error) from error
    return Reply(results([encode(RepositoryBranch(name=name)) for name in names]))
