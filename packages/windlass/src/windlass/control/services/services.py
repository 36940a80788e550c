"""Actions on services of all kinds: deploy, stop, restart, roll back and cancel; their statuses and
deployments."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from windlass.base.errors import Conflict, Forbidden, Invalid, Missing
from windlass.base.fair_share import FairShare
from windlass.control.context.call import Call, Reply, encode, reads, results, writes
from windlass.control.context.context import Context
from windlass.control.context.git_reader import ReadCaller
from windlass.control.context.place import Place
from windlass.control.context.places import cluster_of
from windlass.control.kinds.service_kind import AnyKind
from windlass.control.records.deployments import (
    accept,
    cancel,
    name_of,
    particulars,
    refuse_in_deletion,
    status_of,
)
from windlass.control.records.machine_clusters import machine_cluster
from windlass.control.records.names import reserve_declared
from windlass.control.records.reachability import check_log_here, status_as_reachable
from windlass.control.records.shown_deployments import details_of, shown_deployment, shown_status
from windlass.control.reporting.logs import log_reply
from windlass.control.request.behaviour import Behaviour, Change, Draft, behaves
from windlass.control.request.paths import parent_of, target
from windlass.control.request.permissions import allows
from windlass.control.request.reading import paging
from windlass.control.request.stage_placement import place_new
from windlass.control.services.actions import SERVICE_ACTIONS, action_name, last_good, was_begun
from windlass.control.variables.injected import forget_derived, refresh_derived
from windlass.control.variables.inputs import is_current
from windlass.control.workloads.builds import commit_record
from windlass.control.workloads.repositories import source_of
from windlass.core.access import Scope
from windlass.core.declare.document import Document
from windlass.core.declare.executions import RunRequest
from windlass.core.declare.registry import sub_actions_of
from windlass.core.declare.spec import Spec
from windlass.core.declare.traits import DEPLOYABLE_TRAIT
from windlass.core.deploy.hosts import label
from windlass.core.deploy.progress import ChosenVersion
from windlass.core.deploy.states import Do, State
from windlass.core.settings.values import SETTINGS_FIELD, changed_in
from windlass.engines.engine import unmet
from windlass.sources.git import GitCommit, GitError
from windlass.store import DeploymentRow, Reads, Row, StatusRow, Tx

MAX_SERVICES: Final = 1000
"""The largest number of services of one environment."""


@behaves(trait=DEPLOYABLE_TRAIT)
class Services(Behaviour[Spec]):
    """The common behaviour of all services: status, names and variables. The service kind adds its own
    behaviour."""

    async def creating(self, ctx: Context, tx: Tx, draft: Draft[Spec]) -> None:
        assert draft.parent is not None
        await refuse_in_deletion(tx, draft.parent.id)
        await _refuse_too_many(ctx, tx, draft.parent.id)
        kind = ctx.kinds[draft.family.name]
        place = await ctx.places.of_environment(tx, draft.parent.id)
        _check_engine_support(kind, place, draft.spec)
        await kind.creating(ctx, tx, draft)
        if draft.copy_of and (changed := changed_in(draft.copy_of.body)):
            draft.give(**{SETTINGS_FIELD: changed})

    async def created(self, ctx: Context, tx: Tx, draft: Draft[Spec]) -> None:
        assert draft.parent is not None
        cluster = cluster_of(draft.above)
        if ctx.kinds[draft.family.name].runs_on_server:
            cluster = await machine_cluster(tx, draft.org, cluster)
        await tx.statuses.add(draft.id, draft.org, State.READY, cluster)
        place = await ctx.places.of_environment(tx, draft.parent.id)
        status = await tx.statuses.get(draft.id)
        # Clients that create everything first learn it here, and its deployment fails with the same reason.
        if status and (why := ctx.kinds[draft.family.name].obstacle_of(place, draft.spec)):
            await tx.statuses.change(replace(status, message=why))
        await reserve_declared(ctx, tx, draft.family.name, draft.id)
        await place_new(ctx, tx, draft)
        await ctx.kinds[draft.family.name].created(ctx, tx, draft)

    async def updating(self, ctx: Context, tx: Tx, change: Change[Spec]) -> None:
        kind = ctx.kinds[change.row.family]
        await _refuse_names_of_neighbours(tx, change)
        _check_engine_support(kind, await ctx.places.of(change.row.id), change.spec, change.before)
        await kind.updating(ctx, tx, change)

    async def updated(self, ctx: Context, tx: Tx, row: Row) -> None:
        await reserve_declared(ctx, tx, row.family, row.id)
        await refresh_derived(ctx, tx, row)

    async def deleting(self, ctx: Context, tx: Tx, row: Row) -> None:
        await forget_derived(ctx, tx, row)


async def _refuse_too_many(ctx: Context, tx: Tx, environment: str) -> None:
    """Refuses a further service of a full environment: each service may use the variables of each other one,
    and a change of all of them keeps everybody waiting."""
    if sum([await tx.lists.length(environment, family) for family in ctx.kinds]) >= MAX_SERVICES:
        raise Conflict(
            f"Create the service in another environment: one environment has at most {MAX_SERVICES} services"
        )


async def _refuse_names_of_neighbours(tx: Tx, change: Change[Any]) -> None:
    """Refuses a new name if the caller may change only this service.

    Other services of the environment find services by name, so a name could take over the connections of
    another service.
    """
    if label(change.spec.name) == label(change.before.name):
        return
    home = await tx.resources.get(change.row.parent)
    if home and not await allows(tx, change.actor, Scope.WRITE, home):
        raise Forbidden(
            "name: use a token that may change the environment, because other services reach this one by "
            "its name"
        )


def _check_engine_support(kind: AnyKind, place: Place, spec: Spec, previous_spec: Spec | None = None) -> None:
    """Raises Invalid for requirements that the engine cannot fulfil. Unchanged requirements are accepted."""
    if not place.is_connected:
        return
    demand, former = kind.demand(spec), kind.demand(previous_spec) if previous_spec else None
    for field, reason in unmet(place.limits, demand):
        if former is None or getattr(former, field) != getattr(demand, field):
            raise Invalid(f"{kind.size_fields.get(field, field)}: {reason}")


# Actions


@writes("*.deploy", "*.redeploy", "*.restart-service", "*.stop")
async def act(ctx: Context, tx: Tx, call: Call) -> Reply:
    return await _act(ctx, tx, call, await target(tx, call))


@writes("*.uninstall")
async def uninstall(ctx: Context, tx: Tx, call: Call) -> Reply:
    service = await target(tx, call)
    return await _act(ctx, tx, call, service) if await was_begun(tx, service) else Reply(status=204)


async def _act(ctx: Context, tx: Tx, call: Call, service: Row) -> Reply:
    accepted = await SERVICE_ACTIONS[action_name(call)](ctx, tx, call, service, call.body)
    return await deployment_reply(ctx, tx, call, service, *accepted)


@writes("*.run")
async def run_once(ctx: Context, tx: Tx, call: Call) -> Reply:
    service = await target(tx, call)
    last = await last_good(ctx, tx, service)
    details = particulars(last) if last else None
    if last is None or details is None or details.made is None:
        raise Conflict(f"Deploy {name_of(service)} first: there is no build of it to run a command in")
    if details.made.artifact.is_files_alone:
        raise Conflict(
            f"Choose another service: {name_of(service)} is a static site, and its image holds files alone"
        )
    version = ChosenVersion(
        git_commit_id=details.git_commit_id,
        image_tag=details.image_tag,
        commit=details.commit,
        made=details.made,
        of=last.id,
        command=tuple(call.sent(RunRequest).command),
    )
    return await deployment_reply(ctx, tx, call, service, *await accept(tx, service, Do.RUN, call, version))


@writes("*.cancelDeployment")
async def cancel_all(ctx: Context, tx: Tx, call: Call) -> Reply:
    service = await target(tx, call)
    waiting = await tx.deployments.open(service.id)
    if not waiting:
        raise Conflict(f"Look at the status of {name_of(service)}: no deployment of it waits or is under way")
    status = await cancel(tx, service, waiting, call)
    last = await tx.deployments.get(waiting[-1].id)
    assert last is not None
    return await deployment_reply(ctx, tx, call, service, last, status)


async def deployment_reply(
    ctx: Context, reads: Reads, call: Call, service: Row, deployment: DeploymentRow, status: StatusRow
) -> Reply:
    fresh = await freshness(ctx, reads, service, status)
    return Reply(encode(shown_deployment(call, service, deployment, status, fresh)))


# Statuses


@reads("*.status")
async def read_status(ctx: Context, call: Call) -> Reply:
    service = await target(ctx.store.reads, call)
    return Reply(encode(await whole_status(ctx, ctx.store.reads, call, service)))


async def whole_status(ctx: Context, reads: Reads, call: Call, service: Row) -> Document:
    """Returns the status of a service. If its deployments have sub-actions, the status contains the last
    one's."""
    status = await status_as_reachable(ctx, await status_of(reads, service))
    document = shown_status(call, service, status, await freshness(ctx, reads, service, status))
    if sub_actions_of(ctx.registry[service.family]) and status.deployment:
        last = await reads.deployments.get(status.deployment)
        if last:
            document["status_details"] = details_of(status.state, particulars(last).sub_action)
    return document


