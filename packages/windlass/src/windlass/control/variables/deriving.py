"""Aliases and overrides: variables that are derived from another variable, at its level or below."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from windlass.base.errors import Conflict
from windlass.control.context.call import Call, Reply, writes
from windlass.control.context.context import Context
from windlass.control.request.creating import NewResource, create_in
from windlass.control.request.hidden_fields import decrypt_hidden
from windlass.control.request.paths import parent_of
from windlass.control.request.permissions import absent
from windlass.control.variables.variables import find_built_in, shown_target, spec_of
from windlass.core.declare.document import Document
from windlass.core.declare.resource import Family, Spec
from windlass.families.variable import Variable, VariableAlias, VariableValue, secret
from windlass.store import Row, Tx

MAX_ALIASES: Final = 500
"""Maximum number of aliases of a variable, including aliases of aliases. A change of its value updates all of
them at once."""
MAX_ALIASES_OF_BUILT_IN: Final = 100
"""Maximum number of aliases of a built-in variable. A service has many built-in variables, which change
together."""


class Derivation(Struct, frozen=True):
    """A derivation: the variable `target`, and the level of the variable that is derived from it."""

    family: Family
    level: Row
    target: Row


@writes("environmentVariable.override", "secret.override")
async def override(ctx: Context, tx: Tx, call: Call) -> Reply:
    return await create_override(ctx, tx, call, await _derivation(ctx, tx, call), call.sent(VariableValue))


@writes("environmentVariable.alias", "secret.alias")
async def alias(ctx: Context, tx: Tx, call: Call) -> Reply:
    return await create_alias(ctx, tx, call, await _derivation(ctx, tx, call), call.sent(VariableAlias))


async def _derivation(ctx: Context, tx: Tx, call: Call) -> Derivation:
    level = await parent_of(tx, call)
    target = await visible_at(ctx, tx, call, level, call.family, call.id)
    if target is None:
        raise absent(call.family.noun)
    return Derivation(call.family, level, target)


async def visible_at(ctx: Context, tx: Tx, call: Call, level: Row, family: Family, id: str) -> Row | None:
    """Returns a stored or built-in variable of this level or of a level above; None if there is none."""
    levels = await tx.tree.above(level.id)
    row = await tx.resources.find(family.name, id)
    if row is not None and row.parent in {above.id for above in levels}:
        return row
    return await find_built_in(ctx, tx, call.actor, levels, family, id)


async def create_override(
    ctx: Context, tx: Tx, call: Call, derivation: Derivation, body: VariableValue
) -> Reply:
    """Creates a variable that overrides the value of another, from a level downwards."""
    original = derivation.target.read(Variable)
    if derivation.target.parent == derivation.level.id:
        raise Conflict(f"{original.key} is set at this same level: change its value instead of overriding it")
    spec = spec_of(derivation.family)(
        key=original.key,
        value=body.value,
        description=body.description,
        mount_path=original.mount_path,
        enable_interpolation_in_file=body.enable_interpolation_in_file,
    )
    return await create_derived(ctx, tx, call, derivation, spec, "OVERRIDE")


async def create_alias(
    ctx: Context, tx: Tx, call: Call, derivation: Derivation, body: VariableAlias
) -> Reply:
    """Creates a variable that gives the value of another a second key, from a level downwards."""
    target = derivation.target
    original = target.read(Variable)
    spec = spec_of(derivation.family)(
        key=body.key,
        value=value_of(ctx, target),
        description=body.description,
        mount_path=original.mount_path,
    )
    return await create_derived(ctx, tx, call, derivation, spec, "ALIAS")


async def _refuse_many_aliases(tx: Tx, target: Row) -> None:
    first = target.id
    while above := await tx.links.target(first, "aliases"):
        first = above
    most = MAX_ALIASES if await tx.resources.get(first) else MAX_ALIASES_OF_BUILT_IN
    if await tx.links.count_chained(first, "aliases", most) >= most:
        raise Conflict(
            f"Use its name in a value instead, as {{{{{target.name}}}}}: a variable has at most {most} "
            "aliases"
        )


def value_of(ctx: Context, row: Row) -> str:
    """Returns the value of a variable or secret; empty for a built-in secret."""
    return decrypt_hidden(ctx, row).get("value", "") if row.sealed else row.read(Variable).value


async def create_derived(
    ctx: Context, tx: Tx, call: Call, derivation: Derivation, spec: Spec, kind: str
) -> Reply:
    if kind == "ALIAS":
        await _refuse_many_aliases(tx, derivation.target)
    noun = "secret" if derivation.family is secret else "variable"
    participle, link = ("overridden", "overrides") if kind == "OVERRIDE" else ("aliased", "aliases")
    extras: Document = {"variable_type": kind, f"{participle}_{noun}": shown_target(derivation.target)}
    links = {link: derivation.target.id}
    new = NewResource(derivation.family, spec, derivation.level, call.actor, call, extras=extras, links=links)
    return await create_in(ctx, tx, new)
