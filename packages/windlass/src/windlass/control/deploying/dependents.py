"""The order of the services in an environment: which deployments and removals have to wait for each other.

Services are deployed in the order of their kinds. If a deployment fails, later deployments of the same
request fail, too. If a job runs a command when it ends, the services that it needs end after it, and the
services that need it end before it.
"""

from __future__ import annotations

from msgspec.structs import replace

from windlass.control.context.context import Context
from windlass.control.records.deployments import RECONCILE, finish, name_of, particulars, status_of
from windlass.control.records.runs import plan_of
from windlass.core.declare.registry import runs_once
from windlass.core.deploy.states import ACTIONS_WITH_BUILD, STATES_OF_ACTIONS, Do, Progress
from windlass.store import DeploymentRow, Row, Tx

_ENDING_ACTIONS = frozenset({Do.STOP, Do.UNINSTALL, Do.DELETE})


async def reason_to_wait(ctx: Context, tx: Tx, service: Row, head: DeploymentRow) -> str:
    """Returns why a deployment has to wait for another service of the environment; empty if it can begin."""
    if head.action in ACTIONS_WITH_BUILD:
        first = await _deployed_before(ctx, tx, service, head)
    else:
        first = await _ended_before(ctx, tx, service, head) if head.action in _ENDING_ACTIONS else None
    if first is None:
        return ""
    verb = "is deployed" if head.action in ACTIONS_WITH_BUILD else "ends"
    noun = ctx.kinds[first.family].family.noun
    return f"Wait for the {noun} {name_of(first)}, which {verb} first, or cancel its deployment"


async def _deployed_before(ctx: Context, tx: Tx, service: Row, head: DeploymentRow) -> Row | None:
    """Returns a service of an earlier family whose deployment has to be completed first. A deployment that
    runs a program to its end may take arbitrarily long, so only deployments of the same request wait for
    it."""
    for family in _earlier_families(ctx, service):
        lasts = runs_once(ctx.kinds[family].family)
        for neighbour in await tx.resources.of_parent(service.parent, family):
            for row in await tx.deployments.open(neighbour.id):
                is_first = row.action in ACTIONS_WITH_BUILD and row.created <= head.created
                if is_first and (not lasts or _is_of_same_request(row, head)):
                    return neighbour
    return None


def _is_of_same_request(deployment: DeploymentRow, other: DeploymentRow) -> bool:
    request = particulars(deployment).request
    return bool(request) and request == particulars(other).request


async def _ended_before(ctx: Context, tx: Tx, service: Row, head: DeploymentRow) -> Row | None:
    """Returns a service that has to end first, because it or this service runs a command at its end. A stop
    with a command delays only services of the same request. A deletion with a command delays services of all
    requests, because it is requested only once."""
    runs_command = await _runs_command(ctx, tx, service, head)
    for family in _later_families(ctx, service):
        if not (runs_command or ctx.kinds[family].has_runs):
            continue
        for neighbour in await tx.resources.of_parent(service.parent, family):
            for row in await tx.deployments.open(neighbour.id):
                is_first = row.action in _ENDING_ACTIONS and row.created <= head.created
                if not is_first:
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


def _later_families(ctx: Context, service: Row) -> list[str]:
    """Returns the families that are deployed after this service, and therefore end before it."""
    own = ctx.kinds[service.family].precedence
    return [name for name, kind in ctx.kinds.items() if kind.precedence > own]


def _earlier_families(ctx: Context, service: Row) -> list[str]:
    """Returns the families that are deployed before this service, and therefore end after it."""
    own = ctx.kinds[service.family].precedence
    return [name for name, kind in ctx.kinds.items() if kind.precedence < own]


async def wake_dependents(ctx: Context, tx: Tx, service: Row) -> None:
    """Schedules the open deployments in the environment that may have waited for this service."""
    for family in [*_later_families(ctx, service), *_earlier_families(ctx, service)]:
        for neighbour in await tx.resources.of_parent(service.parent, family):
            if await tx.deployments.open(neighbour.id):
                await tx.work.schedule(
                    RECONCILE, neighbour.id, org=neighbour.org, environment=neighbour.parent
                )


async def fail_dependents(ctx: Context, tx: Tx, service: Row, failed: DeploymentRow) -> None:
    """Fails queued deployments of the same request that wait for a failed service."""
    kind = ctx.kinds[service.family]
    begins = failed.action in ACTIONS_WITH_BUILD
    if not (begins or (failed.action in _ENDING_ACTIONS and kind.has_runs)):
        return
    reason = f"Fix the {kind.family.noun} {name_of(service)}, which comes first: it failed"
    for family in (_later_families if begins else _earlier_families)(ctx, service):
        for neighbour in await tx.resources.of_parent(service.parent, family):
            for row in await tx.deployments.open(neighbour.id):
                is_same = (row.action in ACTIONS_WITH_BUILD) is begins and _is_of_same_request(failed, row)
                if is_same and row.status == Progress.QUEUED:
                    await _fail(tx, neighbour, row, reason)


async def _fail(tx: Tx, service: Row, deployment: DeploymentRow, reason: str) -> None:
    await finish(tx, service, deployment, Progress.FAILED, reason)
    status = await status_of(tx, service)
    if status.deployment == deployment.id:
        state = STATES_OF_ACTIONS[Do(deployment.action)].failed
        await tx.statuses.change(replace(status, state=state, message=reason))
