"""Checks whether this server runs a service, and what is known of services whose server is gone."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from windlass.base.errors import Unavailable
from windlass.control.context.context import Context
from windlass.core.deploy.states import AT_REST, UP, State, plain
from windlass.store import StatusRow

LOST: Final = (
    "Start the server that runs this service: it does not answer, and no other server starts the service in "
    "its place"
)
ELSEWHERE: Final = (
    "Ask the server that runs this service: lines and inner addresses of a service are only known there"
)


async def as_known(ctx: Context, status: StatusRow) -> StatusRow:
    """Returns the status to show. A service whose server is gone may still run: it is UNAVAILABLE, and the
    message names its last known state."""
    if not ctx.ownership.lost or status.state in AT_REST:
        return status
    if (await ctx.places.at(status.cluster)).name not in ctx.ownership.lost:
        return status
    sentence = f"{LOST}. Its last known state is {plain(status.state)}"
    state = State.UNAVAILABLE if status.state in UP else status.state
    return replace(status, state=state, message=". ".join(filter(None, (sentence, status.message))))


async def check_here(ctx: Context, service: str) -> None:
    """Raises Unavailable if another server runs the service."""
    place, ownership = await ctx.places.of(service), ctx.ownership
    if place.elsewhere is not None or (place is ctx.places.local and not ownership.is_owner):
        raise Unavailable(LOST if place.name in ownership.lost else ELSEWHERE)
