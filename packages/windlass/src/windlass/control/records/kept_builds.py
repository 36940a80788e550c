"""The builds and versions of a service that are kept, by the records of its deployments."""

from __future__ import annotations

from typing import Final

from windlass.control.context.context import Context
from windlass.control.records.deployments import particulars
from windlass.control.records.past_deployments import newest_first
from windlass.core.deploy.states import Progress
from windlass.store import DeploymentRow, Reads

_REMEMBERED: Final = 1000
"""Deployments among which the last few that ran are looked for."""
_LOOKED_THROUGH: Final = 100
"""The same for an earlier use of a build."""


async def kept_commits(ctx: Context, service: str) -> set[str]:
    """Returns the versions that may be deployed again: of what serves, what is in progress, and the last
    few that ran."""
    in_use = await _in_use(ctx, service)
    last: set[str] = set()
    async for row in newest_first(ctx, service, _REMEMBERED):
        if len(last) >= ctx.settings.kept_artifacts:
            break
        commit = particulars(row).commit_id
        if commit and row.status == Progress.SUCCEEDED and row.id not in in_use:
            last.add(commit)
    return last | {commit for row in in_use.values() if (commit := particulars(row).commit_id)}


async def kept_builds(ctx: Context, service: str) -> list[str]:
    """Returns the keys of builds that may be needed: of what serves, what is in progress, and the last few
    that ran."""
    in_use = await _in_use(ctx, service)
    needed = [build.artifact.key for row in in_use.values() if (build := particulars(row).made)]
    last: dict[str, None] = {}
    async for row in newest_first(ctx, service, _REMEMBERED):
        if len(last) >= ctx.settings.kept_artifacts:
            break
        build = particulars(row).made
        if build and row.status == Progress.SUCCEEDED and row.id not in in_use:
            last[build.artifact.key] = None
    return [*dict.fromkeys([*needed, *last])]


async def may_have_built(ctx: Context, service: str) -> bool:
    """Returns False if nothing was built since the release before the last, and so nothing has to be removed.
    A build that was used long before counts as new."""
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
    """Returns the deployments that wait or are in progress, and the one that serves, by their ids."""
    reads = ctx.store.reads
    rows = await reads.deployments.open(service)
    status = await reads.statuses.get(service)
    serving = await reads.deployments.get(status.serving) if status and status.serving else None
    versions = await _versions_of_runs(reads, service)
    return {row.id: row for row in [*rows, *([serving] if serving else []), *versions]}


async def _versions_of_runs(reads: Reads, service: str) -> list[DeploymentRow]:
    """Returns the version of a job that its next runs start, and those of its open runs."""
    timetable = await reads.timetables.get(service)
    versions = {*await reads.runs.versions(service), *([timetable.deployment] if timetable else [])}
    return [row for version in sorted(versions) if (row := await reads.deployments.get(version))]
