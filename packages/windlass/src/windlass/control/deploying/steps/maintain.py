"""Keeps a service in the state of its last deployment: starts missing instances, ends others, and records the
health."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from msgspec.structs import replace

from windlass.control.deploying.after_start import run_after_start, running_instances
from windlass.control.deploying.ledger import Ledger, fence
from windlass.control.deploying.rebuilding import is_rebuild, rebuild
from windlass.control.deploying.release import apply, end_up_to, retire_others
from windlass.control.deploying.routes import refresh, reserve
from windlass.control.deploying.steps.wake import keep_asleep
from windlass.control.records.deployments import status_of
from windlass.core.deploy.scaling import count_of
from windlass.core.deploy.states import Do, State
from windlass.engines.engine import ArtifactLost, EngineError, EngineUnavailable, NotReady
from windlass.engines.start_remedies import LOG_HINT, with_remedy
from windlass.engines.workload import Instance, Observation, Phase, Workload
from windlass.routers.router import RouteError
from windlass.store import StatusRow, Tx

RETRY_PAUSE_MS = 30_000
"""Milliseconds until a service that cannot run is tried again."""
SLOW_START = 2.0
"""Seconds after which a start counts as slow. An engine that was just started may need minutes."""
_STARTING_ADVICE = "Wait until {} runs again: none of its instances runs, and they are being started"


async def keep(ledger: Ledger) -> None:
    ctx, status = ledger.ctx, ledger.status
    workload = await ledger.find_serving()
    if workload is None:
        await ledger.rest()
        return
    if status.sleep:
        await keep_asleep(ledger, workload)
        return
    count = count_of(workload, status.instances or workload.instances)
    try:
        await _apply_and_show(ledger, workload, count)
    except EngineUnavailable:
        raise
    except (EngineError, RouteError) as error:
        await _record_remaining(ledger, workload)
        failure = await rebuild(ledger) if isinstance(error, ArtifactLost) else ""
        await (ledger.rest() if failure is None else _report(ledger, workload, failure or str(error)))
        return
    seen = await refresh(ctx, ledger.service.id)
    # No deployment waits or is in progress, so only this generation may run.
    await retire_others(ctx, workload, ledger.status.deployments, known_instances=seen)
    if health := health_of(workload, seen, ledger.status, is_newest=await _is_newest(ledger)):
        await ledger.note_health(workload, *health)
    await _note_instances(ledger, Observation(tuple(seen)).of(workload.generation))
    await ledger.rest()


async def _report(ledger: Ledger, workload: Workload, reason: str) -> None:
    """Records why a service cannot run, and schedules another attempt."""
    await ledger.note_health(workload, State.DEPLOYMENT_ERROR, reason)
    await ledger.put_off(RETRY_PAUSE_MS)


async def clear(ledger: Ledger) -> None:
    """Ends all instances of a service that must not run. A worker that lost its lease may have started them,
    or they belong to a finished run."""
    await end_up_to(
        ledger.ctx, ledger.service.id, ledger.status.deployments, ledger.ctx.settings.stop_seconds
    )
    await ledger.rest()


async def _record_remaining(ledger: Ledger, workload: Workload) -> None:
    """Records how many instances of a service remain after a failed start. If the engine cannot report them,
    the recorded numbers stay."""
    with suppress(EngineError):
        seen = await ledger.place.engine.observe(ledger.service.id)
        await _note_instances(ledger, seen.of(workload.generation))


async def _note_instances(ledger: Ledger, observation: Observation) -> None:
    """Records how many instances run and are ready, if the numbers have changed."""
    running, ready = len(observation.instances) - len(observation.broken), len(observation.ready)
    if (running, ready) == (ledger.status.running, ledger.status.ready):
        return

    async def write(tx: Tx) -> None:
        await fence(tx, ledger.claim)
        status = await status_of(tx, ledger.service)
        await tx.statuses.change(replace(status, running=running, ready=ready))

    await ledger.ctx.store.write(write)


async def _apply_and_show(ledger: Ledger, workload: Workload, count: int) -> None:
    loop = asyncio.get_running_loop()
    slow_from = loop.time() + SLOW_START
    showing = asyncio.create_task(_show_meanwhile(ledger, workload, count))
    try:
        await _apply(ledger, workload, count)
    finally:
        showing.cancel()
        (end,) = await asyncio.gather(showing, return_exceptions=True)
    if isinstance(end, Exception):
        raise end
    if loop.time() >= slow_from:  # it was shown
        ledger.status = await status_of(ledger.ctx.store.reads, ledger.service)


async def _show_meanwhile(ledger: Ledger, workload: Workload, count: int) -> None:
    """During a slow start, routes requests to the instances that run already, and records how many there are.
    Otherwise they could not be reached until the last one is started."""
    ctx, service = ledger.ctx, ledger.service
    while True:
        await asyncio.sleep(SLOW_START)
        with suppress(EngineError, RouteError):  # the start reports what is wrong
            own = Observation(tuple(await refresh(ctx, service.id))).of(workload.generation)
            await _note_instances(ledger, own)
            if count and len(own.broken) == len(own.instances) and await _is_newest(ledger):
                advice = _STARTING_ADVICE.format(workload.name)
                await ledger.note_health(workload, State.DEPLOYMENT_ERROR, advice)
            ledger.status = await status_of(ctx.store.reads, service)


async def _apply(ledger: Ledger, workload: Workload, count: int) -> None:
    ctx = ledger.ctx
    await ctx.point("about to keep")
    await reserve(ctx, workload)
    known = await running_instances(ctx, workload) if workload.after_start else frozenset[str]()
    await apply(ctx, workload, count, ledger.check_claim)
    if count:
        await ledger.note_volumes(workload)
    try:
        await run_after_start(ctx, workload, count, known)
    except NotReady as error:
        ctx.logs.write(workload.service, ctx.clock.now(), str(error), version=workload.deployment)
    await ctx.point("kept")


async def _is_newest(ledger: Ledger) -> bool:
    """Returns whether the serving version is the newest requested one. A restart and a rebuild request no
    other version. So if one failed, such as because the machine was restarted meanwhile, the service is
    healthy again once all its instances run."""
    status = ledger.status
    if status.deployment == status.serving:
        return True
    last = await ledger.ctx.store.reads.deployments.get(status.deployment) if status.deployment else None
    return last is not None and (last.action == Do.RESTART or is_rebuild(last, status.serving))


def health_of(
    workload: Workload, instances: Sequence[Instance], status: StatusRow, *, is_newest: bool
) -> tuple[State, str] | None:
    """Returns the state of a service and the reason for it, or None if there is nothing to report.
    `is_newest` is whether the serving version is the newest requested one. Otherwise the state may show the
    failure of a later version."""
    own = [instance for instance in instances if instance.generation == workload.generation]
    broken = [instance for instance in own if instance.phase is not Phase.RUNNING]
    troubled = broken or [instance for instance in own if instance.restarts]
    message = ""
    if troubled:
        worst = max(troubled, key=lambda instance: instance.restarts)
        times = "once" if worst.restarts == 1 else f"{worst.restarts} times"
        restarted = f"; it was restarted {times}" if worst.restarts else ""
        end = f"{LOG_HINT}{workload.name} {worst.reason or 'ended'}{restarted}"
        message = with_remedy(end, workload.name, ())
    was = State(status.state)
    recovered = was is State.DEPLOYMENT_ERROR and is_newest
    state = State.DEPLOYMENT_ERROR if broken else State.DEPLOYED if recovered else was
    return (state, message) if state is not was or troubled else None
