"""Reads the resources in the path of a request, and checks the caller's permission."""

from __future__ import annotations

from windlass.control.context.call import Call
from windlass.control.request.permissions import (
    absent,
    is_allowed_throughout,
    require,
    require_new,
)
from windlass.core.declare.operations import PathId
from windlass.core.declare.resource import Family
from windlass.store import Reads, Row


async def visible(reads: Reads, call: Call, family: Family, id: str) -> Row:
    """Returns a resource. Raises Missing or Forbidden unless the caller has the permission that the operation
    needs."""
    row = await reads.resources.find(family.name, id)
    if row is None:
        raise absent(family.noun)
    if not is_allowed_throughout(call, row.org):
        await require(reads, call, row, family.noun)
    return row


async def target(reads: Reads, call: Call) -> Row:
    """Returns the resource of the operation, and checks that it belongs to the parent in the path."""
    operation = call.operation
    row = await resource_at(reads, call, operation.itself)
    if (above := operation.above) is not None and (
        row.parent != call.ids[above.position] or await reads.resources.find(above.name, row.parent) is None
    ):
        raise absent(call.family.noun)
    return row


async def parent_of(reads: Reads, call: Call) -> Row:
    """Returns the parent of the collection or item in the path."""
    return await resource_at(reads, call, call.operation.above)


async def parent_to_create_in(reads: Reads, call: Call) -> Row:
    """Returns the parent of a new resource, if the caller may create the resource there."""
    return await resource_at(reads, call, call.operation.above, to_create=True)


async def resource_at(reads: Reads, call: Call, path_id: PathId | None, *, to_create: bool = False) -> Row:
    """Returns the resource with an id of the path, for example one of `call.operation.ids`.

    With `to_create`, checks the permission to create a resource in it instead.
    """
    if path_id is None or not path_id.families:
        raise LookupError(f"{call.operation.id}: its path does not name this resource")
    id = call.ids[path_id.position]
    if len(path_id.families) == 1:
        family = path_id.families[0]
        row, noun = await reads.resources.find(family.name, id), family.noun
    else:
        row, noun = await reads.resources.get(id), path_id.noun
        if row is not None and all(row.family != family.name for family in path_id.families):
            row = None
    if row is None:
        raise absent(noun)
    if not is_allowed_throughout(call, row.org):
        await (require_new if to_create else require)(reads, call, row, noun)
    return row
