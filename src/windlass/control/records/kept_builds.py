"""The builds and versions of a service that are kept, by the records of its deployments."""

from __future__ import annotations

from msgspec import Struct

from windlass.control.context.context import Context
from windlass.control.records.deployments import particulars
from windlass.core.deploy.states import OPEN, Progress


class Builds(Struct, frozen=True):
    """The builds of a service's past deployments, as far as they are kept."""

    kept: list[str]
    """Keys of those that may be needed: of what serves, what is under way, and the last few that ran."""
    grown: bool
    """True if anything was built since the release before the last: then there may be builds to remove."""


async def kept_commits(ctx: Context, service: str) -> set[str]:
    """Returns the versions that may be deployed again: of what serves, what is under way, and the last few
    that ran."""
    status = await ctx.store.reads.statuses.get(service)
    commits: dict[str, None] = {}
    needed: set[str] = set()
    for row in await ctx.store.reads.deployments.latest(service, 1000):
        if (commit := particulars(row).commit_id) is None:
            continue
        if row.status in OPEN or (status and row.id == status.serving):
            needed.add(commit)
        elif row.status == Progress.SUCCEEDED and len(commits) < ctx.settings.kept_artifacts:
            commits[commit] = None
    return needed | {*commits}


async def builds_of(ctx: Context, service: str) -> Builds:
    status = await ctx.store.reads.statuses.get(service)
    needed: list[str] = []
    good: dict[str, None] = {}
    first: dict[str, int] = {}
    released: list[int] = []
    for row in await ctx.store.reads.deployments.latest(service, 1000):
        build = particulars(row).made
        if build is None:
            continue
        first[build.artifact.key] = row.number  # the latest come first
        if row.status == Progress.SUCCEEDED:
            released.append(row.number)
        if row.status in OPEN or (status and row.id == status.serving):
            needed.append(build.artifact.key)
        elif row.status == Progress.SUCCEEDED and len(good) < ctx.settings.kept_artifacts:
            good[build.artifact.key] = None
    since = released[1] if len(released) > 1 else 0
    return Builds([*dict.fromkeys([*needed, *good])], any(number > since for number in first.values()))
