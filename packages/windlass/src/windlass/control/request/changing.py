"""Handlers for PUT and PATCH, the same for every family."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import msgspec

from windlass.base import ids
from windlass.base.clock import stamp
from windlass.base.errors import Invalid, Stale
from windlass.control.context.call import Call, Reply, encode, writes
from windlass.control.context.context import Context
from windlass.control.records.large_documents import refuse_large_change, refuse_many_large
from windlass.control.records.recording import record
from windlass.control.request.behaviour import Change, behaviour_of
from windlass.control.request.creating import name_conflict
from windlass.control.request.hidden_fields import (
    decrypt_hidden,
    encrypt_hidden,
    refuse_redacted,
    restore_redacted,
    reveal_to_admins,
)
from windlass.control.request.paths import target
from windlass.control.request.permissions import (
    require_rights_in_new_mode,
)
from windlass.control.request.reading import in_dialect
from windlass.control.request.references import (
    check_addresses,
    check_openings,
    check_references,
    set_links,
    shown_references,
)
from windlass.core.declare.document import (
    Document,
    hidden_of,
    merge_patched,
    replace_spec,
    restore_spec,
    sent_in,
    view_of,
    with_hidden,
)
from windlass.core.declare.resource import Family, Spec
from windlass.core.declare.stored import read_decoded, with_unknown
from windlass.core.words.events import Event
from windlass.store import NameTaken, Row, Tx

MergeChanges = Callable[[Family, Document, Mapping[str, str], Mapping[str, object]], Spec]
"""Merges a client's changes into a stored document and its encrypted fields. Returns the new spec."""


@writes("*.update")
async def update(ctx: Context, tx: Tx, call: Call) -> Reply:
    row = await target(tx, call)
    check_tag(call, row)
    fixed = ctx.registry[row.family].fixed
    sent = {
        name: value
        for name, value in sent_in(call.sent(Spec)).items()
        if value is not None or name not in fixed
    }
    return await _apply_changes(ctx, tx, call, row, sent, replace_spec)


@writes("*.patch")
async def patch(ctx: Context, tx: Tx, call: Call) -> Reply:
    row = await target(tx, call)
    check_tag(call, row)
    return await apply_changes(ctx, tx, call, row, sent_in(call.sent(Spec)))


async def apply_changes(ctx: Context, tx: Tx, call: Call, row: Row, changes: Mapping[str, object]) -> Reply:
    """Merges changes into a resource. Fields that are missing in `changes` stay as they are."""
    return await _apply_changes(ctx, tx, call, row, changes, merge_patched)


async def restore_fields(
    ctx: Context,
    tx: Tx,
    call: Call,
    row: Row,
    former_fields: Mapping[str, object],
    extras: Mapping[str, object],
) -> Reply:
    """Replaces whole fields of a resource by former ones, in one change. UNSET removes a field. `extras`:
    former values of fields that the server adds."""
    return await _apply_changes(ctx, tx, call, row, former_fields, restore_spec, extras)


async def _apply_changes(
    ctx: Context,
    tx: Tx,
    call: Call,
    row: Row,
    changes: Mapping[str, object],
    merge: MergeChanges,
    extras: Mapping[str, object] = MappingProxyType({}),
) -> Reply:
    family = ctx.registry[row.family]
    before: Document = msgspec.json.decode(row.body)
    hidden = decrypt_hidden(ctx, row)
    changes = restore_redacted(family, before, hidden, changeable(family, before, changes))
    own = family.hidden | family.redacted
    sent = {name: value for name, value in hidden.items() if name in own}
    old = with_hidden(before, sent)
    spec = merge(family, before, sent, changes)
    family.normalise(spec)
    links = await check_references(tx, family, spec, row.org, call.actor, old)
    refuse_redacted(family, spec)
    await require_rights_in_new_mode(tx, call, row, family, spec)
    moved = check_addresses(family, old, spec, changes)
    await check_openings(ctx, tx, family, spec, call.actor, old)
    behaviour = behaviour_of(family)
    change = Change(
        row, read_decoded(old, family.spec), spec, call.actor, {**call.prepared}, is_full=call.dialect.is_full
    )
    change.extras |= await shown_references(tx, family, spec)
    await behaviour.updating(ctx, tx, change)
    added = {**_server_side(family, before), **change.extras, **extras}
    view = view_of(family, spec, {name: value for name, value in added.items() if value is not msgspec.UNSET})
    # Secrets that the server stored for the previous address are removed if the address changes.
    kept = {} if moved else {name: value for name, value in hidden.items() if name not in own}
    new_hidden = {**kept, **change.sealed, **hidden_of(family, spec)}
    kept_fields = {name: value for name, value in before.items() if name not in family.hidden}
    after = with_unknown(msgspec.to_builtins(view), kept_fields, family.view)
    if after == before and new_hidden == hidden:
        return Reply(in_dialect(call, await reveal_to_admins(ctx, tx, call, row)), row.tag)
    after["updated_at"] = stamp(max(tx.now, row.created))
    tag = ids.new_tag()
    sealed = encrypt_hidden(ctx, row.org, row.id, tag, new_hidden)
    new = msgspec.structs.replace(row, name=family.key_of(after), tag=tag, body=encode(after), sealed=sealed)
    await refuse_large_change(tx, row, new)
    if _size_of(new) > _size_of(row):
        await refuse_many_large(tx, new, family.noun)
    try:
        await tx.resources.change(new)
    except NameTaken as error:
        raise name_conflict(family, spec) from error
    await set_links(ctx, tx, family, row.id, links, spec)
    await behaviour.updated(ctx, tx, new)
    await record(
        ctx,
        tx,
        Event.UPDATED,
        new,
        call.actor,
        call,
        old_body=row.body,
        new_body=new.body,
        hidden_changes=sorted(name for name in own if new_hidden.get(name) != hidden.get(name)),
    )
    return Reply(in_dialect(call, await reveal_to_admins(ctx, tx, call, new)), tag)


def _size_of(row: Row) -> int:
    return len(row.body) + len(row.sealed or b"")


def _server_side(family: Family, document: Document) -> Document:
    """Returns the fields of a document that clients do not send."""
    sent = {field.name for field in family.sent_fields} - family.hidden | {*family.flags.values()}
    return {name: value for name, value in document.items() if name not in sent}


def changeable(family: Family, stored_document: Document, changes: Mapping[str, object]) -> Document:
    """Returns the changes without fixed fields. Raises Invalid if a fixed field differs from its stored
    value."""
    for field in sorted(family.fixed & changes.keys()):
        if changes[field] != stored_document.get(field):
            raise Invalid(f"{field}: cannot be changed after creation")
    return {field: value for field, value in changes.items() if field not in family.fixed}


def check_tag(call: Call, row: Row) -> None:
    """Raises Stale unless `If-Match` matches the resource's tag. The comparison is strong: a weak tag never
    matches."""
    if call.if_match is None or call.if_match.strip() == "*":
        return
    if f'"{row.tag}"' not in [tag.strip() for tag in call.if_match.split(",")]:
        raise Stale(
            "Read the resource again, and send its current ETag as If-Match: it has changed since you read it"
        )
