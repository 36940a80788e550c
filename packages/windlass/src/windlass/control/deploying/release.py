"""Releases a new generation beside the old one: start, wait until healthy, switch, drain, remove.

Every step is idempotent: after a crash the steps start again and find most of the work done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from windlass.base.segments import line_filter
from windlass.base.slot_waits import waiting
from windlass.control.context.context import Context
from windlass.control.context.place import Place
from windlass.control.deploying.after_start import wait_until_ready
from windlass.control.deploying.before_stop import run_before_stop
from windlass.control.deploying.restored_database import examine
from windlass.control.deploying.retry_later import Note, wait_while_unavailable
from windlass.control.deploying.routes import all_endpoints, refresh, reserve
from windlass.control.deploying.sites import put_in_place
from windlass.control.records.served_names import known_as
from windlass.engines.engine import EngineError, EngineUnavailable, ListensElsewhere, NotReady
from windlass.engines.workload import Instance, Workload
from windlass.routers.router import Endpoint, RouteError

T = TypeVar("T")

LAST_LINES = 10
"""The number of log lines that are shown after a failure."""


Check = Callable[[], Awaitable[None]]


async def _no_check() -> None:
    """Does nothing: generations that must not run are ended without a check of the claim."""


class ReleaseFailed(Exception):
    """The release failed. The message is for the person who deployed it."""


async def bring_up(
    ctx: Context,
    new_workload: Workload,
    old_workload: Workload | None,
    count: int,
    check: Check,
    note_reason: Note,
) -> None:
    """Starts the new generation and waits until it is healthy. The old generation keeps running meanwhile,
    unless the two cannot run together. Raises ListensElsewhere if the program listens on another port than
    the chosen one.

    `check` raises if another worker has the claim, because only the worker that replaces a serving generation
    may end it. `note_reason` records why the release waits, either for its engine or for healthy instances.
    """
    await ctx.point("about to reserve")
    try:
        await reserve(ctx, new_workload, old_workload)
    except EngineUnavailable:
        raise
    except (EngineError, RouteError) as error:
        raise ReleaseFailed(str(error)) from error
    await ctx.point("reserved")
    try:
        if new_workload.alone:
            await retire_others(ctx, new_workload, new_workload.generation, check)
        await ctx.point("about to start")
        await wait_while_unavailable(
            new_workload.patience, lambda: apply(ctx, new_workload, count, check), note_reason
        )
        await ctx.point("started")
    except EngineError as error:
        raise ReleaseFailed(str(error)) from error
    try:
        with waiting.get()():
            await wait_until_ready(ctx, new_workload, count, note_reason)
    except ListensElsewhere:
        raise
    except NotReady as error:
        raise ReleaseFailed(str(error)) from error
    await ctx.point("well")


async def apply(ctx: Context, workload: Workload, count: int, check: Check) -> None:
    """Makes the engine run `count` instances. Surplus instances are drained before they end."""
    place, left = await ctx.places.of(workload.service), False
    await examine(ctx, place)
    await put_in_place(ctx, place, workload)

    async def leave(surplus: Sequence[Instance]) -> None:
        nonlocal left
        left = True
        await refresh(ctx, workload.service)
        await drain(place, all_endpoints(workload, surplus), workload.grace)
        await ctx.point("about to remove what is too many")
        await check()

    await place.engine.apply(await _as_neighbours_see_it(ctx, workload), count, leave)
    if left:
        await ctx.point("removed what was too many")


async def _as_neighbours_see_it(ctx: Context, workload: Workload) -> Workload:
    """Returns the workload with its host name in the environment, and with its existing volumes marked."""
    held = known_as(workload.name, await ctx.store.reads.names.of(workload.service))
    name = held.name.rpartition(" ")[2] if held else ""
    return await with_known_volumes(ctx, replace(workload, known_as=name))


async def with_known_volumes(ctx: Context, workload: Workload) -> Workload:
    """Marks volumes of earlier deployments as existing. The engine fails if one of them is lost."""
    if not workload.volumes:
        return workload
    names = await ctx.store.reads.volumes.of(workload.service)
    marked = [replace(volume, is_known=volume.name in names) for volume in workload.volumes]
    return replace(workload, volumes=tuple(marked))


async def retire_others(
    ctx: Context,
    new_workload: Workload,
    newest_generation: int,
    check: Check = _no_check,
    known_instances: Sequence[Instance] | None = None,
) -> None:
    """Drains and ends the other generations, except those above `newest_generation`: a worker that was paused
    past its lease must not end newer generations. `known_instances` contains the present instances, if the
    caller has observed them."""
    place = await ctx.places.of(new_workload.service)
    instances = (
        (await place.engine.observe(new_workload.service)).instances
        if known_instances is None
        else known_instances
    )
    others = [
        instance
        for instance in instances
        if instance.generation <= newest_generation and instance.generation != new_workload.generation
    ]
    if not others:
        return
    await ctx.point("about to drain")
    await drain(place, all_endpoints(new_workload, others), new_workload.grace)
    await ctx.point("drained")
    await _end(ctx, new_workload.service, others, new_workload.grace, check)


async def drain(place: Place, endpoints: Sequence[Endpoint], grace: float) -> None:
    """Waits until requests in progress have finished, for the grace period at most."""
    with waiting.get()():
        await place.router.drain(endpoints, grace)


async def end_up_to(ctx: Context, service: str, newest_generation: int, grace: float) -> None:
    """Ends all generations up to `newest_generation`. Newer generations may belong to another worker."""
    await _end(ctx, service, await _instances_up_to(ctx, service, newest_generation), grace)


async def _instances_up_to(ctx: Context, service: str, newest_generation: int) -> list[Instance]:
    place = await ctx.places.of(service)
    await examine(ctx, place)
    seen = await place.engine.observe(service)
    return [instance for instance in seen.instances if instance.generation <= newest_generation]


async def _end(
    ctx: Context, service: str, instances: Sequence[Instance], grace: float, check: Check = _no_check
) -> None:
    place = await ctx.places.of(service)
    for generation in sorted({instance.generation for instance in instances}):
        await ctx.point("about to retire")
        await check()
        ending = [instance for instance in instances if instance.generation == generation]
        with waiting.get()():
            left = await run_before_stop(ctx, service, ending, grace)
            await place.engine.remove(service, generation=generation, grace=left)
        await ctx.point("retired")


async def take_down(
    ctx: Context, new_workload: Workload, old_workload: Workload | None, count: int, check: Check
) -> None:
    """Removes the new generation, and restores the old generation if it had to end first."""
    place = await ctx.places.of(new_workload.service)
    await ctx.point("about to take back")
    await place.engine.remove(
        new_workload.service, generation=new_workload.generation, grace=new_workload.grace
    )
    await ctx.point("taken back")
    if old_workload is None:
        await place.router.reserve(new_workload.service, [])
        return
    # If the old generation cannot be restored now, the keep step follows, retries, and reports the reason.
    with suppress(RouteError, EngineError):
        await reserve(ctx, old_workload)
        if new_workload.alone:
            await ctx.point("about to bring back")
            await apply(ctx, old_workload, count, check)
            await ctx.point("brought back")
    await refresh(ctx, new_workload.service)


async def last_output(ctx: Context, service: str, version: str, limit: int = LAST_LINES) -> str:
    """Returns the last log lines of a deployment or run, regardless of lines that other deployments have
    written since."""
    lines = await asyncio.to_thread(ctx.logs.tail, service, limit, line_filter(version=version))
    return "\n".join(msgspec.json.decode(line)["message"] for line in lines)
