"""Stops all services of an installation, for `windlass stop --all`. Uses the same action as the API."""

from __future__ import annotations

from msgspec import Struct

from windlass.control.context.call import Call, Dialect, Origin
from windlass.control.context.context import Context
from windlass.control.records.deployments import accept, in_deletion, name_of
from windlass.core.access import Actor
from windlass.core.declare.registry import Operation
from windlass.core.deploy.states import Do
from windlass.store import Reads, Row, StatusRow, Tx

_OPERATOR = Actor(
    id="00000000-0000-4000-8000-000000000001", name="windlass stop --all", subject="operator", permits={}
)
_WORDS = Dialect(name="plain", state=str, event=str)


class StoppedService(Struct, frozen=True):
    """A service that is being stopped, and the deployment that stops it."""

    service: str
    name: str
    deployment: str


async def up(reads: Reads) -> list[Row]:
    """Returns the running and starting services of all organizations, the newest first, so that applications
    stop before their databases."""
    services = [(row, await reads.statuses.get(row.id)) for row in await _services(reads)]
    return [row for row, status in reversed(services) if status and await _is_up(reads, status)]


async def _services(reads: Reads) -> list[Row]:
    rows = [row for id in await reads.statuses.services() if (row := await reads.resources.get(id))]
    return sorted(rows, key=lambda row: row.created)


async def _is_up(reads: Reads, status: StatusRow) -> bool:
    waiting = await reads.deployments.open(status.id)
    return not in_deletion(waiting) and (status.serving is not None or bool(waiting))


async def stop_everything(ctx: Context, tx: Tx) -> list[StoppedService]:
    """Requests the stop of all services. The requests are durable, so that a server that starts later
    continues them."""
    stopping = []
    for service in await up(tx):
        call = Call(
            operation=_stop(ctx, service),
            actor=_OPERATOR,
            ids=(service.id,),
            dialect=_WORDS,
            origin=Origin("CLI"),
        )
        deployment, _ = await accept(tx, service, Do.STOP, call)
        name = name_of(service)
        stopping.append(StoppedService(service.id, name, deployment.id))
    return stopping


def _stop(ctx: Context, service: Row) -> Operation:
    """Returns the operation that stops a service in the API."""
    return ctx.registry.handled_by(f"{service.family}.stop")[0]
