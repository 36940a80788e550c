"""Rollbacks of whole environments: each service goes back to the version that it ran at an earlier time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from windlass.base.errors import Conflict, Invalid, Missing
from windlass.base.fair_share import FairShare, apply_to_each
from windlass.base.segments import moment as milliseconds_of
from windlass.control.context.call import Call, Reply, encode, reads, writes
from windlass.control.context.context import Context
from windlass.control.records.deployment_inputs import read_kept
from windlass.control.records.deployments import particulars, status_of
from windlass.control.request.paths import target
from windlass.control.request.stage_placement import give_stages
from windlass.control.services.actions import with_group
from windlass.control.services.environments import note_request, services_of
from windlass.control.services.release_differences import (
    LevelDifference,
    ReleaseComparison,
    ReleaseDifference,
    compare_level,
    difference_of,
)
from windlass.control.services.release_restoring import (
    go_back,
    refuse_missing,
    require_write,
    restore_variables,
)
from windlass.control.services.rollbacks import (
    has_same_build,
    is_release,
    no_difference,
    repeat,
    serving_of,
    shown_difference,
)
from windlass.control.variables.inputs import is_current
from windlass.core.declare.rollbacks import PRESENT, EnvironmentRollback, EnvironmentRollbackQuery
from windlass.core.declare.traits import has_variables
from windlass.core.deploy.states import Progress, State
from windlass.store import DeploymentRow, Reads, Row, Tx

_AT_ONCE: Final = 50
_MAX_SEARCHED: Final = 1000
"""Maximum number of deployments of a service among which its version is searched."""
MAX_SEARCHED_IN_ALL: Final = 20_000
"""Maximum number of deployments of all services that are searched in one request. Others wait meanwhile."""
_NEWER: Final = "It had no version yet"
_SKIPPED: Final = "It is skipped in its deployment stage"


class EarlierVersion(Struct, frozen=True):
    """A service, and the deployment that it ran then; None if it is left out."""

    service: Row
    deployment: DeploymentRow | None
    reason: str = ""
    """Why it is left out."""


@reads("environment.rollbackDifference")
async def show_difference(ctx: Context, call: Call) -> Reply:
    source = ctx.store.reads
    environment = await target(source, call)
    versions = await _versions(ctx, source, environment, call.asked(EnvironmentRollbackQuery))
    comparison = ReleaseComparison(is_write=False)
    own = await _own_difference(ctx, source, environment, versions, comparison)
    services = await apply_to_each(
        lambda version: _shown_service(ctx, source, version, own, comparison), versions
    )
    document = {
        "environment_id": environment.id,
        "changes": [change.shown() for change in own.changes],
        "missing": own.missing,
        "services": services,
    }
    return Reply(encode(document))


@writes("environment.rollback")
async def rollback(ctx: Context, tx: Tx, call: Call) -> Reply:
    environment, asked = await target(tx, call), call.sent(EnvironmentRollback)
    versions = await _versions(ctx, tx, environment, asked)
    if not any(version.deployment for version in versions):
        raise Conflict("Deploy the environment first: none of its services has an earlier version")
    if asked.settings != PRESENT:
        versions = await _go_back(ctx, tx, call, environment, versions)
    await give_stages(ctx, tx, environment)
    places, share = await tx.deployment_stages.places(environment.id), FairShare()
    for version in sorted(versions, key=lambda version: places.get(version.service.id, 0)):
        if version.deployment and await _differs(ctx, tx, version.service, version.deployment):
            deployment, _ = await repeat(ctx, tx, call, version.service, version.deployment)
            call = with_group(call, deployment)
        await share.pause()
    return await note_request(
        ctx, tx, call, environment, State.DEPLOYED, call.group or environment.id
    )  # fmt: skip


async def _go_back(
    ctx: Context, tx: Tx, call: Call, environment: Row, versions: Sequence[EarlierVersion]
) -> list[EarlierVersion]:
    """Writes the variables of the environment, and the settings and variables of its services back."""
    comparison, recreated = ReleaseComparison(is_write=True), dict[str, Row]()
    own = await _own_difference(ctx, tx, environment, versions, comparison)
    refuse_missing(own.missing, "that deployment")
    if any(not change.reason for change in own.changes):
        await require_write(tx, call, environment)
        await restore_variables(ctx, tx, call, own.changes, recreated)
    restored: list[EarlierVersion] = []
    share = FairShare()
    for version in versions:
        if version.deployment is None:
            continue
        service = await tx.resources.get(version.service.id) or version.service
        difference = await difference_of(ctx, tx, service, version.deployment, comparison)
        service = await go_back(ctx, tx, call, difference, recreated)
        restored.append(EarlierVersion(service, version.deployment))
        await share.pause()
    return restored


async def _differs(ctx: Context, reads: Reads, service: Row, earlier_deployment: DeploymentRow) -> bool:
    """Returns whether a service has to be deployed to run an earlier version with its present settings."""
    serving = await serving_of(ctx, reads, service)
    if serving is None or await reads.deployments.open(service.id):
        return True
    if ctx.kinds[service.family].has_versions and not has_same_build(
        particulars(earlier_deployment), particulars(serving)
    ):
        return True
    return not await is_current(ctx, reads, service, (await status_of(reads, service)).digest)


# The earlier state


async def _versions(
    ctx: Context, reads: Reads, environment: Row, query: EnvironmentRollbackQuery
) -> list[EarlierVersion]:
    services = await services_of(ctx, reads, environment)
    moment, is_ended = await _moment(ctx, reads, services, query)
    skipped = await reads.deployment_stages.skipped(environment.id)
    versions: list[EarlierVersion] = []
    searched, share = 0, FairShare()
    for service in services:
        await share.pause()
        if service.id in skipped:
            versions.append(EarlierVersion(service, None, _SKIPPED))
            continue
        deployment, count = await _version_at(ctx, reads, service, moment, is_ended=is_ended)
        searched += count
        if searched > MAX_SEARCHED_IN_ALL:
            raise Invalid(
                "Choose single services, or a later time: more deployments that have failed are before that "
                "time than are searched at once"
            )
        versions.append(EarlierVersion(service, deployment, "" if deployment else _NEWER))
    return versions


async def _moment(
    ctx: Context, reads: Reads, services: Sequence[Row], query: EnvironmentRollbackQuery
) -> tuple[int, bool]:
    """Returns the time to go back to, and whether deployments have to be ended then. Without a choice, it is
    the time before the newest deployment that serves."""
    if query.deployment_id:
        return (await _named(reads, services, query.deployment_id)).created, False
    if query.at:
        return milliseconds_of(query.at), True
    serving = [await serving_of(ctx, reads, service) for service in services]
    return max((row.created for row in serving if row), default=0) - 1, False


async def _named(reads: Reads, services: Sequence[Row], id: str) -> DeploymentRow:
    row = await reads.deployments.get(id)
    if row is None or row.service not in {service.id for service in services}:
        raise Missing("deployment_id: choose an entry of the history of this environment: none has this id")
    return row


async def _version_at(
    ctx: Context, reads: Reads, service: Row, timestamp: int, *, is_ended: bool
) -> tuple[DeploymentRow | None, int]:
    """Returns the deployment that a service ran at a moment, and how many were searched. Without `is_ended`,
    deployments count that had been requested by then and ended later."""
    newest = await reads.deployments.number_at(service.id, timestamp)
    for searched in range(0, _MAX_SEARCHED, _AT_ONCE):
        rows = await reads.deployments.latest(service.id, _AT_ONCE, newest)
        for row in rows:
            if row.status != Progress.SUCCEEDED or not is_release(ctx, service, particulars(row)):
                continue
            if not is_ended or (particulars(row).ended or row.changed) <= timestamp:
                return row, searched + len(rows)
        if len(rows) < _AT_ONCE:
            return None, searched + len(rows)
        newest = rows[-1].number - 1
    return None, _MAX_SEARCHED


async def _own_difference(
    ctx: Context,
    reads: Reads,
    environment: Row,
    versions: Sequence[EarlierVersion],
    comparison: ReleaseComparison,
) -> LevelDifference:
    """Returns the variables of the environment that differ from those of the newest earlier version."""
    deployments = [version.deployment for version in versions if version.deployment]
    for deployment in sorted(deployments, key=lambda row: (row.created, row.id), reverse=True):
        kept = await read_kept(reads, deployment.id)
        if kept is not None and kept.has(environment.id):
            return await compare_level(ctx, reads, environment, kept.of(environment.id), comparison)
    return LevelDifference()


async def _shown_service(
    ctx: Context,
    reads: Reads,
    version: EarlierVersion,
    environment_difference: LevelDifference,
    comparison: ReleaseComparison,
) -> Mapping[str, object]:
    service, deployment = version.service, version.deployment
    if deployment is None:
        return {**no_difference(service), "is_deployed": False, "reason": version.reason}
    difference = await difference_of(ctx, reads, service, deployment, comparison)
    takes_variables = has_variables in ctx.registry[service.family].traits
    changes_inputs = difference.goes_back or (
        takes_variables and any(not change.reason for change in environment_difference.changes)
    )
    is_deployed = changes_inputs or await _differs(ctx, reads, service, deployment)
    return {
        **await shown_difference(ctx, reads, _without_own(difference, environment_difference)),
        "is_deployed": is_deployed,
    }


def _without_own(difference: ReleaseDifference, environment_difference: LevelDifference) -> ReleaseDifference:
    """Leaves out the variables of the environment, which are shown once for all services."""
    levels = {change.level.id for change in environment_difference.changes}
    shared = [change for change in difference.shared if change.level.id not in levels]
    return ReleaseDifference(
        difference.service,
        difference.earlier,
        difference.is_known,
        difference.settings,
        difference.own,
        shared,
        difference.advanced,
    )
