"""Periodic cleanup, erasure of deleted services, and autoscaling."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from msgspec import Struct, field
from msgspec.structs import replace

from windlass.base.clock import DAY, HOUR, MINUTE, SECOND, may_expire
from windlass.base.fair_share import FairShare
from windlass.base.log import log
from windlass.builders.builder import BuilderUnavailable
from windlass.control.background import service_data
from windlass.control.background.all_places import at_clusters, isolate_failures
from windlass.control.context.context import Context
from windlass.control.context.place import Place
from windlass.control.deploying.routes import forget
from windlass.control.people.callers import OWN_ISSUER
from windlass.control.records.deployments import RECONCILE
from windlass.control.records.sealed_workload import decrypt_workload
from windlass.control.reporting.webhooks import DELIVERY_RETENTION
from windlass.control.request.deleting import DISCARD
from windlass.control.services.pushes import sweep_pushed
from windlass.control.services.uploads import sweep_uploads
from windlass.control.workloads.work_folders import sweep_work
from windlass.core.deploy.scaling import count_of, scale
from windlass.engines.engine import Engine, EngineError, EngineUnavailable
from windlass.engines.environment_spaces import EnvironmentSpaces
from windlass.engines.workload import Instance, Phase, Usage, Workload
from windlass.store import Claim, Tx

SWEEP, TIDY, SCALE = "sweep", "tidy", "scale"
TIDY_ELSEWHERE, SCALE_ELSEWHERE = "tidy elsewhere", "scale elsewhere"
"""The same work for clusters with their own engine. Any server may claim it, because all servers can reach
these clusters."""
EVENTS_AT_ONCE = 500
_log = log("housekeeping")
UNKNOWN_REASON = "the database does not know it"
SCALE_INTERVAL, TIDY_INTERVAL = 15 * SECOND, 10 * MINUTE
ERASED_AT_ONCE = 2
"""The largest number of deleted services of one cluster that are erased concurrently, because all
organizations share the worker slots."""
ERASE_PAUSE, SLOW_PLACE_TIME = 2 * SECOND, MINUTE


async def sweep(ctx: Context, claim: Claim) -> None:
    """Removes expired rows of the database. Repeated every hour."""
    expires = may_expire(ctx.clock)
    if expires:
        await forget_events(ctx)

    async def change(tx: Tx) -> None:
        if expires:
            await tx.deliveries.delete_expired(tx.now - DELIVERY_RETENTION)
        await tx.idempotency.delete_expired(tx.now - DAY)
        await tx.budgets.delete_expired(tx.now - 2 * HOUR)
        await tx.receivers.delete_orphans()
        await tx.git_webhooks.delete_orphans()
        await tx.git_pushes.delete_orphans()
        await tx.image_pushes.delete_orphans()
        await tx.browser_sessions.delete_expired()
        await tx.people.delete_expired(OWN_ISSUER, tx.now - DAY)
        await tx.work.reschedule(claim, tx.now + HOUR)

    await ctx.store.write(change)


async def forget_events(ctx: Context) -> None:
    """Deletes audit events past their retention, in batches."""
    days = ctx.settings.audit_retention_days
    if not days:
        return

    async def change(tx: Tx) -> int:
        await tx.tokens.delete_revoked(tx.now - days * DAY)
        return await tx.events.delete_older(tx.now - days * DAY, EVENTS_AT_ONCE)

    while await ctx.store.write(change) == EVENTS_AT_ONCE:
        pass


async def tidy(ctx: Context, claim: Claim) -> None:
    """Erases the remaining data of deleted services, old builds and old log lines, and sets aside services
    that are missing in the database."""
    await ctx.point("about to sweep")
    await _sweep(ctx, ctx.places.local)
    await ctx.point("builds swept")
    await sweep_work(ctx)
    await sweep_uploads(ctx)
    await sweep_pushed(ctx)
    await service_data.sweep(ctx, ctx.logs)
    await service_data.set_unknown_aside(ctx, ctx.places.local, UNKNOWN_REASON)
    await ctx.point("swept")
    await ctx.store.write(lambda tx: tx.work.reschedule(claim, tx.now + TIDY_INTERVAL))


async def tidy_elsewhere(ctx: Context, claim: Claim) -> None:
    """Does the work of `tidy` for all clusters with their own engine."""

    async def at(place: Place) -> None:
        await _sweep(ctx, place)
        await service_data.set_unknown_aside(ctx, place, UNKNOWN_REASON)

    await at_clusters(ctx, TIDY_ELSEWHERE, at)
    await ctx.store.write(lambda tx: tx.work.reschedule(claim, tx.now + TIDY_INTERVAL))


async def discard(ctx: Context, claim: Claim) -> None:
    """Erases all data of a deleted service."""
    service = claim.id.removeprefix(f"{DISCARD}:")
    if not await ctx.store.reads.deletions.is_deleted(service):
        _log.error("nothing is erased of a service that was not deleted", extra={"service": service})
        await ctx.store.write(lambda tx: tx.work.done(claim))
        return
    cluster = await ctx.store.reads.deletions.left_at(service)
    place = await ctx.places.at(cluster)
    if place.reconnect is not None and ctx.places.erasing[place.id] >= ERASED_AT_ONCE:
        await ctx.store.write(lambda tx: tx.work.reschedule(claim, tx.now + ERASE_PAUSE))
        return
    async with ctx.routing[service]:
        await forget(ctx, place, service)
    await ctx.point("about to discard")
    if ctx.places.slow_until.get(place.id, 0) <= ctx.clock.now():
        await _discard_soon(ctx, place, service)
    await ctx.point("builds discarded")
    ctx.logs.forget(service)
    await ctx.point("logs forgotten")
    await ctx.store.write(lambda tx: tx.work.done(claim))


async def _discard_soon(ctx: Context, place: Place, service: str) -> None:
    """Erases all data of a deleted service. If the engine of its cluster is unavailable or slow, the next
    sweep erases the data. Erasures of the cluster's other services are then skipped for a minute, so that
    they do not occupy the shared slots."""
    is_erased = False
    ctx.places.erasing[place.id] += 1
    try:
        async with isolate_failures(place):
            await _discard_at(ctx, place, service)
            is_erased = True
    finally:
        ctx.places.erasing[place.id] -= 1
    if not is_erased:
        ctx.places.slow_until[place.id] = ctx.clock.now() + SLOW_PLACE_TIME


async def _discard_at(ctx: Context, place: Place, service: str) -> None:
    """Erases all data of a deleted service, and records that nothing is left."""
    if place.is_connected:
        await place.engine.discard(service)
        await ctx.point("discarded")
        await place.builder.discard(service)
        await place.servers.discard(service)
    await ctx.sites.discard(service)
    await ctx.git.discard(service)
    await ctx.pushed.discard(service)
    await ctx.store.write(lambda tx: tx.deletions.record_erased(service))


async def _sweep(ctx: Context, place: Place) -> None:
    with suppress(EngineUnavailable):  # The next sweep tries again.
        await service_data.sweep(ctx, place.engine)
        await _remove_environments(ctx, place.engine)
    await ctx.point("engine swept")
    with suppress(BuilderUnavailable):
        await service_data.sweep(ctx, place.builder)
    await service_data.sweep(ctx, place.servers)
    if place is ctx.places.local:
        await service_data.sweep(ctx, ctx.sites)
        await service_data.sweep(ctx, ctx.usage_files)
    if place.reconnect is not None:
        for service in await ctx.store.reads.deletions.left_on(place.id):
            await _discard_at(ctx, place, service)


async def _remove_environments(ctx: Context, engine: Engine) -> None:
    """Removes what an engine keeps for deleted environments."""
    if not isinstance(engine, EnvironmentSpaces):
        return
    try:
        kept, deletions = await engine.environments(), ctx.store.reads.deletions
        await engine.remove_environments([each for each in sorted(kept) if await deletions.is_deleted(each)])
    except EngineUnavailable:
        raise
    except EngineError as error:
        _log.warning("what an engine keeps for deleted environments stays", extra={"why": str(error)})


class Sample(Struct):
    """The last sample of a service's usage."""

    at: int
    used: Mapping[str, Usage]
    changed: int = 0


