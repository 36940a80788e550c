"""What is done from time to time, and after a deletion: nothing is left of what nobody asks for."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from itertools import groupby

from msgspec import Struct, field
from msgspec.structs import replace

from windlass.base.clock import DAY, HOUR, MINUTE, SECOND
from windlass.control.builds import sweep_work
from windlass.control.context import Context
from windlass.control.deployments import RECONCILE, particulars
from windlass.control.release import count_of
from windlass.control.resources import DISCARD
from windlass.control.wanted import open_wanted
from windlass.core.runtime import Instance, Phase, Usage, Wanted
from windlass.core.scaling import scaled
from windlass.core.states import OPEN, Progress
from windlass.engines.engine import EngineAway
from windlass.store.store import Claim, Tx

SWEEP, TIDY, SCALE = "sweep", "tidy", "scale"
SCALE_EVERY, TIDY_EVERY = 15 * SECOND, 10 * MINUTE


async def sweep(ctx: Context, claim: Claim) -> None:
    """Lets go of what nobody asks for any more, and comes back in an hour."""

    async def change(tx: Tx) -> None:
        await tx.sweep(answers_before=tx.now - DAY, budgets_before=tx.now - 2 * HOUR)
        await tx.again(claim, tx.now + HOUR)

    await ctx.store.write(change)


async def tidy(ctx: Context, claim: Claim) -> None:
    """Takes away what runs, was built or was written for services that are no more, and old builds."""
    services = await ctx.store.reads.services()
    with suppress(EngineAway):  # It is asked again next time.
        await ctx.engine.sweep(services)
    await ctx.builder.sweep({id: await _kept(ctx, id) for id in services})
    await ctx.servers.sweep(services)
    working = {one.id for id in services for one in await ctx.store.reads.open_deployments(id)}
    await sweep_work(ctx, working)
    ctx.logs.sweep(services)
    await ctx.store.write(lambda tx: tx.again(claim, tx.now + TIDY_EVERY))


async def _kept(ctx: Context, service: str) -> list[str]:
    """Keys of the builds that may be needed: of what serves, what is under way, and the last few that ran."""
    status = await ctx.store.reads.status(service)
    kept: list[str] = []
    good: dict[str, None] = {}
    for row in await ctx.store.reads.deployments(service, 1000):
        made = particulars(row).made
        if made is None:
            continue
        if row.status in OPEN or (status and row.id == status.serving):
            kept.append(made.artifact.key)
        elif row.status == Progress.SUCCEEDED and len(good) < ctx.settings.kept_artifacts:
            good[made.artifact.key] = None
    return [*dict.fromkeys([*kept, *good])]


async def discard(ctx: Context, claim: Claim) -> None:
    """A service was deleted: so is everything that was made for it."""
    service = claim.id.removeprefix(f"{DISCARD}:")
    ctx.watch.forget(service)
    await ctx.router.forget(service)
    await ctx.engine.discard(service)
    await ctx.point("discarded")
    await ctx.builder.discard(service)
    await ctx.servers.discard(service)
    ctx.logs.forget(service)
    await ctx.store.write(lambda tx: tx.done(claim))


# Scaling


class Sample(Struct):
    """What was seen of a service the last time."""

    at: int
    used: Mapping[str, Usage]
    changed: int = 0


class Scaler(Struct):
    samples: dict[str, Sample] = field(default_factory=dict)

    async def scale(self, ctx: Context, claim: Claim) -> None:
        """Looks at how busy everything is, and asks for more or fewer instances."""
        try:
            await self._look(ctx)
        finally:
            await ctx.store.write(lambda tx: tx.again(claim, tx.now + SCALE_EVERY))

    async def _look(self, ctx: Context) -> None:
        now = ctx.clock.now()
        try:
            usage, everything = await ctx.engine.usage(), await ctx.engine.all()
        except EngineAway:
            return
        ordered = sorted(everything, key=lambda one: one.service)
        for service, instances in groupby(ordered, key=lambda one: one.service):
            await self._judge(ctx, service, list(instances), usage, now)

    async def _judge(
        self, ctx: Context, service: str, instances: list[Instance], usage: Mapping[str, Usage], now: int
    ) -> None:
        before = self.samples.get(service)
        mine = {one.id: usage[one.id] for one in instances if one.id in usage}
        sample = Sample(now, mine, before.changed if before else now)
        self.samples[service] = sample
        status = await ctx.store.reads.status(service)
        serving = await ctx.store.reads.deployment(status.serving) if status and status.serving else None
        wanted = open_wanted(ctx, serving) if serving else None
        if before is None or wanted is None or status is None or wanted.most <= wanted.instances:
            return
        load = _load(before, sample, wanted, instances)
        count = count_of(wanted, status.instances or wanted.instances)
        target = scaled(count, wanted.instances, wanted.most, load, now - sample.changed)
        if target == count:
            return
        sample.changed = now

        async def change(tx: Tx) -> None:
            current = await tx.status(service)
            if current and current.serving == wanted.deployment:
                await tx.change_status(replace(current, instances=target))
                await tx.ask(RECONCILE, service, org=current.org)

        await ctx.store.write(change)
        ctx.logs.write(
            service, now, f"Scaled from {count} to {target} instances at {load:.0%} of the processor time"
        )


def _load(before: Sample, after: Sample, wanted: Wanted, instances: list[Instance]) -> float:
    """Mean share of the processor time asked for, of the instances seen both times."""
    running = {
        one.id for one in instances if one.phase is Phase.RUNNING and one.generation == wanted.generation
    }
    both = [id for id in after.used if id in before.used and id in running]
    passed = (after.at - before.at) / 1000
    if not both or passed <= 0:
        return AIM_WHEN_UNKNOWN
    spent = sum(max(0, after.used[id].cpu_ms - before.used[id].cpu_ms) for id in both) / 1000
    return spent / passed / len(both) / (wanted.cpu / 1000)


AIM_WHEN_UNKNOWN = 0.6
"""Calls for no change."""
