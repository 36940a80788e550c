"""Runs an action at all places concurrently. A slow engine of a cluster does not delay other places."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from windlass.base.errors import Unavailable
from windlass.base.log import log
from windlass.base.subprocesses import run_together
from windlass.control.context.context import Context
from windlass.control.context.place import Place

CALL_TIMEOUT: Final = 20.0
"""The timeout in seconds for calls to the engine of a cluster."""
_ROUND_TIMEOUT: Final = 2.0
"""Seconds after which a round continues without the engines that have not finished."""
_log = log("places")


class OtherDatabase(Exception):
    """The database is no longer the one with which this server was started."""


@asynccontextmanager
async def isolate_failures(place: Place) -> AsyncIterator[None]:
    """Contains failures of a cluster's engine, which may be unavailable, slow or faulty: sets a timeout and
    logs errors."""
    if place.reconnect is None:
        yield
        return
    try:
        async with asyncio.timeout(CALL_TIMEOUT):
            yield
    except (OtherDatabase, Unavailable):
        raise
    except Exception as error:  # noqa: BLE001 (the engine of an organization may fail in any way)
        _log.warning(
            "the engine of a cluster is passed over", extra={"cluster": place.id, "why": repr(error)}
        )


async def run_at_all_places(ctx: Context, action: Callable[[Place], Awaitable[None]]) -> None:
    """Runs an action at all places concurrently. Skips clusters whose engines fail or time out."""

    await run_together(*(_act_isolated(place, action) for place in ctx.places.all()))


async def at_clusters(ctx: Context, kind: str, action: Callable[[Place], Awaitable[None]]) -> None:
    """Runs an action concurrently at all clusters with their own engine. A slow engine does not delay the
    round: its call continues in the background, and rounds of the same `kind` skip the cluster until the call
    has finished."""
    tasks: list[asyncio.Task[None]] = []
    for place in ctx.places.all():
        key = kind, place.id
        if place.reconnect is not None and key not in ctx.places.under_way:
            ctx.places.under_way.add(key)
            tasks.append(task := ctx.places.run_in_background(_act_isolated(place, action)))
            task.add_done_callback(partial(_finish, ctx, key))
    if tasks:
        done, _ = await asyncio.wait(tasks, timeout=_ROUND_TIMEOUT)
        for task in done:
            task.result()


async def _act_isolated(place: Place, action: Callable[[Place], Awaitable[None]]) -> None:
    async with isolate_failures(place):
        await action(place)


def _finish(ctx: Context, key: tuple[str, str], task: asyncio.Task[None]) -> None:
    ctx.places.under_way.discard(key)
    if not task.cancelled() and (error := task.exception()):
        _log.warning("work at a cluster ended early", extra={"cluster": key[1], "why": repr(error)})
