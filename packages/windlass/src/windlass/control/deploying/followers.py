"""Services that wait for others of their environment: to be deployed after them, and to be ended before them.

Services are deployed in the order of their kinds, and a failure stops those of its request that come later.
Where a job runs a command at its end, services that it needs end after it, and those that need it before.
"""

from __future__ import annotations

from msgspec.structs import replace

from windlass.control.context.context import Context
from windlass.control.records.deployments import RECONCILE, finish, name_of, particulars, status_of
from windlass.control.records.runs import plan_of
from windlass.core.deploy.states import BUILDS, WORDS, Do, Progress
from windlass.store import DeploymentRow, Row, Tx

_ENDS = frozenset({Do.STOP, Do.UNINSTALL, Do.DELETE})


async def must_wait(ctx: Context, tx: Tx, service: Row, head: DeploymentRow) -> bool:
    """True while other services of the environment come first."""
    if head.action in BUILDS:
        for family in sorted(ctx.kinds[service.family].waits_for):
            for neighbour in await tx.resources.of_parent(service.parent, family):
                ahead = await tx.deployments.open(neighbour.id)
                if any(row.action in BUILDS and row.created <= head.created for row in ahead):
                    return True
        return False
    return head.action in _ENDS and await _must_end_later(ctx, tx, service, head)


async def _must_end_later(ctx: Context, tx: Tx, service: Row, head: DeploymentRow) -> bool:
    runs_command = await _runs_command(ctx, tx, service, head)
    for family in _later_families(ctx, service):
        if not (runs_command or ctx.kinds[family].has_runs):
            continue
        for neighbour in await tx.resources.of_parent(service.parent, family):
            for row in await tx.deployments.open(neighbour.id):
                is_first = row.action in _ENDS and row.created <= head.created
                if is_first and (runs_command or await _runs_command(ctx, tx, neighbour, row)):
                    return True
    return False


async def _runs_command(ctx: Context, tx: Tx, service: Row, deployment: DeploymentRow) -> bool:
    """True if a job runs a command before this deployment ends it."""
    kind = ctx.kinds[service.family]
    if not kind.has_runs or (timetable := await tx.timetables.get(service.id)) is None:
        return False
    return kind.event_at(Do(deployment.action)) in plan_of(timetable).commands


def _later_families(ctx: Context, service: Row) -> list[str]:
    """Returns the families whose services are deployed after this one, and so end before it."""
    return [name for name, kind in ctx.kinds.items() if service.family in kind.waits_for]


async def wake_followers(ctx: Context, tx: Tx, service: Row) -> None:
    """Asks for the deployments that may have waited for this service."""
    for family in {*_later_families(ctx, service), *ctx.kinds[service.family].waits_for}:
        for neighbour in await tx.resources.of_parent(service.parent, family):
            if await tx.deployments.open(neighbour.id):
                await tx.work.ask(RECONCILE, neighbour.id, org=neighbour.org, environment=neighbour.parent)


async def fail_followers(ctx: Context, tx: Tx, service: Row, failed: DeploymentRow) -> None:
    """Fails deployments of the same request that wait for a service which failed. They have not begun."""
    kind = ctx.kinds[service.family]
    begins = failed.action in BUILDS
    request = particulars(failed).request
    if not request or not (begins or (failed.action in _ENDS and kind.has_runs)):
        return
    reason = f"Fix the {kind.family.noun} {name_of(service)}, which comes first: it failed"
    for family in sorted(_later_families(ctx, service) if begins else kind.waits_for):
        for neighbour in await tx.resources.of_parent(service.parent, family):
            for row in await tx.deployments.open(neighbour.id):
                is_same = particulars(row).request == request and (row.action in BUILDS) is begins
                if is_same and row.status == Progress.QUEUED:
                    await _fail(tx, neighbour, row, reason)


async def _fail(tx: Tx, service: Row, deployment: DeploymentRow, reason: str) -> None:
    await finish(tx, service, deployment, Progress.FAILED, reason)
    status = await status_of(tx, service)
    if status.deployment == deployment.id:
        state = WORDS[Do(deployment.action)].failed
        await tx.statuses.change(replace(status, state=state, message=reason))