class Autoscaler(Struct):
    elsewhere: bool = False
    """Indicates whether this scales services on clusters with their own engine, instead of services on this
    machine."""
    samples: dict[str, Sample] = field(default_factory=dict)
    known: dict[str, Workload | None] = field(default_factory=dict)
    """Scalable workloads by deployment, without variables and files; None for a deployment that cannot be
    scaled. Workloads do not change, so entries stay valid."""

    async def scale(self, ctx: Context, claim: Claim) -> None:
        """Measures the load of all scalable services and changes their numbers of instances."""
        try:
            await self._check_services(ctx)
        finally:
            await ctx.store.write(lambda tx: tx.work.reschedule(claim, tx.now + SCALE_INTERVAL))

    async def _check_services(self, ctx: Context) -> None:
        able = await self._scalable(ctx)
        self.samples = {service: sample for service, sample in self.samples.items() if service in able}
        if not able:
            return

        async def look(place: Place) -> None:
            with suppress(EngineUnavailable):
                await self._look_at(ctx, place, able)

        if self.elsewhere:
            await at_clusters(ctx, SCALE_ELSEWHERE, look)
        else:
            await look(ctx.places.local)

    async def _look_at(self, ctx: Context, place: Place, able: Mapping[str, Workload]) -> None:
        """Scales the services of a place."""
        used, now = await place.engine.usage(), ctx.clock.now()
        by_service: dict[str, list[Instance]] = {}
        for instance in await place.engine.all():
            by_service.setdefault(instance.service, []).append(instance)
        for service, workload in able.items():
            if await ctx.places.of(service) is place:
                await self._scale_service(ctx, workload, by_service.get(service, []), used, now)

    async def _scalable(self, ctx: Context) -> dict[str, Workload]:
        """Returns the workloads of services that may have more instances than their minimum."""
        serving, before, share = await ctx.store.reads.statuses.serving(), self.known, FairShare()
        known: dict[str, Workload | None] = {}
        for _, _, deployment in serving:
            known[deployment] = (
                before[deployment] if deployment in before else await _scalable(ctx, deployment)
            )
            await share.pause()
        self.known = known
        return {
            service: workload
            for service, _, deployment in serving
            if (workload := self.known[deployment]) and self._scales(await ctx.places.of(service))
        }

    def _scales(self, place: Place) -> bool:
        return place.elsewhere is None and (place.reconnect is not None) is self.elsewhere

    async def _scale_service(
        self,
        ctx: Context,
        workload: Workload,
        instances: list[Instance],
        usage: Mapping[str, Usage],
        now: int,
    ) -> None:
        service = workload.service
        before, status = self.samples.get(service), await ctx.store.reads.statuses.get(service)
        mine = {instance.id: usage[instance.id] for instance in instances if instance.id in usage}
        sample = self.samples[service] = Sample(now, mine, before.changed if before else now)
        if before is None or status is None or status.serving != workload.deployment or status.sleep:
            return
        load = _load(before, sample, workload, instances)
        count = count_of(workload, status.instances or workload.instances)
        target = scale(count, workload.instances, workload.most, load, now - sample.changed)
        if target == count:
            return
        sample.changed = now

        async def change(tx: Tx) -> None:
            current = await tx.statuses.get(service)
            if current and current.serving == workload.deployment and not current.sleep:
                await tx.statuses.change(replace(current, instances=target))
                await tx.work.schedule(RECONCILE, service, org=current.org)

        await ctx.store.write(change)
        ctx.logs.write(
            service, now, f"Scaled from {count} to {target} instances at {load:.0%} of the processor time"
        )


async def _scalable(ctx: Context, deployment: str) -> Workload | None:
    row = await ctx.store.reads.deployments.get(deployment)
    workload = decrypt_workload(ctx, row) if row else None
    if workload is None or workload.most <= workload.instances or workload.alone:
        return None
    return replace(workload, variables={}, files={})  # which may have megabytes


def _load(
    previous_sample: Sample, current_sample: Sample, workload: Workload, instances: list[Instance]
) -> float:
    """Returns the mean CPU load, as a share of the requested CPU time, of instances in both samples."""
    running = {
        instance.id
        for instance in instances
        if instance.phase is Phase.RUNNING and instance.generation == workload.generation
    }
    both = [id for id in current_sample.used if id in previous_sample.used and id in running]
    passed = (current_sample.at - previous_sample.at) / 1000
    if not both or passed <= 0:
        return AIM_WHEN_UNKNOWN
    spent = (
        sum(max(0, current_sample.used[id].cpu_ms - previous_sample.used[id].cpu_ms) for id in both) / 1000
    )
    return spent / passed / len(both) / (workload.cpu / 1000)


AIM_WHEN_UNKNOWN = 0.6
"""A load that neither adds nor removes instances."""
