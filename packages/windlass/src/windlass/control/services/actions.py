"""Actions on one service, by name. They are used for single services, chosen services and whole
environments."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

from msgspec.structs import replace

from windlass.base.clock import SECOND
from windlass.base.errors import Conflict
from windlass.control.context.call import Call
from windlass.control.context.context import Context
from windlass.control.records.branch_watches import watch_branch
from windlass.control.records.deployments import accept, name_of, particulars, status_of
from windlass.control.records.names import refuse_outside
from windlass.control.request.changing import apply_changes
from windlass.control.services.preview_commits import only_approved
from windlass.control.workloads.uploads import with_upload
from windlass.core.declare.spec import Spec
from windlass.core.deploy.progress import ChosenVersion, PushedRef
from windlass.core.deploy.states import ACTIONS_WITH_BUILD, Do, Progress, State
from windlass.store import DeploymentRow, Reads, Row, StatusRow, Tx

Accepted: TypeAlias = tuple[DeploymentRow, StatusRow]
"""A queued deployment, and the status of its service."""
ServiceAction: TypeAlias = Callable[[Context, Tx, Call, Row, Spec | None], Awaitable[Accepted]]
"""A function that starts an action on a service. Its last argument is the part of the request's body for this
service, if any."""


async def deploy(
    ctx: Context,
    tx: Tx,
    call: Call,
    service: Row,
    body: Spec | None,
    pushed_ref: PushedRef | None = None,
) -> Accepted:
    """Deploys a version. The settings in the request become settings of the service, whether or not the
    deployment succeeds."""
    kind = ctx.kinds[service.family]
    version = replace(
        await kind.chosen_version(tx, service, body),
        event=kind.asked_event(service, call.query),
        pushed=pushed_ref,
    )
    kind.check_version(service, version)
    await kind.check_choice(tx, call.actor, service, version)
    version = await only_approved(ctx, tx, service, version)
    await refuse_outside(ctx, tx, service)
    if version.upload or kind.needs_upload(service):
        version = await with_upload(tx, service, version)
    if settings := kind.settings(version):
        await apply_changes(ctx, tx, call, service, settings)
        service = await tx.resources.get(service.id) or service
    if kind.deploys_new_commits(service):
        due = tx.now + ctx.settings.auto_deploy_seconds * SECOND
        await watch_branch(tx, service.id, service.org, service.parent, due)
    return await accept(tx, service, kind.deploys_by, call, version)


async def redeploy(ctx: Context, tx: Tx, call: Call, service: Row, body: Spec | None) -> Accepted:
    kind = ctx.kinds[service.family]
    version = replace(await _same_version(ctx, tx, service), event=kind.asked_event(service, call.query))
    version = await only_approved(ctx, tx, service, version)
    return await accept(tx, service, kind.deploys_by, call, version)


async def restart(ctx: Context, tx: Tx, call: Call, service: Row, body: Spec | None) -> Accepted:
    if (await status_of(tx, service)).serving is None:
        raise Conflict(f"Deploy {name_of(service)} instead: it is not running")
    return await accept(tx, service, Do.RESTART, call)


async def stop(ctx: Context, tx: Tx, call: Call, service: Row, body: Spec | None) -> Accepted:
    stopped = ChosenVersion(sub_action=ctx.kinds[service.family].stop_action(service))
    return await accept(tx, service, Do.STOP, call, stopped)


async def uninstall(ctx: Context, tx: Tx, call: Call, service: Row, body: Spec | None) -> Accepted:
    removed = ChosenVersion(sub_action=ctx.kinds[service.family].removal_action(call.query))
    return await accept(tx, service, Do.UNINSTALL, call, removed)


SERVICE_ACTIONS: Final[Mapping[str, ServiceAction]] = {
    "deploy": deploy,
    "redeploy": redeploy,
    "restart-service": restart,
    "stop": stop,
    "uninstall": uninstall,
}


async def was_begun(tx: Tx, service: Row) -> bool:
    """Returns whether there is anything to stop or remove, that is, whether the service was ever deployed."""
    status = await status_of(tx, service)
    return status.state != State.READY or bool(await tx.deployments.open(service.id))


def with_group(call: Call, deployment: DeploymentRow) -> Call:
    """Returns the call for the next deployment of the same request, which belongs to the first one."""
    return replace(call, group=call.group or deployment.id)


def action_name(call: Call) -> str:
    """Returns the name of a call's action: `deploy` for `application.deploy` and for
    `environment.service/deploy`."""
    return call.operation.handler.partition(".")[2].removeprefix("service/")


async def _same_version(ctx: Context, tx: Tx, service: Row) -> ChosenVersion:
    """Returns the version that serves, or else the version that was deployed last. Without any that may be
    repeated, returns the default version, which is the newest."""
    last = await last_good(ctx, tx, service)
    if last is None or not await ctx.kinds[service.family].may_repeat(tx, service, last):
        return ChosenVersion()
    details = particulars(last)
    commit = details.commit.git_commit_id if details.commit else None
    return ChosenVersion(
        git_commit_id=commit,
        choices=details.choices,
        image_tag=details.image_tag,
        of=last.id,
        purpose="REDEPLOY",
        sub_action=details.sub_action,
    )


async def last_good(ctx: Context, reads: Reads, service: Row) -> DeploymentRow | None:
    """Returns the deployment that serves, or else the last successful deployment, preferably of a version."""
    kind, status = ctx.kinds[service.family], await status_of(reads, service)
    past = await reads.deployments.latest(service.id, 100)
    good = [
        deployment
        for deployment in past
        if deployment.action in ACTIONS_WITH_BUILD
        and deployment.status == Progress.SUCCEEDED
        and not particulars(deployment).command
    ]
    serving = (deployment for deployment in past if deployment.id == status.serving)
    versions = (deployment for deployment in good if kind.is_version(particulars(deployment)))
    return next(serving, next(versions, good[0] if good else None))
