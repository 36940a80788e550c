"""Copies a service with its variables and secrets. Nothing of it is deployed, and no data is copied."""

from __future__ import annotations

import msgspec

from windlass.base.errors import Forbidden, Invalid
from windlass.control.context.call import Call, Reply, writes
from windlass.control.context.context import Context
from windlass.control.request.creating import NewResource, create_in
from windlass.control.request.hidden import own_hidden
from windlass.control.request.paths import target
from windlass.control.request.permissions import allows, is_visible
from windlass.control.variables.copying import copy_variables
from windlass.core.access import Scope
from windlass.core.declare.cloning import CloneRequest
from windlass.core.declare.document import Document, merge_patched
from windlass.families.environment import environment
from windlass.store import Row, Tx


@writes("*.clone")
async def clone(ctx: Context, tx: Tx, call: Call) -> Reply:
    service, asked = await target(tx, call), call.sent(CloneRequest)
    place = await _environment(tx, call, service, asked.environment_id)
    family = ctx.registry[service.family]
    document = _without_ids(msgspec.json.decode(service.body))
    hidden = own_hidden(ctx, service)
    spec = merge_patched(family, document, hidden, {family.names or "name": asked.name})
    new = NewResource(family, spec, place, call.actor, call, copy_of=service)
    reply = await create_in(ctx, tx, new)
    copy = await tx.resources.get(new.id)
    assert copy is not None
    await copy_variables(ctx, tx, call, service, copy)
    return reply


async def _environment(tx: Tx, call: Call, service: Row, id: str) -> Row:
    row = await tx.resources.find(environment.name, id)
    if row is None or row.org != service.org or not await is_visible(tx, call.actor, row):
        raise Invalid("environment_id: choose another one: no environment of this organization has this id")
    if not await allows(tx, call.actor, Scope.WRITE, row):
        raise Forbidden("environment_id: use a token that may write in this environment")
    return row


def _without_ids(document: Document) -> Document:
    """Returns a document whose parts, such as ports and volumes, get ids of their own."""
    return {
        name: [_without_id(item) for item in value] if isinstance(value, list) else value
        for name, value in document.items()
    }


def _without_id(item: object) -> object:
    return {name: value for name, value in item.items() if name != "id"} if isinstance(item, dict) else item
