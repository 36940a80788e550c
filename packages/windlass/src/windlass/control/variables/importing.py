"""Imports many variables and secrets in one transaction."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from windlass.base.errors import Conflict, Forbidden, Invalid
from windlass.control.context.call import Call, Reply, encode, writes
from windlass.control.context.context import Context
from windlass.control.request.changing import apply_changes
from windlass.control.request.creating import NewResource, create_in
from windlass.control.request.paths import parent_of
from windlass.control.request.permissions import allows
from windlass.control.variables.variables import phrase, spec_of
from windlass.families.variable import Import, Imported, Importing, VariableImport, secret, variable
from windlass.store import Row, Tx


@writes("environmentVariable.import")
async def import_all(ctx: Context, tx: Tx, call: Call) -> Reply:
    return await import_at(ctx, tx, call, await parent_of(tx, call))


async def import_at(ctx: Context, tx: Tx, call: Call, parent: Row) -> Reply:
    """Imports variables. Existing variables keep their values, unless the request asks to overwrite them."""
    levels = {ctx.registry[level.family].enum_value: level for level in await tx.tree.above(parent.id)}
    body = call.sent(Import)
    done: list[Imported] = []
    for number, entry in enumerate(body.vars):
        level = await _level(tx, call, levels, f"vars[{number}]", entry)
        if await _import_entry(ctx, tx, call, level, f"vars[{number}]", entry):
            value = msgspec.UNSET if entry.is_secret else entry.value
            done.append(Imported(name=entry.name, scope=entry.scope, is_secret=entry.is_secret, value=value))
    answer = VariableImport(total_variables_to_import=len(body.vars), successful_imported_variables=done)
    return Reply(encode(answer))


async def _level(tx: Tx, call: Call, levels: Mapping[str, Row], variable_path: str, entry: Importing) -> Row:
    level = levels.get(entry.scope)
    if level is None:
        allowed = " or ".join(scope for scope in levels if scope != "ORGANIZATION")
        raise Invalid(f"{variable_path}.scope: must be {allowed}: the variable is not seen from other levels")
    if not await allows(tx, call.actor, call.operation.need, level):
        raise Forbidden(
            f"{variable_path}.scope: use another token: this one is limited to less than the {level.family}"
        )
    return level


async def _import_entry(
    ctx: Context, tx: Tx, call: Call, level: Row, variable_path: str, entry: Importing
) -> bool:
    """Imports one variable. Returns whether it was created or overwritten."""
    family, other = (secret, variable) if entry.is_secret else (variable, secret)
    row = await tx.resources.named(level.id, family.name, entry.name)
    if row is None and await tx.resources.named(level.id, other.name, entry.name) is None:
        spec = spec_of(family)(key=entry.name, value=entry.value)
        await create_in(ctx, tx, NewResource(family, spec, level, call.actor, call))
        return True
    if not call.sent(Import).overwrite:
        return False
    if row is None:
        raise Conflict(
            f"{variable_path}.name: {entry.name} is {phrase(other)} of this level: delete it first"
        )
    await apply_changes(ctx, tx, call, row, {"value": entry.value})
    return True
