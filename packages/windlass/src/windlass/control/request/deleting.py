"""Deletes resources.

A service that was ever deployed is deleted by a deployment, which removes all its data. Its environment or
project is deleted after the last such service. All other resources are deleted at once.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from windlass.control.context.call import Call, Origin, Reply, encode, writes
from windlass.control.context.context import Context
from windlass.control.records.deployments import accept, cancel, in_deletion
from windlass.control.records.recording import about, emit, origin_of
from windlass.control.request.behaviour import behaviour_of
from windlass.control.request.changing import check_tag
from windlass.control.request.creating import count
from windlass.control.request.paths import target
from windlass.control.request.references import count_users, counted_targets
from windlass.core.declare.queries import Removal
from windlass.core.declare.stored import NamedDocument
from windlass.core.deploy.progress import ChosenVersion, Initiator
from windlass.core.deploy.states import Do
from windlass.core.words.events import Event
from windlass.store import Queue, Row, Tx, housekeeping_beside, is_owned

DISCARD, DISCARD_ELSEWHERE = "discard", "discard elsewhere"
"""The kinds of work that erase the data of a deleted service, on the server's machine or on a cluster."""


class Requester(Struct, frozen=True):
    """The author and the origin of a deletion."""

    by: Initiator
    origin: Origin


def requester_of(call: Call) -> Requester:
    return Requester(Initiator(call.actor.id, call.actor.name), origin_of(call))


async def delete_resource(ctx: Context, tx: Tx, row: Row, requester: Requester) -> None:
    family = ctx.registry[row.family]
    await behaviour_of(family).deleting(ctx, tx, row)
    await purge(ctx, tx, row)
    await count(ctx, tx, family, await tx.resources.get(row.parent), -1)
    data = {"parent": row.parent, "before": msgspec.Raw(row.body), "after": None}
    subject = await about(ctx, tx, row)
    emit(tx, Event.DELETED, row.org, subject, requester.by.id, requester.by.name, requester.origin, data)


async def purge(ctx: Context, tx: Tx, row: Row) -> None:
    """Removes a resource with all resources below it, and schedules the erasure of its services' data."""
    used = await counted_targets(ctx, tx, row.id)
    for service in await tx.remove(row):
        await request_discard(tx, service, row.org)
    await count_users(ctx, tx, used)


async def request_discard(tx: Tx, service: str, org: str = "") -> None:
    queue = await tx.deletions.queue(service)
    if queue is None or is_owned(queue):
        beside = housekeeping_beside(Queue.RECONCILE if queue is None else queue)
        await tx.work.schedule(DISCARD, f"{DISCARD}:{service}", org=org, queue=beside)
    else:
        await tx.work.schedule(DISCARD_ELSEWHERE, f"{DISCARD}:{service}", org=org)


@writes("*.delete")
async def delete(ctx: Context, tx: Tx, call: Call) -> Reply:
    row = await target(tx, call)
    check_tag(call, row)
    await delete_row(ctx, tx, call, row, at_once=call.query is None or call.asked(Removal).skip_reconcile)
    return Reply()


async def delete_row(ctx: Context, tx: Tx, call: Call, row: Row, *, at_once: bool) -> None:
    """Deletes a resource, either at once or by deployments of its services. With `at_once`, the services'
    data is erased afterwards."""
    services = [] if at_once else await tx.tree.deployed_at_or_below(row.id)
    if not services:
        above = await tx.tree.above(row.parent)
        await delete_resource(ctx, tx, row, requester_of(call))
        await _remove_emptied(ctx, tx, above)
        return
    await tx.foresee_removal(row)
    for id in services:
        service = await tx.resources.get(id)
        assert service is not None
        waiting = await tx.deployments.open(id)
        if in_deletion(waiting):
            continue
        if waiting:
            await cancel(tx, service, waiting, call, _reason_of(row, call))
        removed = ChosenVersion(sub_action=ctx.kinds[service.family].removal_action(call.query))
        await accept(tx, service, Do.DELETE, call, removed)
    if row.id not in services:
        await tx.deletions.add(row.id, encode(requester_of(call)))


def _reason_of(row: Row, call: Call) -> str:
    """Returns the reason for the cancelled deployments of a service. `row` is the deleted resource: the
    service or a parent."""
    return f"The {row.family} {row.read(NamedDocument).name} was deleted by {call.actor.name}"


async def finish_deletion(ctx: Context, tx: Tx, service: Row, requester: Requester) -> None:
    """Completes the deletion of a service after its data was removed."""
    above = await tx.tree.above(service.parent)
    await delete_resource(ctx, tx, service, requester)
    await _remove_emptied(ctx, tx, above)


async def give_up_above(tx: Tx, service: Row) -> None:
    """Cancels the deletion of the environment and project of a service that could not be deleted."""
    for row in await tx.tree.above(service.parent):
        await tx.deletions.delete_of(row.id)


async def _remove_emptied(ctx: Context, tx: Tx, ancestors: list[Row]) -> None:
    """Deletes the environment and the project if their deletion waits and no deployed service is left, in
    this order."""
    for row in ancestors:
        asked = await tx.deletions.get(row.id)
        if asked is not None and not await tx.tree.deployed_at_or_below(row.id):
            await tx.deletions.delete_of(row.id)
            await delete_resource(ctx, tx, row, msgspec.json.decode(asked, type=Requester))
