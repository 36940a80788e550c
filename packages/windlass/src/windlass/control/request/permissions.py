"""Permission checks, which every handler uses.

`core.access.may` decides. This module finds the location of a resource and turns a refusal into an error: a
resource that the caller may not read does not exist (404); every other refusal is 403.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from msgspec import Struct, json
from msgspec.structs import replace

from windlass.base.errors import Failure, Forbidden, Missing
from windlass.control.context.call import Call
from windlass.core.access import (
    LEVEL_FAMILIES,
    Actor,
    ResourceLocation,
    Scope,
    ids_to_look_up,
    location_along,
    may,
    may_below,
)
from windlass.core.declare.operations import Operation
from windlass.core.declare.resource import Family, Spec
from windlass.families import registry
from windlass.store import EventRow, Reads, Row


class _Mode(Struct):
    mode: str


@cache
def _families_with_mode() -> frozenset[str]:
    """Returns the families whose mode may affect permissions on resources inside them. They are looked for at
    first use: packages may still add families while modules load."""
    families = registry().families.values()
    return LEVEL_FAMILIES & {family.name for family in families if "mode" in family.spec.__struct_fields__}


def mode_of(row: Row) -> str:
    """Returns the mode of a resource if permissions may depend on it; empty otherwise."""
    return json.decode(row.body, type=_Mode).mode if row.family in _families_with_mode() else ""


async def location_of(reads: Reads, row: Row) -> ResourceLocation:
    """Returns the location of a resource in the tree."""
    return (
        ResourceLocation(row.org)
        if row.id == row.org
        else location_in(row.org, await reads.tree.above(row.id) or [row])
    )


def location_in(org: str, chain: Sequence[Row]) -> ResourceLocation:
    """Returns the location of the first resource of a chain. Each resource in the chain is inside the next
    one."""
    inside = [(row.family, row.id, mode_of(row)) for row in reversed(chain) if row.id != org]
    return location_along([("organization", org, ""), *inside])


def scopes_throughout(actor: Actor, org: str) -> Scope:
    """Returns the scopes that a caller has everywhere in an organization."""
    scopes = Scope(0)
    for scope in Scope:
        if may_below(actor, scope, ResourceLocation(org)):
            scopes |= scope
    return scopes


def is_allowed_throughout(call: Call, org: str) -> bool:
    """Returns whether the caller has the operation's scope everywhere in an organization. Most callers do,
    and their requests need no lookup of locations."""
    return may_below(call.actor, call.operation.need, ResourceLocation(org))


async def require(reads: Reads, call: Call, row: Row, noun: str) -> None:
    """Raises Missing or Forbidden unless the caller has the operation's scope for the resource.

    `noun` is the word for the resource in the error message.
    """
    _require_at(call, await _visible(reads, call.actor, row, noun))


async def require_new(reads: Reads, call: Call, parent: Row, noun: str) -> None:
    """Raises Missing or Forbidden unless the caller may read `parent` and has the operation's scope for a new
    resource in it."""
    where = await _visible(reads, call.actor, parent, noun)
    _require_at(call, where.below(call.family.name, "", _mode_in(call.family, call.sent(Spec))))


def _require_at(call: Call, location: ResourceLocation) -> None:
    if not may(call.actor, call.operation.need, location):
        raise refusal(call, location)


async def require_rights_in_new_mode(reads: Reads, call: Call, row: Row, family: Family, spec: Spec) -> None:
    """Refuses a change of a resource's mode unless the caller has the operation's scope for the new mode,
    too."""
    if is_allowed_throughout(call, row.org) or (mode := _mode_in(family, spec)) == mode_of(row):
        return
    _require_at(call, replace(await location_of(reads, row), mode=mode))


async def _visible(reads: Reads, actor: Actor, row: Row, noun: str) -> ResourceLocation:
    """Returns the location of a resource. Raises Missing if the actor may not read it. Resources of other
    organizations are refused without a lookup, so that response times do not reveal their existence."""
    if may(actor, Scope.READ, ResourceLocation(row.org)):
        where = await location_of(reads, row)
        if may(actor, Scope.READ, where):
            return where
    raise absent(noun)


def _mode_in(family: Family, spec: Spec) -> str:
    return str(getattr(spec, "mode", "")) if family.name in _families_with_mode() else ""


async def allows(reads: Reads, actor: Actor, required_scope: Scope, row: Row) -> bool:
    """Returns whether the actor has a scope for a resource."""
    return may_below(actor, required_scope, ResourceLocation(row.org)) or may(
        actor, required_scope, await location_of(reads, row)
    )


async def allows_below(
    reads: Reads, actor: Actor, required_scope: Scope, parent: Row, family: str, mode: str
) -> bool:
    """Returns whether the actor has a scope for a new resource in `parent`."""
    return may(actor, required_scope, (await location_of(reads, parent)).below(family, "", mode))


async def is_visible(reads: Reads, actor: Actor, row: Row) -> bool:
    return await allows(reads, actor, Scope.READ, row)


async def visible_below(reads: Reads, actor: Actor, parent: Row, family: Family) -> list[Row] | None:
    """Returns the children of `parent` that the actor may read; None if the actor may read all of them."""
    if may_below(actor, Scope.READ, ResourceLocation(parent.org)):
        return None
    where = await location_of(reads, parent)
    if may_below(actor, Scope.READ, where):
        return None
    ids = ids_to_look_up(actor, where)
    if ids is None:
        rows = await reads.resources.of_parent(parent.id, family.name)
    else:
        candidates = [await reads.resources.find(family.name, id) for id in ids]
        rows = [row for row in candidates if row and row.parent == parent.id]
    visible = [row for row in rows if may(actor, Scope.READ, where.below(row.family, row.id, mode_of(row)))]
    return sorted(visible, key=lambda row: row.pos)


class Visibility:
    """Decides which resources of an organization an actor may read. Caches locations."""

    def __init__(self, reads: Reads, actor: Actor, org: str) -> None:
        self._source = reads
        self._actor = actor
        self.org = org
        self.is_whole = may_below(actor, Scope.READ, ResourceLocation(org))
        self._known: dict[str, ResourceLocation | None] = {org: ResourceLocation(org)}

    async def includes(self, family: str, id: str, parent: str) -> bool:
        """Returns whether the actor may read a resource with this parent."""
        if self.is_whole:
            return True
        where = await (self._location_of(id) if family in LEVEL_FAMILIES else self._location_of(parent))
        if where is None:
            return False
        return may(self._actor, Scope.READ, where if family in LEVEL_FAMILIES else where.below(family, id))

    async def includes_event(self, event: EventRow) -> bool:
        """Returns whether the actor may read all resources at the location of an event."""
        if self.is_whole:
            return True
        where = await self._location_of(event.environment or event.project or self.org)
        if where is None:  # the location was deleted
            where = ResourceLocation(self.org, project=event.project, environment=event.environment)
        for family, id in ((event.subject_family, event.subject), (event.family, event.target)):
            if id and id != self.org and id not in where.ids:
                where = where.below(family, id)
        return may_below(self._actor, Scope.READ, where)

    async def _location_of(self, id: str) -> ResourceLocation | None:
        """Returns the location of a project, an environment or a cluster; None if the id does not exist."""
        if id not in self._known:
            chain = await self._source.tree.above(id)
            self._known[id] = location_in(self.org, chain) if chain else None
        return self._known[id]


def absent(noun: str) -> Missing:
    return Missing(f"No {noun} with this id was found: check the id, and the organization of the token")


def forbidden(operation: Operation) -> Forbidden:
    need = operation.need.word
    return Forbidden(
        f"Use a token with the scope {need} or Admin"
        if need != "Admin"
        else "Use a token with the scope Admin"
    )


def refusal(call: Call, location: ResourceLocation) -> Failure:
    """Returns the error for a refused request. It suggests another token if this one is limited to other
    resources, and another scope otherwise."""
    if may(replace(call.actor, limited_to=None), call.operation.need, location):
        return Forbidden(
            "Use another token: this one is limited to some projects, environments or services, and can "
            "change nothing here"
        )
    return forbidden(call.operation)
