"""Finds running deployments that are newer than the database, as after a restore of an older backup.

On the machine of the server these deployments are ended, because the start has compared the database with the
data directory. Hosts of clusters may have been unavailable at the start. So each host is examined before the
first action on it, and newer deployments there are left alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from windlass.base.log import log
from windlass.base.subprocesses import run_some
from windlass.control.context.context import Context
from windlass.control.context.place import Place
from windlass.engines.engine import EngineUnavailable
from windlass.store import Tx

OLDER_DATABASE_REASON: Final = (
    "Ask the operator of this server to start it with its newest database, or to go on with this one "
    "(windlass serve --adopt): newer deployments than it knows run on this cluster, and are left alone"
)
_UNKNOWN_DEPLOYMENT_REASON: Final = (
    "Ask the operator of this server to start it with its newest database, or to set them aside "
    "(windlass serve --adopt): services run on this cluster that the database does not know"
)
_MAX_NAMED_SERVICES: Final = 5
_AT_ONCE: Final = 16
"""The number of services that are ended concurrently."""
_MAX_GENERATION: Final = 2**31
"""An upper bound for generations, which are deployment numbers. An engine may report any number."""
_log = log("older_database")


async def examine(ctx: Context, place: Place) -> None:
    """Ends deployments that are newer than the database, before the first action at a place. Their volumes
    are kept. Raises EngineUnavailable if such deployments run on the host of a cluster and the operator has
    not passed `--adopt`."""
    is_here = place is ctx.places.local
    if place.id in ctx.places.examined or not (is_here or place.reconnect):
        return
    async with ctx.places.examining[place.id]:
        if place.id in ctx.places.examined:
            return
        newer = await _find_newer(ctx, place)
        if newer and not (is_here or ctx.places.adopts):
            ctx.places.newer.add(place.id)
            raise EngineUnavailable(OLDER_DATABASE_REASON)
        await run_some(_AT_ONCE, [_end(ctx, place, service, newer[service]) for service in sorted(newer)])
        ctx.places.newer.discard(place.id)
        ctx.places.examined.add(place.id)


def report_unknown_services(ctx: Context, place: Place, names: Sequence[str]) -> None:
    """Reports services that are missing in the database, in the status of their cluster and in the server
    log."""
    if not names:
        ctx.places.remarks.pop(place.id, None)
        return
    shown = ", ".join(sorted(names)[:_MAX_NAMED_SERVICES]) + (
        ", …" if len(names) > _MAX_NAMED_SERVICES else ""
    )
    remark = f"{_UNKNOWN_DEPLOYMENT_REASON} ({shown})"
    if ctx.places.remarks.get(place.id) != remark:
        _log.warning("unknown services are left alone", extra={"cluster": place.id, "services": shown})
    ctx.places.remarks[place.id] = remark


async def _find_newer(ctx: Context, place: Place) -> dict[str, set[int]]:
    """Returns the generations at this place that are newer than the last deployment of their service, by
    service. The engine is read first, because a deployment number is in the database before instances run
    under it."""
    present: dict[str, set[int]] = {}
    for service, generation, _ in await place.engine.present():
        if generation < _MAX_GENERATION:
            present.setdefault(service, set()).add(generation)
    newer: dict[str, set[int]] = {}
    for service, generations in present.items():
        status = await ctx.store.reads.statuses.get(service)
        if status and (await ctx.places.at(status.cluster)).id == place.id:
            newer[service] = {number for number in generations if number > status.deployments}
    return {service: generations for service, generations in newer.items() if generations}


async def _end(ctx: Context, place: Place, service: str, generations: set[int]) -> None:
    """Ends newer generations of a service. Skips their numbers at the end, so that an interrupted attempt
    finds the generations again."""
    for generation in sorted(generations):
        _log.warning(
            "a deployment that the database does not know is ended",
            extra={"cluster": place.id, "service": service, "number": generation},
        )
        await place.engine.remove(service, generation=generation, grace=ctx.settings.stop_seconds)
    await _skip_numbers(ctx, service, max(generations))


async def _skip_numbers(ctx: Context, service: str, generation: int) -> None:
    """Skips deployment numbers up to `generation`, so that no two deployments share a number."""

    async def change(tx: Tx) -> None:
        status = await tx.statuses.get(service)
        if status and status.deployments < generation:
            await tx.statuses.change(replace(status, deployments=generation))

    await ctx.store.write(change)
