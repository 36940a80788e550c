"""Leaves hosts alone where deployments run that the database does not know, such as a restored one.

The start of a server compares the database with the data directory and with the engine of its machine. The
hosts of clusters may be away then, so that each is examined before the first action there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from windlass.base.log import log
from windlass.control.context.context import Context
from windlass.control.context.place import Place
from windlass.engines.engine import EngineAway
from windlass.store import Tx

OLDER: Final = (
    "Ask the operator of this server to start it with its newest database, or to go on with this one "
    "(windlass serve --adopt): newer deployments than it knows run on this cluster, and are left alone"
)
_UNKNOWN: Final = (
    "Ask the operator of this server to start it with its newest database, or to set them aside "
    "(windlass serve --adopt): services run on this cluster that the database does not know"
)
_MOST_NAMED: Final = 5
_GREATEST: Final = 2**31
"""Generations are numbers of deployments. An engine may tell any number."""
_log = log("older_database")


async def examine(ctx: Context, place: Place) -> None:
    """Raises EngineAway if newer deployments than the database knows run there. With `--adopt` they end, and
    their volumes stay."""
    if place.reconnect is None or place.id in ctx.places.examined:
        return
    newer = await _newer(ctx, place)
    if newer and not ctx.places.adopts:
        ctx.places.newer.add(place.id)
        raise EngineAway(OLDER)
    for service, generation in sorted(newer):
        _log.warning(
            "a deployment that the database does not know is ended",
            extra={"cluster": place.id, "service": service, "number": generation},
        )
        await _skip_numbers(ctx, service, generation)
        await place.engine.remove(service, generation=generation, grace=ctx.settings.stop_seconds)
    ctx.places.newer.discard(place.id)
    ctx.places.examined.add(place.id)


def leave_alone(ctx: Context, place: Place, names: Sequence[str]) -> None:
    """Tells of services that the database does not know, in the status of their cluster and in the log."""
    if not names:
        ctx.places.remarks.pop(place.id, None)
        return
    shown = ", ".join(sorted(names)[:_MOST_NAMED]) + (", …" if len(names) > _MOST_NAMED else "")
    remark = f"{_UNKNOWN} ({shown})"
    if ctx.places.remarks.get(place.id) != remark:
        _log.warning("unknown services are left alone", extra={"cluster": place.id, "services": shown})
    ctx.places.remarks[place.id] = remark


async def _newer(ctx: Context, place: Place) -> set[tuple[str, int]]:
    """Returns services of this cluster with generations that are newer than their last deployment."""
    newer: set[tuple[str, int]] = set()
    for instance in await place.engine.all():
        status = await ctx.store.reads.statuses.get(instance.service)
        if status and status.cluster == place.id and status.deployments < instance.generation < _GREATEST:
            newer.add((instance.service, instance.generation))
    return newer


async def _skip_numbers(ctx: Context, service: str, generation: int) -> None:
    """Gives later deployments greater numbers: a number never stands for two deployments."""

    async def change(tx: Tx) -> None:
        status = await tx.statuses.get(service)
        if status and status.deployments < generation:
            await tx.statuses.change(replace(status, deployments=generation))

    await ctx.store.write(change)
