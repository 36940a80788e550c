"""Reconciles a service with its records, one step at a time.

A worker starts from the service id: it reads the records, plans a step, performs it, records the result, and
repeats.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial

from msgspec.structs import replace

from windlass.base.trace import Trace, enter_trace, stored_trace
from windlass.builders.builder import BuilderUnavailable
from windlass.control.context.context import Context
from windlass.control.deploying.dependents import reason_to_wait
from windlass.control.deploying.ledger import Ledger, Task, fence
from windlass.control.deploying.retry_later import RetryLater
from windlass.control.deploying.steps import STEPS
from windlass.control.records.deployments import (
    RECONCILE,
    announce,
    cancel_word,
    has_switched,
    has_to_be_built,
    move,
    note_wait,
    nudge_names,
    particulars,
    status_of,
)
from windlass.control.request.deleting import request_discard
from windlass.core.deploy.plan import OpenDeployment, Step, plan
from windlass.core.deploy.progress import DEPLOYMENT_EVENTS
from windlass.core.deploy.states import (
    OPEN_STATES_OF_DEPLOYMENTS,
    STATES_OF_ACTIONS,
    Do,
    Progress,
    Sleep,
    State,
)
from windlass.engines.engine import EngineUnavailable
from windlass.store import Claim, DeploymentRow, Row, StatusRow, Tx, is_for_builds

CHECK_INTERVAL = 5.0
"""Seconds after which a waiting task polls, in case a notification was lost."""


async def reconcile(ctx: Context, claim: Claim) -> None:
    """Performs steps until the service needs none."""
    if (await ctx.places.of(claim.id)).elsewhere is not None:
        await ctx.store.write(partial(_leave_to_owner, claim))
        return
    while task := await _plan_next(ctx, claim):
        enter_trace(_trace_of(task.deployment))
        ledger = Ledger(ctx, task, await ctx.places.of(task.service.id))
        try:
            await _take_step(ledger)
        except RetryLater as later:
            await ledger.put_off(later.wait, later.tries)
            return
        except (EngineUnavailable, BuilderUnavailable) as error:
            if task.deployment:
                await ledger.note_waiting(str(error))
            raise
        if task.deployment is not None and ctx.kinds[task.service.family].run_api is not None:
            await _note_run_end(ctx, task.service, task.deployment)
        if task.step in {Step.KEEP, Step.REST}:
            return


async def _note_run_end(ctx: Context, service: Row, deployment: DeploymentRow) -> None:
    """Tells the kind of a service that a deployment has ended, if it has."""
    current = await ctx.store.reads.deployments.get(deployment.id)
    if current is None or current.status not in OPEN_STATES_OF_DEPLOYMENTS:
        await ctx.kinds[service.family].run_ended(ctx, service, deployment)


async def _leave_to_owner(claim: Claim, tx: Tx) -> None:
    """Moves work to the server that runs the service. The work was requested before its cluster had a
    queue."""
    status = await tx.statuses.get(claim.id)
    await tx.work.done(claim)
    await tx.work.schedule(RECONCILE, claim.id, org=status.org if status else "")


def _trace_of(deployment: DeploymentRow | None) -> Trace | None:
    return stored_trace(particulars(deployment).trace) if deployment else None


async def _plan_next(ctx: Context, claim: Claim) -> Task | None:
    """Plans the next step, and marks its deployment as begun."""

    async def write(tx: Tx) -> Task | None:
        service, status = await tx.resources.get(claim.id), await tx.statuses.get(claim.id)
        if service is None or status is None:
            # The service was deleted meanwhile. A late worker may have started something after the removal.
            if await tx.deletions.is_deleted(claim.id):
                await request_discard(tx, claim.id)
            await tx.work.done(claim)
            return None
        await fence(tx, claim)
        waiting = await tx.deployments.open(claim.id)
        head = waiting[0] if waiting else None
        step = _plan(head, status)
        builds = head is not None and step in {Step.BEGIN, Step.BUILD} and has_to_be_built(head)
        if head is not None and builds and not is_for_builds(claim.queue):
            await tx.work.leave_to_builds(claim, head.created)
            return None
        if step is Step.BEGIN:
            assert head is not None
            if reason := await reason_to_wait(ctx, tx, service, head):
                if reason != particulars(head).waits:
                    await note_wait(tx, service, head, reason)
                await tx.work.reschedule(claim, tx.now + int(CHECK_INTERVAL * 1000))
                return None
            head = await begin(ctx, tx, service, status, head)
            status = await status_of(tx, service)
            step = _plan(head, status)
        return Task(step, claim, service, status, head)

    task = await ctx.store.write(write)
    await ctx.point(f"{task.step} planned" if task else "nothing planned")
    return task


async def begin(
    ctx: Context, tx: Tx, service: Row, status: StatusRow, deployment: DeploymentRow
) -> DeploymentRow:
    """Marks a waiting deployment as begun."""
    do = Do(deployment.action)
    details = particulars(deployment)
    details.began, details.waits = tx.now, ""
    details.server, details.host = ctx.server, ctx.places.local.public_host if ctx.server else ""
    is_built = not has_to_be_built(deployment)
    state = STATES_OF_ACTIONS[do].under_way if is_built else State.BUILDING
    deployment = await move(tx, deployment, Progress.DEPLOYING if is_built else Progress.BUILDING, details)
    if not details.command:
        await tx.statuses.change(replace(status, state=state, message=""))
    if kind := DEPLOYMENT_EVENTS[do].began:
        await announce(tx, kind, service, deployment, details)
    await nudge_names(tx, service.id)
    return deployment


def _plan(head: DeploymentRow | None, status: StatusRow) -> Step:
    waking = status.sleep == Sleep.WAKING
    if head is None:
        return plan(None, status.serving is not None, waking=waking)
    details = particulars(head)
    return plan(
        OpenDeployment(head.action, head.status, details.cancelled, has_switched(head, status)),
        status.serving is not None,
        waking=waking,
    )


async def _take_step(ledger: Ledger) -> None:
    """Performs a step. Interrupts the step if the deployment is cancelled; the next round completes the
    cancellation."""
    task = ledger.task
    doing = asyncio.ensure_future(STEPS[task.step](ledger))
    if task.deployment is None or task.step is Step.ABANDON:
        await _wait_for_end(doing)
        return
    cancelling = asyncio.ensure_future(_wait_for_cancel(ledger.ctx, task.deployment.id))
    try:
        await asyncio.wait([doing, cancelling], return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            doing.cancel()
            with suppress(asyncio.CancelledError):
                await doing
            return
        await doing
    finally:
        doing.cancel()
        cancelling.cancel()
        await asyncio.gather(doing, cancelling, return_exceptions=True)


async def _wait_for_end(doing: asyncio.Future[None]) -> None:
    """Waits for a step that does not react to cancellation of the deployment. If the wait itself is
    interrupted, the step has ended when this function returns."""
    try:
        await doing
    finally:
        doing.cancel()
        await asyncio.gather(doing, return_exceptions=True)


async def _wait_for_cancel(ctx: Context, deployment: str) -> None:
    """Returns when the deployment is to be cancelled. Polls, in case a notification is lost."""
    nudged = ctx.nudges.expect(cancel_word(deployment))
    try:
        while True:
            row = await ctx.store.reads.deployments.get(deployment)
            if row is None:
                return
            status = await ctx.store.reads.statuses.get(row.service)
            if status is None or (particulars(row).cancelled and not has_switched(row, status)):
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK_INTERVAL):
                    await nudged.wait()
            nudged.clear()
    finally:
        ctx.nudges.forget(cancel_word(deployment), nudged)
