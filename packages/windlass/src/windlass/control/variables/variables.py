"""Environment variables and secrets: inherited by lower levels, overridden and aliased."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from windlass.base.errors import Conflict, Invalid, Missing
from windlass.control.context.call import Call, Reply, Writing, reads, results, writes
from windlass.control.context.context import Context
from windlass.control.records.large_documents import refuse_many_larger
from windlass.control.request import changing, creating, deleting, reading
from windlass.control.request.behaviour import Behaviour, Change, Draft, behaves
from windlass.control.request.hidden_fields import decrypt_hidden, encrypt_hidden
from windlass.control.request.paths import parent_of, parent_to_create_in
from windlass.control.request.permissions import visible_below
from windlass.control.request.reading import all_in_dialect, in_dialect, page_of, paging
from windlass.control.variables import injected as built_ins
from windlass.core.access import Actor
from windlass.core.declare.document import sent_in
from windlass.core.declare.resource import Family
from windlass.core.declare.spec import Spec
from windlass.core.declare.stored import NamedDocument, rewritten
from windlass.core.declare.stored import read as read_stored
from windlass.core.declare.traits import has_variables
from windlass.families.variable import (
    Levelled,
    Secret,
    Variable,
    VariableShown,
    secret,
    variable,
)
from windlass.store import Reads, ResourceVersionRow, Row, Tx

_KINDS = (variable, secret)
MAX_VARIABLES_OF_LEVEL: Final = 1000
"""Maximum number of variables, and of secrets, of one level. Every service below reads all of them."""
_OWN_TYPES = {"FILE", "VALUE"}
"""Types of variables that are not derived."""


@reads("environmentVariable.list", "secret.list")
async def visible(ctx: Context, call: Call) -> Reply:
    """Lists the variables of a level and its inherited variables, the nearest level first.

    Clients of the full API get built-in variables at the end of the list.
    """
    source, family = ctx.store.reads, call.family
    here = await parent_of(source, call)
    levels = await source.tree.above(here.id)
    rows = await visible_below(source, call.actor, here, family)
    added = await built_ins_at(ctx, source, call.actor, levels, family) if call.dialect.is_full else []
    if rows is not None:
        return page_of(call, [row.body for row in (*rows, *built_ins.rows_of(ctx, added, family))])
    page, size = paging(call)
    first, last = (page - 1) * size, page * size
    bodies, total = await _read_page(source, levels, family, first, last)
    shown = added[max(0, first - total) : max(0, last - total)]
    bodies += [row.body for row in built_ins.rows_of(ctx, shown, family)]
    return Reply(results(all_in_dialect(call, bodies), page, size, total + len(added)))


async def _read_page(
    reads: Reads, levels: Sequence[Row], family: Family, first: int, last: int
) -> tuple[list[bytes], int]:
    """Returns a page of the variables of all levels, in the order of the levels, and their total number."""
    bodies: list[bytes] = []
    total = 0
    for level in levels:
        skip, most = max(0, first - total), max(0, last - max(first, total))
        part, length = await reads.lists.page(level.id, family.name, skip, most)
        bodies += part
        total += length
    return bodies, total


async def built_ins_at(
    ctx: Context, reads: Reads, actor: Actor, levels: Sequence[Row], family: Family
) -> list[built_ins.ServiceVariables]:
    """Returns the built-in variables of a family that the caller sees at these levels."""
    owned = await built_ins.listed_variables(ctx, reads, levels)
    return built_ins.of_family(await built_ins.visible(reads, actor, owned, levels), family)


async def built_in_rows(
    ctx: Context, reads: Reads, actor: Actor, levels: Sequence[Row], family: Family
) -> list[Row]:
    return built_ins.rows_of(ctx, await built_ins_at(ctx, reads, actor, levels, family), family)


@reads("environmentVariable.read", "secret.read")
async def read(ctx: Context, call: Call) -> Reply:
    try:
        return await reading.read(ctx, call)
    except Missing:
        row = await _own_making(ctx, ctx.store.reads, call)
        if row is None:
            raise
        return Reply(in_dialect(call, row.body), row.tag)


@writes("environmentVariable.create")
async def create(ctx: Context, tx: Tx, call: Call) -> Reply:
    """Creates a variable. In the full interface, one of a project replaces that with the same key."""
    if call.dialect.is_full:
        level = await parent_to_create_in(tx, call)
        present = await tx.resources.named(level.id, variable.name, call.sent(Variable).key)
        if present and _is_own(present) and _is_topmost(ctx.registry[level.family]):
            replaced = await changing.apply_changes(
                ctx, tx, call, present, msgspec.to_builtins(call.sent(Variable))
            )
            return msgspec.structs.replace(replaced, status=201)
    return await creating.create(ctx, tx, call)


def _is_topmost(level: Family) -> bool:
    """Returns whether nothing above a level has variables, as nothing above a project has."""
    return not isinstance(level.parent, Family) or has_variables not in level.parent.traits


def _is_own(row: Row) -> bool:
    """Returns whether a variable has a value of its own, and is no alias and no override."""
    return row.read(Levelled).variable_type in _OWN_TYPES


@writes("environmentVariable.update", "secret.update")
async def update(ctx: Context, tx: Tx, call: Call) -> Reply:
    await _take_key_for_value(tx, call)
    return await _unless_built_in(ctx, tx, call, changing.update, "changed: override it instead")


@writes("environmentVariable.patch", "secret.patch")
async def patch(ctx: Context, tx: Tx, call: Call) -> Reply:
    await _take_key_for_value(tx, call)
    return await _unless_built_in(ctx, tx, call, changing.patch, "changed: override it instead")


@writes("environmentVariable.delete", "secret.delete")
async def delete(ctx: Context, tx: Tx, call: Call) -> Reply:
    return await _unless_built_in(ctx, tx, call, deleting.delete, "deleted: it goes with its owner")


async def _take_key_for_value(tx: Tx, call: Call) -> None:
    """Replaces the value of an alias if it is the aliased variable's key, which existing clients receive as
    the value and send back."""
    row = await tx.resources.find(variable.name, call.id) if call.dialect.is_full else None
    aliased = row.read(VariableShown).aliased_variable if row else None
    body = call.sent(Spec)
    if row and aliased and sent_in(body).get("value") == aliased.key:
        msgspec.structs.force_setattr(body, "value", row.read(Variable).value)


async def _unless_built_in(ctx: Context, tx: Tx, call: Call, write: Writing, refusal: str) -> Reply:
    try:
        return await write(ctx, tx, call)
    except Missing:
        if row := await _own_making(ctx, tx, call):
            raise Invalid(f"{row.name} is made by Windlass and cannot be {refusal}") from None
        raise


async def _own_making(ctx: Context, reads: Reads, call: Call) -> Row | None:
    """Returns the built-in variable in the path of a call, if the caller may see it."""
    try:
        here = await parent_of(reads, call)
    except Missing:
        return None
    levels = await reads.tree.above(here.id)
    return await find_built_in(ctx, reads, call.actor, levels, call.family, call.id)


async def find_built_in(
    ctx: Context, reads: Reads, actor: Actor, levels: Sequence[Row], family: Family, id: str
) -> Row | None:
    found = await built_ins_at(ctx, reads, actor, levels, family)
    rows = built_ins.rows_of(ctx, [one for one in found if one.variable.id == id][:1], family)
    return rows[0] if rows else None


@behaves(variable, secret)
class Variables(Behaviour[Variable | Secret]):
    async def creating(self, ctx: Context, tx: Tx, draft: Draft[Variable | Secret]) -> None:
        level = draft.above
        await self._refuse_duplicate(tx, draft)
        if await tx.lists.length(level.id, draft.family.name) >= MAX_VARIABLES_OF_LEVEL:
            noun = "secrets" if draft.family is secret else "variables"
            raise Conflict(
                f"Delete some {noun} first: one {level.family} has at most {MAX_VARIABLES_OF_LEVEL} of its "
                "own"
            )
        word = ctx.registry[level.family].enum_value
        draft.give(scope=word)
        draft.extras.setdefault("variable_type", _type_of(draft.spec))
        if level.family in ctx.kinds:
            name = level.read(NamedDocument).name
            draft.give(service_id=level.id, service_name=name, service_type=word)

    async def updating(self, ctx: Context, tx: Tx, change: Change[Variable | Secret]) -> None:
        spec, stored, former = change.spec, change.row.read(Levelled), change.before.value or ""
        if stored.variable_type == "ALIAS":
            spec.value = spec.value or former
            if spec.value != former:
                raise Invalid("value: an alias has the value of what it stands for; change it there")
        if stored.variable_type in _OWN_TYPES:
            change.extras["variable_type"] = _type_of(spec)

    async def updated(self, ctx: Context, tx: Tx, row: Row) -> None:
        """Updates the values of aliases, including aliases of aliases. Raises Conflict if their documents
        would be too large together."""
        changes: list[tuple[Row, Row]] = []
        waiting = [row]
        while waiting:
            target = waiting.pop()
            for alias in await tx.links.sources(target.id, "aliases"):
                changed = self._follow(ctx, alias, target)
                tx.spend_rewrites(1, len(changed.body) + len(changed.sealed or b""))
                changes.append((alias, changed))
                waiting.append(changed)
        await refuse_many_larger(tx, changes, ctx.registry[row.family].noun)
        for _, changed in changes:
            await tx.resources.change(changed)

    async def deleting(self, ctx: Context, tx: Tx, row: Row) -> None:
        """Deletes the variables that are derived from the deleted variable, and erases what deployments have
        kept of a secret."""
        if row.family == secret.name:
            kept = await kept_secrets(tx, row)
            await tx.deployment_inputs.seal(msgspec.structs.replace(version, sealed=None) for version in kept)
        for link in ("aliases", "overrides"):
            for derived in await tx.links.sources(row.id, link):
                await built_ins.remove_with_derived(tx, derived)

    async def _refuse_duplicate(self, tx: Tx, draft: Draft[Variable | Secret]) -> None:
        other = secret if draft.family is variable else variable
        if await tx.resources.named(draft.above.id, other.name, draft.spec.key):
            raise Conflict(
                f"key: there is already {phrase(other)} with the key {draft.spec.key} here; change it, or "
                "choose another key"
            )

    def _follow(self, ctx: Context, alias: Row, target: Row) -> Row:
        """Returns an alias with the value of its changed target."""
        noun = "secret" if alias.family == secret.name else "variable"
        changes: dict[str, object] = {f"aliased_{noun}": shown_target(target)}
        sealed = alias.sealed
        if noun == "variable":
            changes["value"] = target.read(Variable).value
        else:
            sealed = encrypt_hidden(ctx, alias.org, alias.id, alias.tag, decrypt_hidden(ctx, target))
        return msgspec.structs.replace(alias, body=rewritten(alias.body, changes), sealed=sealed)


async def kept_secrets(tx: Tx, row: Row) -> list[ResourceVersionRow]:
    """Returns the versions of a secret that deployments have kept, including those of secrets with the same
    key and level that rollbacks have deleted."""
    sealed = [
        version for version in await tx.deployment_inputs.of_holder(row.parent, row.family) if version.sealed
    ]
    return [version for version in sealed if read_stored(version.body, Secret).key == row.name]


def spec_of(family: Family) -> type[Variable] | type[Secret]:
    return Secret if family is secret else Variable


def _type_of(spec: Variable | Secret) -> str:
    return "FILE" if spec.mount_path else "VALUE"


def phrase(family: Family) -> str:
    return "a secret" if family is secret else "an environment variable"


def shown_target(row: Row) -> dict[str, object]:
    """Returns the fields of a variable that derived variables show. For a secret, the value is left out."""
    level = row.read(Levelled)
    shown: dict[str, object] = {"id": row.id, "key": row.read(Variable).key}
    if row.family == variable.name:
        shown["value"] = row.read(Variable).value
    mount_path = row.read(Variable).mount_path or ""
    return {**shown, "scope": level.scope, "variable_type": level.variable_type, "mount_path": mount_path}
