"""Variables and secrets at `/variable`, where the request itself contains the level."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from windlass.base.errors import Forbidden, Invalid
from windlass.control.context.call import Call, Reply, encode, reads, results, writes
from windlass.control.context.context import Context
from windlass.control.request.changing import apply_changes, check_tag
from windlass.control.request.creating import NewResource, create_in
from windlass.control.request.deleting import delete_row
from windlass.control.request.paths import target
from windlass.control.request.permissions import absent, allows, is_visible, visible_below
from windlass.control.request.reading import paging
from windlass.control.variables.deriving import Derivation, create_alias, create_override, visible_at
from windlass.control.variables.importing import import_at
from windlass.control.variables.injected import rows_of
from windlass.control.variables.variables import built_ins_at, spec_of
from windlass.core.access import Actor
from windlass.core.declare.resource import Family
from windlass.core.declare.traits import has_variables
from windlass.families.any_variable import (
    AliasAtLevel,
    ImportQuery,
    NewVariable,
    OverrideAtLevel,
    VariableEdit,
    VariablesQuery,
)
from windlass.families.variable import Variable, VariableAlias, VariableShown, VariableValue, secret, variable
from windlass.store import Reads, Row, Tx

_FAMILIES = (variable, secret)


# Reading


@reads("listVariables")
async def listing(ctx: Context, call: Call) -> Reply:
    source, query = ctx.store.reads, call.asked(VariablesQuery)
    here = await _level(ctx, source, call.actor, query.parent_id)
    if here is None:
        raise absent("resource with variables")
    _check_scope(ctx, here, "scope", query.scope or "")
    levels = await source.tree.above(here.id)
    page, size = paging(call)
    listed = VariableList(ctx, source, call, levels, (page - 1) * size, page * size)
    for family in _FAMILIES:
        if query.is_secret in {None, _is_secret(family)}:
            await listed.add(family)
    return Reply(results(listed.bodies, page, size, listed.total))


class VariableList:
    """A page of the variables that are visible at a resource. Reads only the rows of the page."""

    def __init__(
        self, ctx: Context, reads: Reads, call: Call, levels: list[Row], first: int, last: int
    ) -> None:
        self._ctx = ctx
        self._source = reads
        self._call = call
        self._levels = levels
        self._first = first
        self._last = last
        self.bodies: list[bytes] = []
        self.total = 0

    async def add(self, family: Family) -> None:
        seen = await visible_below(self._source, self._call.actor, self._levels[0], family)
        if seen is not None:
            self._add_rows(family, seen[self._rest])
            self.total += len(seen)
        else:
            for level in self._levels:
                await self._add_level(family, level)
        if self._call.dialect.is_full:
            added = await built_ins_at(self._ctx, self._source, self._call.actor, self._levels, family)
            self._add_rows(family, rows_of(self._ctx, added[self._rest], family))
            self.total += len(added)

    async def _add_level(self, family: Family, level: Row) -> None:
        first = max(0, self._first - self.total)
        most = max(0, self._last - max(self._first, self.total))
        bodies, length = await self._source.lists.page(level.id, family.name, first, most)
        self.bodies += [_shared_form(self._call, family, body) for body in bodies]
        self.total += length

    @property
    def _rest(self) -> slice:
        """Returns the part of the page in a list that follows what is listed so far."""
        return slice(max(0, self._first - self.total), max(0, self._last - self.total))

    def _add_rows(self, family: Family, rows: list[Row]) -> None:
        self.bodies += [_shared_form(self._call, family, row.body) for row in rows]


def _shared_form(call: Call, family: Family, body: bytes) -> bytes:
    """Returns the document of a variable or secret in the common form of this API."""
    document = msgspec.json.decode(body)
    if family.in_full and call.dialect.is_full:
        document = family.in_full(document)
    if document["enable_interpolation_in_file"] is None:
        del document["enable_interpolation_in_file"]
    document["is_secret"] = _is_secret(family)
    for origin in ("overridden", "aliased"):
        if hidden := document.pop(f"{origin}_secret", None):
            document[f"{origin}_variable"] = {**hidden, "value": None}
    return encode({"value": None, **document})


def _is_secret(family: Family) -> bool:
    return "value" in family.hidden


async def _level(ctx: Context, reads: Reads, actor: Actor, id: str) -> Row | None:
    """Returns the resource whose variables are requested, or None if it has none or the caller may not see
    it."""
    row = await reads.resources.get(id)
    if row is None or has_variables not in ctx.registry[row.family].traits:
        return None
    return row if await is_visible(reads, actor, row) else None


def _check_scope(ctx: Context, level: Row, field: str, scope: str) -> None:
    word = ctx.registry[level.family].enum_value
    if scope and scope != word:
        raise Invalid(f"{field}: must be {word}, because the id is that of one {level.family}")


# Writing


class NamedLevel(Struct, frozen=True):
    """A level that a request identifies by two fields of its body or query: id and scope."""

    id: str
    scope: str
    id_field: str
    scope_field: str


async def _level_to_write(ctx: Context, tx: Tx, call: Call, named: NamedLevel) -> Row:
    row = await _level(ctx, tx, call.actor, named.id)
    if row is None:
        raise Invalid(f"{named.id_field}: choose another one: nothing that you may see has this id")
    if not await allows(tx, call.actor, call.operation.need, row):
        raise Forbidden(
            f"{named.id_field}: use another token: this one is limited to less than the {row.family}"
        )
    _check_scope(ctx, row, named.scope_field, named.scope)
    return row


@writes("createVariable")
async def create(ctx: Context, tx: Tx, call: Call) -> Reply:
    body = call.sent(NewVariable)
    _refuse_secret_manager(body.secret_manager_access_id)
    named = NamedLevel(body.variable_parent_id, body.variable_scope, "variable_parent_id", "variable_scope")
    level = await _level_to_write(ctx, tx, call, named)
    family = secret if body.is_secret else variable
    spec = spec_of(family)(
        key=body.key,
        value=body.value,
        mount_path=body.mount_path,
        description=body.description,
        enable_interpolation_in_file=body.enable_interpolation_in_file,
    )
    return _answer(call, family, await create_in(ctx, tx, NewResource(family, spec, level, call.actor, call)))


@writes("importVariables")
async def import_into_service(ctx: Context, tx: Tx, call: Call) -> Reply:
    query = call.asked(ImportQuery)
    named = NamedLevel(query.service_id, query.service_type or "", "service_id", "service_type")
    return await import_at(ctx, tx, call, await _level_to_write(ctx, tx, call, named))


@writes("variable.edit")
async def edit(ctx: Context, tx: Tx, call: Call) -> Reply:
    row, body = await target(tx, call), call.sent(VariableEdit)
    _refuse_secret_manager(body.secret_manager_access_id)
    check_tag(call, row)
    family = ctx.registry[row.family]
    changes: dict[str, object] = {
        "key": body.key,
        "description": body.description or "",
        "enable_interpolation_in_file": body.enable_interpolation_in_file,
    }
    if body.value is not None or not _is_secret(family):
        changes["value"] = _value_of(call, row, body)
    return _answer(call, family, await apply_changes(ctx, tx, call, row, changes))


def _refuse_secret_manager(id: str | None) -> None:
    if id:
        raise Invalid(
            "secret_manager_access_id: leave it out, and send the value: Windlass reads no secret manager"
        )


def _value_of(call: Call, row: Row, body: VariableEdit) -> str:
    """Returns the value to store.

    Clients of the full API get the aliased variable's key as the value of an alias, and send it back
    unchanged.
    """
    aliased = row.read(VariableShown).aliased_variable
    if call.dialect.is_full and aliased and body.value == aliased.key:
        return row.read(Variable).value
    return body.value or ""


@writes("variable.delete")
async def delete(ctx: Context, tx: Tx, call: Call) -> Reply:
    row = await target(tx, call)
    check_tag(call, row)
    await delete_row(ctx, tx, call, row, at_once=True)
    return Reply()


@writes("variable.alias")
async def alias(ctx: Context, tx: Tx, call: Call) -> Reply:
    body = call.sent(AliasAtLevel)
    named = NamedLevel(body.alias_parent_id, body.alias_scope, "alias_parent_id", "alias_scope")
    asked = await _derivation(ctx, tx, call, named)
    wanted = VariableAlias(
        key=body.key,
        description=body.description,
        enable_interpolation_in_file=body.enable_interpolation_in_file,
    )
    return _answer(call, asked.family, await create_alias(ctx, tx, call, asked, wanted))


@writes("variable.override")
async def override(ctx: Context, tx: Tx, call: Call) -> Reply:
    body = call.sent(OverrideAtLevel)
    named = NamedLevel(body.override_parent_id, body.override_scope, "override_parent_id", "override_scope")
    asked = await _derivation(ctx, tx, call, named)
    wanted = VariableValue(
        value=body.value,
        description=body.description,
        enable_interpolation_in_file=body.enable_interpolation_in_file,
    )
    return _answer(call, asked.family, await create_override(ctx, tx, call, asked, wanted))


async def _derivation(ctx: Context, tx: Tx, call: Call, named: NamedLevel) -> Derivation:
    """Returns the derivation that a request describes. The variable must be visible to the caller, either
    itself or at the level in the body."""
    here = await _level(ctx, tx, call.actor, named.id)
    inherited = await _find_inherited(ctx, tx, call, here) if here else None
    if inherited is None and await _find_variable(tx, call) is None:
        raise absent("variable")
    level = await _level_to_write(ctx, tx, call, named)
    if inherited is None:
        raise Invalid(f"{named.id_field}: must be that of a resource that sees the variable")
    return Derivation(ctx.registry[inherited.family], level, inherited)


async def _find_inherited(ctx: Context, tx: Tx, call: Call, parent: Row) -> Row | None:
    for family in _FAMILIES:
        if row := await visible_at(ctx, tx, call, parent, family, call.ids[0]):
            return row
    return None


async def _find_variable(tx: Tx, call: Call) -> Row | None:
    for family in _FAMILIES:
        row = await tx.resources.find(family.name, call.ids[0])
        if row is not None and await is_visible(tx, call.actor, row):
            return row
    return None


def _answer(call: Call, family: Family, reply: Reply) -> Reply:
    return Reply(_shared_form(call, family, reply.body), reply.tag)