async def whole_statuses(ctx: Context, call: Call, services: Iterable[Row]) -> list[Document]:
    """Returns the statuses of services, without those that were deleted meanwhile. Others run in between."""
    source, share = ctx.store.reads, FairShare()
    found: list[Document] = []
    for service in services:
        if await source.statuses.get(service.id) is not None:
            found.append(await whole_status(ctx, source, call, service))
        await share.pause()
    return found


async def freshness(ctx: Context, reads: Reads, service: Row, status: StatusRow) -> str:
    """Returns whether the running release is up to date with the current settings."""
    if status.deployed_at is None:
        return "NEVER_DEPLOYED"
    if status.state.endswith("_ERROR") or not await is_current(ctx, reads, service, status.digest):
        return "OUT_OF_DATE"
    return "UP_TO_DATE"


@reads("*.commit")
async def read_commits(ctx: Context, call: Call) -> Reply:
    commits = await newest_commits(ctx, call)
    return Reply(results([encode(commit_record(commit)) for commit in commits]))


async def newest_commits(ctx: Context, call: Call) -> Sequence[GitCommit]:
    """Returns the newest commits of the branch that the service is built from, the newest first."""
    service = await target(ctx.store.reads, call)
    try:
        source = await source_of(ctx, ctx.store.reads, service, None)
        return await ctx.git_reader.commits(ReadCaller(service.org, call.actor.subject), service.id, source)
    except GitError as error:
        raise Conflict(f"The repository cannot be read: {error}") from error


