"""The order of the services in an environment: which deployments and removals have to wait for each other.

Services are deployed in the order of their deployment stages. If a deployment fails, deployments of the same
request in later stages fail, too. If a job runs a command when it ends, services of earlier stages end after
it, and services of later stages end before it.

Each function reads the open deployments of the environment with one statement, however many services it has.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from windlass.control.context.context import Context
from windlass.control.records.deployments import (
    RECONCILE,
    finish,
    move,
    name_of,
    particulars,
    request_key,
    status_of,
)
from windlass.control.records.runs import plan_of
from windlass.control.request.stage_placement import place_of
from windlass.core.declare.registry import runs_once
from windlass.core.deploy.states import (
    ACTIONS_WITH_BUILD,
    ENDING_ACTIONS,
    STATES_OF_ACTIONS,
    Do,
    Progress,
)
from windlass.store import DeploymentRow, OpenInStage, Row, Tx


async def reason_to_wait(ctx: Context, tx: Tx, service: Row, head: DeploymentRow) -> str:
    """Returns why a deployment has to wait for another service of the environment; empty if it can begin."""
    if head.action in ACTIONS_WITH_BUILD:
        first = await _deployed_before(ctx, tx, service, head)
    else:
        first = await _ended_before(ctx, tx, service, head) if head.action in ENDING_ACTIONS else None
    if first is None:
        return ""
    verb = "is deployed" if head.action in ACTIONS_WITH_BUILD else "ends"
    noun = ctx.kinds[first.family].family.noun
    return f"Wait for the {noun} {name_of(first)}, which {verb} first, or cancel its deployment"


async def _deployed_before(ctx: Context, tx: Tx, service: Row, head: DeploymentRow) -> Row | None:
    """Returns a service of an earlier stage whose deployment has to be completed first. A deployment that
    runs a program to its end may take arbitrarily long, so only deployments of the same request wait for
    it."""
    for other in await _earlier(ctx, tx, service):
        row = other.deployment
        lasts = runs_once(ctx.kinds[other.family].family)
        is_first = row.action in ACTIONS_WITH_BUILD and row.created <= head.created
        if is_first and (not lasts or _is_of_same_request(row, head)):
            return await tx.resources.get(row.service)
    return None


def _is_of_same_request(deployment: DeploymentRow, other: DeploymentRow) -> bool:
    return request_key(deployment) == request_key(other)


async def _ended_before(ctx: Context, tx: Tx, service: Row, head: DeploymentRow) -> Row | None:
    """Returns a service of a later stage that has to end first, because it or this service runs a command at
    its end. A stop with a command delays only services of the same request. A deletion with a command delays
    services of all requests, because it is requested only once."""
    runs_command = await _runs_command(ctx, tx, service, head)
    for other in await _later(ctx, tx, service):
        row = other.deployment
        is_first = row.action in ENDING_ACTIONS and row.created <= head.created
        if not is_first or not (runs_command or ctx.kinds[other.family].has_runs):
            continue
        neighbour = await tx.resources.get(row.service)
        if neighbour is None:
            continue
        is_needed = row.action == Do.DELETE or _is_of_same_request(row, head)
        if runs_command or (is_needed and await _runs_command(ctx, tx, neighbour, row)):
            return neighbour
    return None


async def _runs_command(ctx: Context, tx: Tx, service: Row, deployment: DeploymentRow) -> bool:
    """Returns whether the service is a job that runs a command before this deployment ends it."""
    kind = ctx.kinds[service.family]
    if not kind.has_runs or (timetable := await tx.timetables.get(service.id)) is None:
        return False
    return kind.event_at(Do(deployment.action)) in plan_of(timetable).commands


async def _earlier(ctx: Context, tx: Tx, service: Row) -> list[OpenInStage]:
    """Returns the open deployments in earlier stages, which are deployed before this service, and end after
    it."""
    place = await place_of(ctx, tx, service)
    return await tx.deployment_stages.open_deployments(service.parent, last_stage=place - 1)


async def _later(ctx: Context, tx: Tx, service: Row) -> list[OpenInStage]:
    """Returns the open deployments in later stages, which are deployed after this service, and end before
    it."""
    place = await place_of(ctx, tx, service)
    return await tx.deployment_stages.open_deployments(service.parent, first=place + 1)


async def wake_dependents(ctx: Context, tx: Tx, service: Row) -> None:
    """Schedules the open deployments in the environment that may have waited for this service. Deployments
    that still wait for another service of the same stage are left until that one has ended."""
    place = await place_of(ctx, tx, service)
    others = [
        other
        for other in await tx.deployment_stages.open_deployments(service.parent)
        if other.deployment.service != service.id
    ]
    still_open = _requests(other for other in others if other.place == place)
    woken = {
        other.deployment.service: other.org
        for other in others
        if other.place != place and not (other.place > place and _requests([other]) & still_open)
    }
    for id, org in woken.items():
        await tx.work.schedule(RECONCILE, id, org=org, environment=service.parent)


def _requests(other_deployments: Iterable[OpenInStage]) -> set[str]:
    """Returns the requests of those that are deployed."""
    return {
        request_key(other.deployment)
        for other in other_deployments
        if other.deployment.action in ACTIONS_WITH_BUILD
    }


async def fail_dependents(ctx: Context, tx: Tx, service: Row, failed: DeploymentRow) -> None:
    """Fails queued deployments of the same request that wait for a failed service."""
    kind = ctx.kinds[service.family]
    begins = failed.action in ACTIONS_WITH_BUILD
    if not (begins or (failed.action in ENDING_ACTIONS and kind.has_runs)):
        return
    reason = f"Fix the {kind.family.noun} {name_of(service)}, which comes first: it failed"
    for other in await (_later if begins else _earlier)(ctx, tx, service):
        row = other.deployment
        is_same = (row.action in ACTIONS_WITH_BUILD) is begins and _is_of_same_request(failed, row)
        if is_same and row.status == Progress.QUEUED:
            await _fail(tx, row, reason)


async def _fail(tx: Tx, dependent: DeploymentRow, reason: str) -> None:
    service, deployment = await tx.resources.get(dependent.service), await tx.deployments.get(dependent.id)
    if service is None or deployment is None:
        return
    details = particulars(deployment)
    details.is_skipped = True
    deployment = await move(tx, deployment, Progress(deployment.status), details)
    await finish(tx, service, deployment, Progress.FAILED, reason)
    status = await status_of(tx, service)
    if status.deployment == deployment.id:
        state = STATES_OF_ACTIONS[Do(deployment.action)].failed
        await tx.statuses.change(replace(status, state=state, message=reason))
