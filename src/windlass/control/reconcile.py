"""Bring services to where their records say they should be, one step at a time.

A worker is given an id and nothing else: it reads, plans, does one step, writes, goes round. What it
writes counts only while its claim is held; a worker that was paused past its lease changes nothing.
"""

from __future__ import annotations

import msgspec

from windlass.control.context import Context
from windlass.control.services import announce, close
from windlass.core.events import Event
from windlass.core.plan import Step, plan
from windlass.core.states import Progress, State
from windlass.core.workload import Workload
from windlass.engines.engine import EngineError
from windlass.store.store import Claim, DeploymentRow, Row, Tx


class LostClaim(Exception):
    """Somebody else does this work now."""


async def reconcile(ctx: Context, claim: Claim) -> None:
    """Goes round until there is nothing left to do for this service."""
    while begun := await _begin(ctx, claim):
        service, deployment = begun
        failure = await _run(ctx, service, deployment)
        await _end(ctx, claim, deployment, failure)


async def _begin(ctx: Context, claim: Claim) -> tuple[Row, DeploymentRow] | None:
    async def change(tx: Tx) -> tuple[Row, DeploymentRow] | None:
        await _fence(tx, claim)
        service = await tx.get(claim.id)
        waiting = await tx.open_deployments(claim.id)
        step = plan([one.status for one in waiting])
        if service is None or step is Step.REST:
            await tx.done(claim)
            return None
        if step is Step.CONTINUE:
            return service, waiting[0]
        deployment = await close(tx, waiting[0], Progress.DEPLOYING, "")
        await _set_state(tx, service, State.DEPLOYING, "")
        announce(tx, Event.DEPLOYMENT_STARTED, service, deployment)
        return service, deployment

    return await ctx.store.write(change)


async def _run(ctx: Context, service: Row, deployment: DeploymentRow) -> str | None:
    """Why it failed, or None."""
    document = msgspec.json.decode(service.body)
    workload = Workload(
        service=service.id,
        family=service.family,
        name=document["name"],
        environment=service.parent,
        deployment=deployment.id,
        document=document,
    )
    try:
        await ctx.engine.apply(workload)
    except EngineError as error:
        return str(error)
    return None


async def _end(ctx: Context, claim: Claim, deployment: DeploymentRow, failure: str | None) -> None:
    async def change(tx: Tx) -> None:
        await _fence(tx, claim)
        service, current = await tx.get(claim.id), await tx.deployment(deployment.id)
        if service is None or current is None or current.status != Progress.DEPLOYING:
            return
        if failure is None:
            closed = await close(tx, current, Progress.SUCCEEDED, "")
            await _set_state(tx, service, State.DEPLOYED, "")
            announce(tx, Event.DEPLOYMENT_SUCCEEDED, service, closed)
        else:
            closed = await close(tx, current, Progress.FAILED, failure)
            await _set_state(tx, service, State.DEPLOYMENT_ERROR, failure)
            announce(tx, Event.DEPLOYMENT_FAILED, service, closed, failure)

    await ctx.store.write(change)
    if failure:
        ctx.logs.write(claim.id, ctx.clock.now(), f"Deployment {deployment.id} failed: {failure}")


async def _fence(tx: Tx, claim: Claim) -> None:
    if not await tx.held(claim):
        raise LostClaim(claim.id)


async def _set_state(tx: Tx, service: Row, state: State, message: str) -> None:
    status = await tx.status(service.id)
    assert status is not None
    deployed_at = tx.now if state in {State.DEPLOYED, State.DEPLOYMENT_ERROR} else status.deployed_at
    await tx.change_status(
        msgspec.structs.replace(status, state=state, message=message, deployed_at=deployed_at)
    )
