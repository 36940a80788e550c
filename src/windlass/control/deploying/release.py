"""The new beside the old: start, wait until it is well, switch, let the old finish, take it away.

Every step may run twice: whoever comes back after a crash begins at the first and finds most of it done.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from windlass.builders.builder import BuilderAway
from windlass.control.deploying.routes import all_endpoints, refresh, reserve
from windlass.control.request.context import Context
from windlass.core.deploy.workload import Instance, Phase, Workload
from windlass.engines.engine import EngineAway, EngineError
from windlass.routers.router import RouteError

T = TypeVar("T")

FIRST_LOOK, LATER, LONGEST_LOOK = 0.005, 1.25, 1.0
_LOOKS = 100
LAST_WORDS = 10
"""How many lines of what it wrote are shown when it fails."""


Check = Callable[[], Awaitable[None]]


async def _surely() -> None:
    """What is ended was given up before, in the books: it matters to nobody who ends it, and when."""


class ReleaseFailed(Exception):
    """It did not come up; the message is for the person who deployed."""


async def bring_up(ctx: Context, new: Workload, old: Workload | None, count: int, held: Check) -> None:
    """The new generation runs and is well; the old one still runs beside it, unless they cannot. `held`
    raises when somebody else does this now: what serves is ended only by who is sure to put it right."""
    await ctx.point("about to reserve")
    try:
        await reserve(ctx, new, old)
    except RouteError as error:
        raise ReleaseFailed(str(error)) from error
    await ctx.point("reserved")
    try:
        if new.alone:
            await retire_others(ctx, new, new.generation, held)
        started = [await _started(ctx, new, index) for index in range(count)]
    except EngineError as error:
        raise ReleaseFailed(str(error)) from error
    # The first of several may have ended by the time the last has begun.
    await wait_until_healthy(ctx, new, count, started if count == 1 and new.ready else ())
    await ctx.point("well")


async def _started(ctx: Context, new: Workload, index: int) -> Instance:
    await ctx.point("about to start")
    instance = await wait_while_away(ctx, new.patience, lambda: start(ctx, new, index))
    await ctx.point("started")
    return instance


async def start(ctx: Context, wanted: Workload, index: int) -> Instance:
    """Starts an instance; the engine fails where a volume of earlier deployments is lost."""
    if wanted.volumes:
        known = await ctx.store.reads.volumes(wanted.service)
        marked = [replace(volume, is_known=volume.name in known) for volume in wanted.volumes]
        wanted = replace(wanted, volumes=tuple(marked))
    place = await ctx.places.of(wanted.service)
    return await place.engine.run(wanted, index)


async def wait_until_healthy(
    ctx: Context, wanted: Workload, count: int, seen: Sequence[Instance] = ()
) -> None:
    """Returns when all instances are well; raises Failed when one ended, or when patience does.

    `seen`: how they are at this moment, if that is known."""
    deadline, pause = time.monotonic() + wanted.patience, FIRST_LOOK
    passed: dict[str, int] = {}
    while count:
        instances = seen or await wait_while_away(ctx, wanted.patience, lambda: _own(ctx, wanted))
        seen = ()
        for one in instances:
            if one.phase is not Phase.RUNNING or one.restarts:
                raise ReleaseFailed(f"{wanted.name} {await _why(ctx, wanted, one)} while it was starting")
        troubles = await asyncio.gather(*(_trouble(ctx, wanted, one, passed) for one in instances))
        missing = count - len(instances)
        reasons = [trouble for trouble in troubles if trouble]
        if not reasons and missing <= 0:
            return
        if time.monotonic() > deadline:
            why = reasons[0] if reasons else f"{missing} of its instances never started"
            raise ReleaseFailed(f"{wanted.name} was not well after {wanted.patience:.0f} seconds: {why}")
        await asyncio.sleep(pause)
        pause = min(pause * LATER, LONGEST_LOOK)


async def _why(ctx: Context, wanted: Workload, one: Instance) -> str:
    """An engine sees that something has ended before it knows how."""
    for _ in range(_LOOKS):
        if one.reason:
            return one.reason
        await asyncio.sleep(FIRST_LOOK)
        seen = await wait_while_away(ctx, wanted.patience, lambda: _own(ctx, wanted))
        one = next((other for other in seen if other.id == one.id), one)
    return "ended"


async def _own(ctx: Context, wanted: Workload) -> list[Instance]:
    place = await ctx.places.of(wanted.service)
    seen = await place.engine.observe(wanted.service)
    return [one for one in seen if one.generation == wanted.generation]


async def _trouble(ctx: Context, wanted: Workload, instance: Instance, passed: dict[str, int]) -> str:
    """What is not well with it yet, or an empty text."""
    if not wanted.ready:
        age = (ctx.clock.now() - instance.started_at) / 1000
        return "" if age >= wanted.settle else "it has not run for long enough"
    place = await ctx.places.of(wanted.service)
    for position, probe in enumerate(wanted.ready):
        key = f"{instance.id}/{position}"
        if passed.get(key, 0) >= probe.successes:
            continue
        if trouble := await place.probe(place.engine, instance, probe):
            passed[key] = 0
            return trouble
        passed[key] = passed.get(key, 0) + 1
        if passed[key] < probe.successes:
            return "it was well, but not often enough yet"
    return ""


async def retire_others(
    ctx: Context, new: Workload, newest: int, held: Check = _surely, seen: Sequence[Instance] | None = None
) -> None:
    """Lets the other generations finish what is under way, then ends them.

    None beyond `newest`: whoever was paused past its lease must not end what was begun since. `seen`: what
    there is at this moment, if that is known."""
    place = await ctx.places.of(new.service)
    there = await place.engine.observe(new.service) if seen is None else seen
    others = [one for one in there if one.generation <= newest and one.generation != new.generation]
    if not others:
        return
    await ctx.point("about to drain")
    await place.router.drain(all_endpoints(new, others), new.grace)
    await ctx.point("drained")
    await _end(ctx, new.service, others, new.grace, held)


async def end_up_to(ctx: Context, service: str, newest: int, grace: float) -> None:
    """Nothing of these generations runs any more; of later ones, whoever asks may be too late to know."""
    await _end(ctx, service, await _up_to(ctx, service, newest), grace)


async def _up_to(ctx: Context, service: str, newest: int) -> list[Instance]:
    place = await ctx.places.of(service)
    return [one for one in await place.engine.observe(service) if one.generation <= newest]


async def _end(
    ctx: Context, service: str, instances: Sequence[Instance], grace: float, held: Check = _surely
) -> None:
    place = await ctx.places.of(service)
    for generation in sorted({one.generation for one in instances}):
        await ctx.point("about to retire")
        await held()
        await place.engine.remove(service, generation=generation, grace=grace)
        await ctx.point("retired")


async def take_down(ctx: Context, new: Workload, old: Workload | None, count: int) -> str:
    """Nothing of the new generation stays, and the old one serves as before. Answers its last words."""
    place = await ctx.places.of(new.service)
    await ctx.point("about to take back")
    await place.engine.remove(new.service, generation=new.generation, grace=new.grace)
    await ctx.point("taken back")
    words = last_output(ctx, new)
    if old is None:
        await place.router.reserve(new.service, [])
        return words
    # What cannot be had back now, keeping sees to: it comes next, and says what is wrong.
    with suppress(RouteError, EngineError):
        await reserve(ctx, old)
        if new.alone:
            for index in range(count):
                await ctx.point("about to bring back")
                await start(ctx, old, index)
                await ctx.point("brought back")
    await refresh(ctx, new.service)
    return words


def last_output(ctx: Context, wanted: Workload) -> str:
    lines = [msgspec.json.decode(line) for line in ctx.logs.tail(wanted.service, 100)]
    own = [line["message"] for line in lines if line["version"] == wanted.deployment]
    return "\n".join(own[-LAST_WORDS:])


async def wait_while_away(ctx: Context, patience: float, deed: Callable[[], Awaitable[T]]) -> T:
    """Again, while what does it is away."""
    deadline, pause = time.monotonic() + patience, 0.1
    while True:
        try:
            return await deed()
        except (EngineAway, BuilderAway):
            if time.monotonic() > deadline:
                raise
        await asyncio.sleep(pause)
        pause = min(pause * 2, 5.0)


def count_of(wanted: Workload, asked: int) -> int:
    """How many instances: what scaling last asked for, within the bounds."""
    if wanted.alone:
        return min(1, wanted.instances)
    return max(wanted.instances, min(asked, wanted.most))


def surplus(instances: Sequence[Instance], wanted: Workload, count: int) -> list[Instance]:
    return [one for one in instances if one.generation == wanted.generation and one.index >= count]
