"""Determines from the deployments of a service which builds and versions are kept."""

from __future__ import annotations

from typing import Final

from windlass.control.context.context import Context
from windlass.control.records.deployments import particulars
from windlass.control.records.past_deployments import newest_first
from windlass.core.deploy.states import Progress
from windlass.store import DeploymentRow, Reads

_MAX_SEARCHED_DEPLOYMENTS: Final = 1000
"""The number of deployments that are searched for the latest successful ones."""
_LOOKED_THROUGH: Final = 100
"""The number of deployments that are searched for earlier uses of a build."""


async def kept_commits(ctx: Context, service: str) -> set[str]:
    """Returns the commits that may be deployed again: of the serving deployment, of open deployments, and of
    the latest successful deployments."""
    in_use = await _in_use(ctx, service)
    last: set[str] = set()
    async for row in newest_first(ctx, service, _MAX_SEARCHED_DEPLOYMENTS):
        if len(last) >= ctx.settings.kept_artifacts:
            break
        commit = particulars(row).commit_id
        if commit and row.status == Progress.SUCCEEDED and row.id not in in_use:
            last.add(commit)
    return last | {commit for row in in_use.values() if (commit := particulars(row).commit_id)}


async def kept_builds(ctx: Context, service: str) -> list[str]:
    """Returns the keys of builds that may be needed: of the serving deployment, of open deployments, and of
    the latest successful deployments."""
    in_use = await _in_use(ctx, service)
    needed = [build.artifact.key for row in in_use.values() if (build := particulars(row).made)]
    last: dict[str, None] = {}
    async for row in newest_first(ctx, service, _MAX_SEARCHED_DEPLOYMENTS):
        if len(last) >= ctx.settings.kept_artifacts:
            break
        build = particulars(row).made
        if build and row.status == Progress.SUCCEEDED and row.id not in in_use:
            last[build.artifact.key] = None
    return [*dict.fromkeys([*needed, *last])]


async def may_have_built(ctx: Context, service: str) -> bool:
    """Returns whether there may be builds to remove. There are none if nothing was built since the release
    before the last. A build whose last use is long ago counts as new."""
    new: set[str] = set()
    releases = 0
    async for row in newest_first(ctx, service, _LOOKED_THROUGH):
        build = particulars(row).made
        if build is None:
            continue
        releases += row.status == Progress.SUCCEEDED
        if releases < 2:
            new.add(build.artifact.key)
        else:
            new.discard(build.artifact.key)
            if not new:
                break
    return bool(new)


async def _in_use(ctx: Context, service: str) -> dict[str, DeploymentRow]:
    """Returns the open deployments, the serving deployment and the versions of a job's runs, by id."""
    reads = ctx.store.reads
    rows = await reads.deployments.open(service)
    status = await reads.statuses.get(service)
    serving = await reads.deployments.get(status.serving) if status and status.serving else None
    versions = await _versions_of_runs(reads, service)
    return {row.id: row for row in [*rows, *([serving] if serving else []), *versions]}


async def _versions_of_runs(reads: Reads, service: str) -> list[DeploymentRow]:
    """Returns the version that the next runs of a job start, and the versions of its open runs."""
    timetable = await reads.timetables.get(service)
    versions = {*await reads.runs.versions(service), *([timetable.deployment] if timetable else [])}
    return [row for version in sorted(versions) if (row := await reads.deployments.get(version))]
