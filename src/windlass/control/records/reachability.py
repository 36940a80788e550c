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
    if not ctx.ownership.is_lost or status.state in AT_REST:
        return status
    if not await _is_local(ctx, status.cluster):
        return status
    sentence = f"{LOST}. Its last known state is {plain(status.state)}"
    state = State.UNAVAILABLE if status.state in UP else status.state
    return replace(status, state=state, message=". ".join(filter(None, (sentence, status.message))))


async def check_here(ctx: Context, service: str) -> None:
    """Raises Unavailable if another server runs the service."""
    ownership = ctx.ownership
    if not ownership.is_owner and await _is_local(ctx, await ctx.places.cluster_of(service)):
        raise Unavailable(LOST if ownership.is_lost else ELSEWHERE)


async def _is_local(ctx: Context, cluster: str) -> bool:
    return await ctx.places.at(cluster) is ctx.places.local
