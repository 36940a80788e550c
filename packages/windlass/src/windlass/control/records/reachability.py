"""Determines whether this server runs a service, and the status to show if its server or engine is
unavailable."""

from __future__ import annotations

import asyncio
from typing import Final

from msgspec.structs import replace

from windlass.base.errors import Unavailable
from windlass.control.context.context import Context
from windlass.control.context.place import Place
from windlass.control.records.deployments import particulars
from windlass.core.deploy.states import (
    STATES_OF_RUNNING_SERVICES,
    STATES_WITHOUT_INSTANCES,
    State,
    contract_state,
)
from windlass.store import DeploymentRow, StatusRow

LOST_SERVER_REASON: Final = (
    "Start the server that runs this service: it does not answer, and no other server starts the service in "
    "its place"
)
ENGINE_AWAY_REASON: Final = (
    "Start the engine of the cluster, or see why it is not reached: it does not answer"
)
_OTHER_SERVER_ADVICE: Final = (
    "Ask the server that runs this service, that of the place {}: its lines, inner addresses and uploads are "
    "only there"
)
_LOG_ELSEWHERE: Final = (
    "Ask the other server that uses this engine{}: it began this deployment, and the log is only there"
)
_THIS_MACHINE: Final = frozenset({"", "localhost", "127.0.0.1", "::1"})


async def status_as_reachable(ctx: Context, status: StatusRow) -> StatusRow:
    """Returns the status to show. A service whose server or engine is unavailable may still run, so its state
    is UNAVAILABLE and the message contains its last known state."""
    if status.state in STATES_WITHOUT_INSTANCES or not (ctx.ownership.lost or ctx.places.has_unavailable):
        return status
    reason = _why_unknown(ctx, await ctx.places.at(status.cluster), status)
    if not reason:
        return status
    sentence = f"{reason}. Its last known state is {contract_state(status.state)}"
    state = State.UNAVAILABLE if status.state in STATES_OF_RUNNING_SERVICES else status.state
    return replace(status, state=state, message=". ".join(filter(None, (sentence, status.message))))


def _why_unknown(ctx: Context, place: Place, status: StatusRow) -> str:
    """Returns why the state of a service at this place is unknown; empty if it is known."""
    if place.machine in ctx.ownership.lost:
        return LOST_SERVER_REASON
    # Open deployments report by themselves that they wait for the engine. A static site has no instances on
    # the engine, because this server serves its files.
    has_instances = status.state in STATES_OF_RUNNING_SERVICES and bool(status.instances)
    return (
        ENGINE_AWAY_REASON
        if has_instances and place.engine.is_unavailable and _is_reached(ctx, place)
        else ""
    )


def _is_reached(ctx: Context, place: Place) -> bool:
    """Returns whether this server connects to the engine of the place."""
    return place.elsewhere is None and (place is not ctx.places.local or ctx.ownership.is_owner)


async def check_here(ctx: Context, service: str) -> None:
    """Raises Unavailable if another server runs the service."""
    place = await ctx.places.of(service)
    if not _is_reached(ctx, place):
        raise Unavailable(
            LOST_SERVER_REASON if place.machine in ctx.ownership.lost else await _other_server(ctx, place)
        )


async def check_log_here(ctx: Context, deployment: DeploymentRow) -> None:
    """Raises Unavailable if another server has the log of a deployment. Among servers that share an engine,
    each server has the logs of the deployments that it began."""
    await check_here(ctx, deployment.service)
    details = particulars(deployment)
    if details.server in {"", ctx.server}:
        return
    if not await asyncio.to_thread(ctx.logs.tail, deployment.service, 1, deployment=deployment.id):
        is_known = details.host not in _THIS_MACHINE | {ctx.places.local.public_host}
        raise Unavailable(_LOG_ELSEWHERE.format(f", {details.host}" if is_known else ""))


async def _other_server(ctx: Context, place: Place) -> str:
    """Returns a message that names the server of a place, with its host if it differs from this server's
    host."""
    row = await ctx.store.reads.owners.get(place.machine)
    host = row.host if row else ""
    is_its_own = host not in _THIS_MACHINE | {ctx.places.local.public_host}
    return _OTHER_SERVER_ADVICE.format(f"{place.machine} ({host})" if is_its_own else place.machine)
