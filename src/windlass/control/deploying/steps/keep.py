"""Keeps a service as it was deployed last: all its instances, no others, and their health noted."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.control.deploying.ledger import Ledger
from windlass.control.deploying.release import count_of, end_up_to, retire_others, start, surplus
from windlass.control.deploying.routes import all_endpoints, refresh, reserve
from windlass.core.deploy.states import State
from windlass.core.deploy.workload import Instance, Phase, Workload
from windlass.engines.engine import EngineAway, EngineError
from windlass.routers.router import RouteError
from windlass.store.store import StatusRow

TRY_AGAIN = 30_000
"""Milliseconds after which a service that cannot run is tried again."""


async def keep(ledger: Ledger) -> None:
    ctx, status = ledger.ctx, ledger.status
    workload = await ledger.serving()
    if workload is None:
        await ledger.rested()
        return
    count = count_of(workload, status.instances or workload.instances)
    try:
        await _start_missing(ledger, workload, count)
    except EngineAway:
        raise
    except (EngineError, RouteError) as error:
        await ledger.noted(workload, State.DEPLOYMENT_ERROR, str(error))
        await ledger.put_off(TRY_AGAIN)
        return
    seen = await refresh(ctx, ledger.service.id)
    # No deployment waits or is under way: of all that was ever asked for, only this is meant to run.
    await retire_others(ctx, workload, status.deployments, seen=seen)
    if extra := surplus(seen, workload, count):
        await _remove(ledger, workload, extra)
    ctx.watch.keep(workload)
    if health := health_of(workload, [instance for instance in seen if instance not in extra], status):
        await ledger.noted(workload, *health)
    await ledger.rested()


async def clear(ledger: Ledger) -> None:
    """Ends what runs of a service that is not meant to run: a worker that lost its lease may have begun it,
    and what ran once has ended."""
    await end_up_to(
        ledger.ctx, ledger.service.id, ledger.status.deployments, ledger.ctx.settings.stop_seconds
    )
    await ledger.rested()


async def _start_missing(ledger: Ledger, workload: Workload, count: int) -> None:
    ctx = ledger.ctx
    await ctx.point("about to keep")
    await reserve(ctx, workload)
    for index in range(count):
        await start(ctx, workload, index)
    if count:
        await ledger.volumes_noted(workload)
    await ctx.point("kept")


async def _remove(ledger: Ledger, workload: Workload, instances: Sequence[Instance]) -> None:
    """Removes instances, after their requests have finished."""
    ctx = ledger.ctx
    ids = {instance.id for instance in instances}
    ctx.unwell.update(ids)
    await refresh(ctx, workload.service)
    await ledger.place.router.drain(all_endpoints(workload, instances), workload.grace)
    await ctx.point("about to remove what is too many")
    await ledger.held()
    await ledger.place.engine.remove(
        workload.service,
        generation=workload.generation,
        indexes=[instance.index for instance in instances],
        grace=workload.grace,
    )
    await ctx.point("removed what was too many")
    ctx.unwell.difference_update(ids)


def health_of(
    workload: Workload, instances: Sequence[Instance], status: StatusRow
) -> tuple[State, str] | None:
    """Returns the state of a service and the reason for it, or None if there is nothing to say."""
    own = [instance for instance in instances if instance.generation == workload.generation]
    broken = [instance for instance in own if instance.phase is not Phase.RUNNING]
    troubled = broken or [instance for instance in own if instance.restarts]
    message = ""
    if troubled:
        worst = max(troubled, key=lambda instance: instance.restarts)
        times = "once" if worst.restarts == 1 else f"{worst.restarts} times"
        message = f"{workload.name} {worst.reason or 'ended'}; it was started anew {times}"
    was = State(status.state)
    recovered = was is State.DEPLOYMENT_ERROR and status.deployment == status.serving
    state = State.DEPLOYMENT_ERROR if broken else State.DEPLOYED if recovered else was
    return (state, message) if state is not was or troubled else None
