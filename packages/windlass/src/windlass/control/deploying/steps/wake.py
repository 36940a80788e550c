"""Ends the instances of a service that sleeps, and starts them again when it is woken.

The version that serves stays the same, so nothing is built, and no deployment is recorded.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from windlass.base.slot_waits import waiting
from windlass.control.deploying.after_start import wait_until_ready
from windlass.control.deploying.before_stop import run_before_stop
from windlass.control.deploying.ledger import Ledger, fence
from windlass.control.deploying.release import apply, drain, retire_others
from windlass.control.deploying.routes import all_endpoints, refresh, reserve
from windlass.control.records.deployments import status_of
from windlass.control.records.sleep import wake_up
from windlass.core.deploy.scaling import count_of
from windlass.core.deploy.states import ENDING_ACTIONS, Sleep, State
from windlass.engines.engine import EngineError, EngineUnavailable
from windlass.engines.workload import Observation, Workload
from windlass.routers.router import RouteError
from windlass.store import Tx

_MAX_DELAY: Final = 15.0
"""Seconds for which a deployment waits at most until the present version is awake."""
_LOOK_SECONDS: Final = 1.0
"""Seconds between two checks whether a person has asked for a deployment of a service that is being woken."""


async def keep_asleep(ledger: Ledger, workload: Workload) -> None:
    """Ends all instances. Requests are held first, and those in progress finish. A service that is woken
    meanwhile keeps its instances."""
    ctx, place, service = ledger.ctx, ledger.place, ledger.service
    await reserve_quietly(ledger, workload)
    seen = await refresh(ctx, service.id)
    own = Observation(tuple(seen)).of(workload.generation).instances
    if own:
        await ctx.point("about to fall asleep")
        await drain(place, all_endpoints(workload, own), workload.grace)
        if (await status_of(ctx.store.reads, service)).sleep == Sleep.ASLEEP:
            await ledger.check_claim()
            with waiting.get()():
                left = await run_before_stop(ctx, service.id, own, workload.grace)
            await place.engine.apply(replace(workload, grace=left), 0)
    await retire_others(ctx, workload, ledger.status.deployments, ledger.check_claim, known_instances=seen)
    await ctx.point("asleep")
    await ledger.rest()


async def reserve_quietly(ledger: Ledger, workload: Workload) -> None:
    """Keeps the ports of the service, at which its next request arrives. One that is not available is
    reported when the service is woken."""
    with suppress(RouteError, EngineError):
        await reserve(ledger.ctx, workload)


async def wake(ledger: Ledger) -> None:
    """Starts the instances of the version that serves, and waits until they are ready: held requests go on
    only then."""
    ctx, workload = ledger.ctx, await ledger.find_serving()
    count = count_of(workload, workload.instances) if workload else 0
    state, message, ready = State.DEPLOYED, "", 0
    if workload is not None:
        try:
            ready = await _start(ledger, workload, count)
        except EngineUnavailable:
            raise
        except (EngineError, RouteError) as error:
            state, message = State.DEPLOYMENT_ERROR, ctx.logs.masks.text(workload.deployment, str(error))
    await ctx.point("about to be awake")

    async def write(tx: Tx) -> None:
        await fence(tx, ledger.claim)
        status = await status_of(tx, ledger.service)
        if status.sleep == Sleep.WAKING:
            status = replace(status, instances=count, running=ready, ready=ready)
            await wake_up(tx, ledger.service, status, state, message)

    await ctx.store.write(write)
    await refresh(ctx, ledger.service.id)
    await ctx.point("woken")
    line = f"It did not wake up: {message}" if message else "Awake"
    ctx.logs.write(ledger.service.id, ctx.clock.now(), line)


async def _start(ledger: Ledger, workload: Workload, count: int) -> int:
    """Returns the number of instances that are ready."""
    ctx = ledger.ctx
    await ctx.point("about to wake")
    await reserve(ctx, workload)
    await apply(ctx, workload, count, ledger.check_claim)
    await ctx.point("started to wake")
    ready = asyncio.ensure_future(wait_until_ready(ctx, workload, count))
    try:
        with waiting.get()():
            await _wait(ledger, ready)
        if not ready.done():
            return 0
        await ready
        return count
    finally:
        ready.cancel()
        await asyncio.gather(ready, return_exceptions=True)


async def _wait(ledger: Ledger, ready: asyncio.Future[None]) -> None:
    """Waits until the instances are ready or have failed. A stop does not wait for that, and a deployment
    only for a while: it may repair what does not start."""
    reads, until = ledger.ctx.store.reads, time.monotonic() + _MAX_DELAY
    while not ready.done():
        waiting_deployments = await reads.deployments.open(ledger.service.id)
        if any(row.action in ENDING_ACTIONS for row in waiting_deployments):
            return
        if waiting_deployments and time.monotonic() > until:
            return
        await asyncio.wait([ready], timeout=_LOOK_SECONDS)
