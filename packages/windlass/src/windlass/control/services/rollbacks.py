"""Rollbacks of services: back to the build, settings and variables of an earlier deployment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from windlass.base.errors import Conflict, Missing
from windlass.control.context.call import Call, Reply, encode, reads, writes
from windlass.control.context.context import Context
from windlass.control.records.deployment_inputs import read_kept
from windlass.control.records.deployments import accept, name_of, particulars, status_of
from windlass.control.request.paths import target
from windlass.control.services.actions import Accepted, last_good
from windlass.control.services.release_differences import (
    ReleaseComparison,
    ReleaseDifference,
    difference_of,
    is_same_release,
)
from windlass.control.services.release_restoring import go_back
from windlass.control.services.services import deployment_reply
from windlass.core.declare.document import Document
from windlass.core.declare.registry import runs_once
from windlass.core.declare.rollbacks import PRESENT, Rollback, RollbackQuery
from windlass.core.deploy.progress import ChosenVersion, Particulars
from windlass.core.deploy.states import Progress
from windlass.store import DeploymentRow, Reads, Row, Tx

_MAX_SEARCHED: Final = 1000
"""Maximum number of deployments among which an earlier release is searched."""
MAX_COMPARED_RELEASES: Final = 100
"""Maximum number of releases with the same build whose settings are compared with those that serve. All
variables of such a release are read, and others wait meanwhile."""


@writes("*.rollback")
async def rollback(ctx: Context, tx: Tx, call: Call) -> Reply:
    service, asked = await target(tx, call), call.sent(Rollback)
    is_kept = asked.settings == PRESENT
    earlier = await _find_earlier(ctx, tx, service, asked.deployment_id or None, with_settings=not is_kept)
    if earlier is None:
        past = await tx.deployments.latest(service.id, _MAX_SEARCHED)
        raise Conflict(_why_nothing_earlier(name_of(service), past))
    if not is_kept:
        service = await go_back(
            ctx, tx, call, await difference_of(ctx, tx, service, earlier, ReleaseComparison(is_write=True))
        )
    return await deployment_reply(ctx, tx, call, service, *await repeat(ctx, tx, call, service, earlier))


async def repeat(
    ctx: Context, tx: Tx, call: Call, service: Row, earlier_deployment: DeploymentRow
) -> Accepted:
    """Deploys the build of an earlier deployment, or the present one if the kind of service does not go back
    to earlier builds."""
    kind = ctx.kinds[service.family]
    built = (
        earlier_deployment if kind.has_versions else await last_good(ctx, tx, service) or earlier_deployment
    )
    details = particulars(built)
    version = ChosenVersion(
        git_commit_id=details.git_commit_id,
        image_tag=details.image_tag,
        commit=details.commit,
        made=details.made,
        of=earlier_deployment.id,
        purpose="ROLLBACK",
    )
    await kind.check_choice(tx, call.actor, service, version)
    return await accept(tx, service, kind.deploys_by, call, version)


@reads("*.rollbackDifference")
async def show_difference(ctx: Context, call: Call) -> Reply:
    source = ctx.store.reads
    service = await target(source, call)
    version = call.asked(RollbackQuery).deployment_id or None
    earlier = await _find_earlier(ctx, source, service, version, with_settings=True)
    if earlier is None:
        return Reply(encode(no_difference(service)))
    difference = await difference_of(ctx, source, service, earlier, ReleaseComparison(is_write=False))
    return Reply(encode(await shown_difference(ctx, source, difference)))


def no_difference(service: Row) -> Document:
    """Returns the answer for a service that has no earlier release."""
    return {
        "service_id": service.id,
        "service_name": name_of(service),
        "deployment_id": None,
        "number": 0,
        "same_build": False,
        "settings_known": True,
        "changes": (),
        "missing": (),
    }


async def shown_difference(ctx: Context, reads: Reads, difference: ReleaseDifference) -> Document:
    service, earlier = difference.service, difference.earlier
    details, serving = particulars(earlier), await serving_of(ctx, reads, service)
    document: Document = {
        "service_id": service.id,
        "service_name": name_of(service),
        "deployment_id": earlier.id,
        "number": earlier.number,
        "same_build": not ctx.kinds[service.family].has_versions
        or (serving is not None and has_same_build(details, particulars(serving))),
        "settings_known": difference.is_known,
        "changes": difference.shown(),
        "missing": difference.own.missing,
    }
    if details.commit_id:
        document["git_commit_id"] = details.commit_id
    if details.image_tag:
        document["image_tag"] = details.image_tag
    return document


def has_same_build(one: Particulars, other: Particulars) -> bool:
    return bool(one.made and other.made and one.made.artifact == other.made.artifact)


async def serving_of(ctx: Context, reads: Reads, service: Row) -> DeploymentRow | None:
    """Returns the deployment that serves. A service that runs to completion has none, so its version is the
    last successful one."""
    if runs_once(ctx.kinds[service.family].family):
        return await last_good(ctx, reads, service)
    serving = (await status_of(reads, service)).serving
    return await reads.deployments.get(serving) if serving else None


async def _find_earlier(
    ctx: Context, reads: Reads, service: Row, version: str | None, *, with_settings: bool
) -> DeploymentRow | None:
    """Returns the deployment to go back to. Without a version, it is the last one before the serving one
    that had another build, or, `with_settings`, other settings; None if there is none."""
    if version:
        row = await _find_wanted(reads, service, version)
        if row is None:
            raise Missing(
                f"deployment_id: choose a deployment of {name_of(service)}: {version} is none of them"
            )
        if row.status != Progress.SUCCEEDED:
            raise Conflict(f"deployment_id: choose one that SUCCEEDED: v{row.number} is {row.status}")
        if not is_release(ctx, service, particulars(row)):
            raise Conflict("deployment_id: choose one that deployed a version: that deployment did not")
        return row
    past = await reads.deployments.latest(service.id, _MAX_SEARCHED)
    serving = await serving_of(ctx, reads, service)
    if serving is None:
        return next((row for row in past if _is_choice(ctx, service, row)), None)
    has_versions, present = ctx.kinds[service.family].has_versions, particulars(serving)
    inputs, left = await read_kept(reads, serving.id), MAX_COMPARED_RELEASES
    for row in past:
        if row.number >= serving.number or not _is_choice(ctx, service, row):
            continue
        if has_versions and not has_same_build(particulars(row), present):
            return row
        if with_settings and left:
            left -= 1
            if not await is_same_release(reads, ctx, service, await read_kept(reads, row.id), inputs):
                return row
    return None


def _is_choice(ctx: Context, service: Row, row: DeploymentRow) -> bool:
    return row.status == Progress.SUCCEEDED and is_release(ctx, service, particulars(row))


def is_release(ctx: Context, service: Row, details: Particulars) -> bool:
    """Returns whether a deployment is one to which a rollback can go back."""
    is_version = ctx.kinds[service.family].is_version(details)
    return details.made is not None and not details.command and is_version


def _why_nothing_earlier(name: str, deployments: Sequence[DeploymentRow]) -> str:
    if any(row.status == Progress.SUCCEEDED for row in deployments):
        return (
            f"Deploy a change of {name} first, or name a version, such as v1: it has no earlier version of "
            "another build or with other settings"
        )
    return f"Deploy {name} first: no deployment of it has succeeded, so there is no version to go back to"


async def _find_wanted(reads: Reads, service: Row, version: str) -> DeploymentRow | None:
    """Returns a deployment of the service by its id, or by its version such as `v3`."""
    if version.startswith("v"):
        number = int(version[1:])
        rows = await reads.deployments.latest(service.id, 1, number)
        return next((row for row in rows if row.number == number), None)
    row = await reads.deployments.get(version)
    return row if row and row.service == service.id else None
