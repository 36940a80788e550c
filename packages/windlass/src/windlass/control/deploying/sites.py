"""Publishes the files of static sites for the router, from the artifact of a deployment.

The files of a release are copied before its generation serves, and again whenever the copy is missing. The
name of a release is derived from the artifact and its settings, so that a rollback finds the earlier files.
"""

from __future__ import annotations

from windlass.base.log import log
from windlass.control.context.context import Context
from windlass.control.context.place import Place
from windlass.core.deploy.states import DeploymentPhase
from windlass.engines.engine import EngineError
from windlass.engines.workload import Workload
from windlass.routers.sites.publish import PublishError, SiteSettings
from windlass.routers.sites.rules import HeaderRule
from windlass.routers.sites.store import release_name

_log = log("sites")


async def put_in_place(ctx: Context, place: Place, workload: Workload) -> str:
    """Returns the folder from which a router serves a workload; empty for workloads with instances. Copies
    the files if necessary, and raises EngineError if that fails."""
    static = workload.artifact.static
    if static is None:
        return ""
    if folder := await find_folder(ctx, workload):
        return folder
    release = release_of(workload)
    await ctx.point("about to put files in place")
    try:
        report = await ctx.sites.put(
            workload.service,
            release,
            _settings_of(workload),
            lambda into: place.engine.export(workload.artifact, static.folder, into),
        )
    except PublishError as error:
        raise EngineError(str(error)) from error
    await ctx.point("files put in place")
    say = ctx.logs.deployment(workload.service, workload.deployment, DeploymentPhase.START)
    for line in report.lines() if report else ():
        say(line)
    return str(ctx.sites.at(workload.service, release))


async def find_folder(ctx: Context, workload: Workload) -> str:
    """Returns the folder from which a router serves a workload; empty if its files are missing or it has
    instances."""
    if workload.artifact.static is None:
        return ""
    return str(await ctx.sites.find(workload.service, release_of(workload)) or "")


async def served_folder(ctx: Context, place: Place, workload: Workload) -> str:
    """Returns the same as `put_in_place`; empty if the files cannot be copied now. The next keep step reports
    the problem."""
    try:
        return await put_in_place(ctx, place, workload)
    except EngineError as error:
        extra = {"service": workload.service, "reason": str(error)}
        _log.warning("a site is not served: its files cannot be put in place", extra=extra)
        return ""


async def lost_sites(ctx: Context) -> list[str]:
    """Returns the services whose routes lead to folders that no longer exist."""
    lost = set(await ctx.sites.lost({*ctx.routing.sites.values()}))
    return [service for service, folder in ctx.routing.sites.items() if folder in lost]


def release_of(workload: Workload) -> str:
    return release_name(f"{workload.artifact.kind} {workload.artifact.ref}", _settings_of(workload))


async def remove_former(ctx: Context, *kept: Workload | None) -> None:
    """Removes all files of a site except those of the workloads in `kept`. The previous workload is kept as
    well, because responses from it may still be in progress."""
    workloads = [workload for workload in kept if workload]
    releases = {release_of(workload) for workload in workloads if workload.artifact.static}
    await ctx.sites.prune(workloads[0].service, releases)


def _settings_of(workload: Workload) -> SiteSettings:
    static = workload.artifact.static
    assert static is not None
    folder = static.folder.strip("/")
    headers = [HeaderRule(header.path, ((header.name, header.value),)) for header in static.headers]
    return SiteSettings(
        folder=static.folder,
        title=f"the folder {folder}" if folder not in {"", "."} else "its folder",
        fallback=static.fallback,
        derived_fallback=static.derived_fallback,
        headers=tuple(reversed(headers)),  # here the first matching rule wins, in the router the last
    )