# Deployments of a service


@reads("deployment.list")
async def list_deployments(ctx: Context, call: Call) -> Reply:
    source = ctx.store.reads
    service, status, fresh = await _read_service(ctx, source, call)
    page, size = paging(call)
    rows = await source.deployments.latest(service.id, size, status.deployments - (page - 1) * size)
    shown = [encode(shown_deployment(call, service, row, status, fresh)) for row in rows]
    return Reply(results(shown, page, size, status.deployments))


@reads("deployment.read")
async def read_deployment(ctx: Context, call: Call) -> Reply:
    source = ctx.store.reads
    service, status, fresh = await _read_service(ctx, source, call)
    row = await _deployment(source, call, service)
    body = encode(shown_deployment(call, service, row, status, fresh))
    return Reply(body, hashlib.sha256(body).hexdigest()[:16])


@reads("deployment.log")
async def read_build_log(ctx: Context, call: Call) -> Reply:
    service, _, _ = await _read_service(ctx, ctx.store.reads, call)
    deployment = await _deployment(ctx.store.reads, call, service)
    await check_log_here(ctx, deployment)
    return await log_reply(ctx, call, service, deployment.id)


@writes("deployment.cancel")
async def cancel_one(ctx: Context, tx: Tx, call: Call) -> Reply:
    service, _, fresh = await _read_service(ctx, tx, call)
    row = await _deployment(tx, call, service)
    if row.id not in {deployment.id for deployment in await tx.deployments.open(service.id)}:
        raise Conflict(f"Choose a deployment that waits or is under way: this one is {row.status}")
    status = await cancel(tx, service, [row], call)
    after = await tx.deployments.get(row.id)
    assert after is not None
    return Reply(encode(shown_deployment(call, service, after, status, fresh)))


async def _read_service(ctx: Context, reads: Reads, call: Call) -> tuple[Row, StatusRow, str]:
    service = await parent_of(reads, call)
    status = await status_as_reachable(ctx, await status_of(reads, service))
    return service, status, await freshness(ctx, reads, service, status)


async def find_deployment(ctx: Context, reads: Reads, call: Call) -> tuple[Row, DeploymentRow]:
    """Returns the service and the deployment in the path of a call."""
    service, _, _ = await _read_service(ctx, reads, call)
    return service, await _deployment(reads, call, service)


async def _deployment(reads: Reads, call: Call, service: Row) -> DeploymentRow:
    row = await reads.deployments.get(call.id)
    if row is None or row.service != service.id:
        raise Missing("List the deployments of the service to find the id: no deployment of it has this id")
    return row
