"""Acts at all places at once, where the engine of a cluster keeps no other waiting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from windlass.base.errors import Unavailable
from windlass.base.log import log
from windlass.base.subprocesses import run_together
from windlass.control.context.context import Context
from windlass.control.context.place import Place

LONGEST_APART: Final = 20.0
"""Seconds that the engine of a cluster may take."""
_log = log("places")


class OtherDatabase(Exception):
    """The database is no longer the one that this server was started with."""


@asynccontextmanager
async def apart(place: Place) -> AsyncIterator[None]:
    """Lets no engine of a cluster, which may be away, slow, or say nonsense, keep the others waiting."""
    if place.reconnect is None:
        yield
        return
    try:
        async with asyncio.timeout(LONGEST_APART):
            yield
    except (OtherDatabase, Unavailable):
        raise
    except Exception as error:  # noqa: BLE001 (the engine of an organization may fail in any way)
        _log.warning(
            "the engine of a cluster is passed over", extra={"cluster": place.id, "why": repr(error)}
        )


async def everywhere(ctx: Context, action: Callable[[Place], Awaitable[None]]) -> None:
    """Acts at all places at once. Clusters whose engines fail, or take long, are passed over."""

    async def act(place: Place) -> None:
        async with apart(place):
            await action(place)

    await run_together(*(act(place) for place in ctx.places.all()))
