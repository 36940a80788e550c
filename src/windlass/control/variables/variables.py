"""Environment variables and secrets: seen from where they are inherited, overridden and aliased."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from windlass.base.errors import Conflict, Forbidden, Invalid, Missing
from windlass.control.context.call import Call, Reply, Writing, encode, reads, results, writes
from windlass.control.context.context import Context
from windlass.control.request import changing, deleting, reading
from windlass.control.request.behaviour import Behaviour, Change, Draft, behaves
from windlass.control.request.changing import apply_changes
from windlass.control.request.creating import NewResource, create_in
from windlass.control.request.hidden import decrypt_hidden, encrypt_hidden
from windlass.control.request.paths import parent_of
from windlass.control.request.permissions import absent, allows, visible_below
from windlass.control.request.reading import all_in_dialect, in_dialect, page_of, paging
from windlass.control.variables import injected as built_ins
from windlass.core.declare.document import Document, sent_in
from windlass.core.declare.resource import Family
from windlass.core.declare.spec import Spec
from windlass.core.declare.stored import NamedDocument, rewritten
from windlass.families.variable import (
    Import,
    Imported,
    Importing,
    Levelled,
    Secret,
    Variable,
    VariableAlias,
    VariableImport,
    VariableShown,
    VariableValue,
    secret,
    variable,
)
from windlass.store import Reads, Row, Tx

_KINDS = (variable, secret)
_OWN_TYPES = {"FILE", "VALUE"}
"""Types of variables that are neither aliases nor overrides."""


@reads("environmentVariable.list", "secret.list")
async def visible(ctx: Context, call: Call) -> Reply:
    """Lists the variables of a level and those that it inherits, nearest first; then injected ones, if
    expected."""
    source, family = ctx.store.reads, call.family
    here = await parent_of(source, call)
    levels = await source.tree.above(here.id)
    rows = await visible_below(source, call.actor, here, family)
    added = await _read_built_in(ctx, source, call, levels, family) if call.dialect.is_full else []
    if rows is not None:
        return page_of(call, [row.body for row in (*rows, *added)])
    page, size = paging(call)
    first, last = (page - 1) * size, page * size
    bodies, total = await _read_page(source, levels, family, first, last)
    bodies += [row.body for row in added[max(0, first - total) : max(0, last - total)]]
    return Reply(results(all_in_dialect(call, bodies), page, size, total + len(added)))


async def _read_page(
    source: Reads, levels: Sequence[Row], family: Family, first: int, last: int
) -> tuple[list[bytes], int]:
    """Returns a slice of the variables of all levels, one level after the other, and their number."""
    bodies: list[bytes] = []
    total = 0
    for level in levels:
        skip, most = max(0, first - total), max(0, last - max(first, total))
        part, length = await source.lists.page(level.id, family.name, skip, most)
        bodies += part
        total += length
    return bodies, total


async def _read_built_in(
    ctx: Context, source: Reads, call: Call, levels: Sequence[Row], family: Family
) -> list[Row]:
    owned = await built_ins.listed_variables(ctx, source, levels)
    return built_ins.rows_of(ctx, await built_ins.visible(source, call.actor, owned, levels), family)


@reads("environmentVariable.read", "secret.read")
async def read(ctx: Context, call: Call) -> Reply:
    try:
        return await reading.read(ctx, call)
    except Missing:
        row = await _own_making(ctx, ctx.store.reads, call)
        if row is None:
            raise
        return Reply(in_dialect(call, row.body), row.tag)


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
    """Existing clients get the key of the aliased variable as the value of an alias: accepts it back."""
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


async def _own_making(ctx: Context, source: Reads, call: Call) -> Row | None:
    """The built-in variable that the path leads to, if it leads to one that the caller may see."""
    try:
        here = await parent_of(source, call)
    except Missing:
        return None
    levels = await source.tree.above(here.id)
    rows = await _read_built_in(ctx, source, call, levels, call.family)
    return next((row for row in rows if row.id == call.id), None)


@writes("environmentVariable.override", "secret.override")
async def override(ctx: Context, tx: Tx, call: Call) -> Reply:
    """Another value under the same key, from this level down."""
    here, other = await _original(ctx, tx, call)
    original = other.read(Variable)
    if other.parent == here.id:
        raise Conflict(f"{original.key} is of this very level: change its value instead of overriding it")
    body = call.sent(VariableValue)
    spec = _spec(call.family)(
        key=original.key,
        value=body.value,
        description=body.description,
        mount_path=original.mount_path,
        enable_interpolation_in_file=body.enable_interpolation_in_file,
    )
    return await create_derived(ctx, tx, call, here, spec, "OVERRIDE", overridden=other)


@writes("environmentVariable.alias", "secret.alias")
async def alias(ctx: Context, tx: Tx, call: Call) -> Reply:
    """The same value under another key, from this level down."""
    here, other = await _original(ctx, tx, call)
    original = other.read(Variable)
    value = decrypt_hidden(ctx, other).get("value", "") if other.sealed else original.value
    body = call.sent(VariableAlias)
    spec = _spec(call.family)(
        key=body.key,
        value=value,
        description=body.description,
        mount_path=original.mount_path,
    )
    return await create_derived(ctx, tx, call, here, spec, "ALIAS", aliased=other)


def _spec(family: Family) -> type[Variable] | type[Secret]:
    return Secret if family is secret else Variable


async def _original(ctx: Context, tx: Tx, call: Call) -> tuple[Row, Row]:
    """Returns the level of the new variable, and the visible one that it is derived from."""
    here, family = await parent_of(tx, call), call.family
    inherited = {level.id for level in await tx.tree.above(here.id)}
    other = await tx.resources.find(family.name, call.id)
    if other is not None and other.parent not in inherited:
        other = None
    other = other or await _own_making(ctx, tx, call)
    if other is None:
        raise absent(family.noun)
    return here, other


async def create_derived(
    ctx: Context, tx: Tx, call: Call, here: Row, spec: Spec, kind: str,
    family: Family | None = None, overridden: Row | None = None, aliased: Row | None = None,
) -> Reply:  # fmt: skip
    """Creates a variable that overrides another one, or is an alias of it."""
    family = family or call.family
    noun = "secret" if family is secret else "variable"
    extras: Document = {"variable_type": kind}
    if overridden:
        extras[f"overridden_{noun}"] = _other(overridden)
    if aliased:
        extras[f"aliased_{noun}"] = _other(aliased)
    links = {"overrides": overridden} if overridden else {"aliases": aliased}
    linked = {field: other.id for field, other in links.items() if other}
    new = NewResource(family, spec, here, call.actor, call, extras=extras, links=linked)
    return await create_in(ctx, tx, new)


@writes("environmentVariable.import")
async def import_all(ctx: Context, tx: Tx, call: Call) -> Reply:
    """All or nothing; what is there already stays as it is, unless it is to be overwritten."""
    here = await parent_of(tx, call)
    levels = {ctx.registry[level.family].enum_value: level for level in await tx.tree.above(here.id)}
    body = call.sent(Import)
    done: list[Imported] = []
    for number, entry in enumerate(body.vars):
        level = await _level(tx, call, levels, f"vars[{number}]", entry)
        if await _put(ctx, tx, call, level, f"vars[{number}]", entry):
            value = msgspec.UNSET if entry.is_secret else entry.value
            done.append(Imported(name=entry.name, scope=entry.scope, is_secret=entry.is_secret, value=value))
    answer = VariableImport(total_variables_to_import=len(body.vars), successful_imported_variables=done)
    return Reply(encode(answer))


async def _level(tx: Tx, call: Call, levels: Mapping[str, Row], where: str, entry: Importing) -> Row:
    level = levels.get(entry.scope)
    if level is None:
        allowed = " or ".join(scope for scope in levels if scope != "ORGANIZATION")
        raise Invalid(f"{where}.scope: is no level here; it can be {allowed}")
    if not await allows(tx, call.actor, call.operation.need, level):
        raise Forbidden(
            f"{where}.scope: use another token: this one is limited to less than the {level.family}"
        )
    return level


async def _put(ctx: Context, tx: Tx, call: Call, level: Row, where: str, entry: Importing) -> bool:
    """Returns whether the variable exists now because of this import."""
    family, other = (secret, variable) if entry.is_secret else (variable, secret)
    row = await tx.resources.named(level.id, family.name, entry.name)
    if row is None and await tx.resources.named(level.id, other.name, entry.name) is None:
        spec = _spec(family)(key=entry.name, value=entry.value)
        await create_in(ctx, tx, NewResource(family, spec, level, call.actor, call))
        return True
    if not call.sent(Import).overwrite:
        return False
    if row is None:
        raise Conflict(f"{where}.name: {entry.name} is {_phrase(other)} of this level: delete it first")
    await apply_changes(ctx, tx, call, row, {"value": entry.value})
    return True


@behaves(variable, secret)
class Variables(Behaviour[Variable | Secret]):
    async def creating(self, ctx: Context, tx: Tx, draft: Draft[Variable | Secret]) -> None:
        await self._refuse_twin(tx, draft)
        level = draft.above
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
        """Gives aliases the value of the variable that they stand for."""
        for alias in await tx.links.sources(row.id, "aliases"):
            await self._follow(ctx, tx, alias, row)

    async def deleting(self, ctx: Context, tx: Tx, row: Row) -> None:
        """Deletes the variables that are derived from it."""
        for link in ("aliases", "overrides"):
            for derived in await tx.links.sources(row.id, link):
                await built_ins.remove_with_derived(tx, derived)

    async def _refuse_twin(self, tx: Tx, draft: Draft[Variable | Secret]) -> None:
        other = secret if draft.family is variable else variable
        if await tx.resources.named(draft.above.id, other.name, draft.spec.key):
            raise Conflict(
                f"key: there is already {_phrase(other)} with the key {draft.spec.key} here; change it, or "
                "choose another key"
            )

    async def _follow(self, ctx: Context, tx: Tx, alias: Row, target: Row) -> None:
        noun = "secret" if alias.family == secret.name else "variable"
        changes: dict[str, object] = {f"aliased_{noun}": _other(target)}
        sealed = alias.sealed
        if noun == "variable":
            changes["value"] = target.read(Variable).value
        else:
            sealed = encrypt_hidden(ctx, alias.org, alias.id, alias.tag, decrypt_hidden(ctx, target))
        await tx.resources.change(
            msgspec.structs.replace(alias, body=rewritten(alias.body, changes), sealed=sealed)
        )


def _type_of(spec: Variable | Secret) -> str:
    return "FILE" if spec.mount_path else "VALUE"


def _phrase(family: Family) -> str:
    return "a secret" if family is secret else "an environment variable"


def _other(row: Row) -> dict[str, object]:
    """Returns the part of a variable that a derived one shows; of a secret, not the value."""
    level = row.read(Levelled)
    shown: dict[str, object] = {"id": row.id, "key": row.read(Variable).key}
    if row.family == variable.name:
        shown["value"] = row.read(Variable).value
    mount_path = row.read(Variable).mount_path or ""
    return {**shown, "scope": level.scope, "variable_type": level.variable_type, "mount_path": mount_path}
