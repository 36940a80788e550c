"""The handler that creates resources, the same for every family."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from windlass.base import ids
from windlass.base.clock import stamp
from windlass.base.errors import Conflict
from windlass.control.context.call import Call, Reply, encode, writes
from windlass.control.context.context import Context
from windlass.control.records.deployments import refuse_below_deleted
from windlass.control.records.large_documents import refuse_many_large
from windlass.control.records.recording import record
from windlass.control.request.behaviour import Draft, behaviour_of
from windlass.control.request.hidden_fields import encrypt_hidden, refuse_redacted, reveal_to_admins
from windlass.control.request.paths import parent_to_create_in
from windlass.control.request.reading import in_dialect, with_fields
from windlass.control.request.references import (
    check_openings,
    check_references,
    references_in,
    set_links,
    shown_references,
)
from windlass.core.access import Actor
from windlass.core.declare.document import (
    hidden_of,
    view_of,
)
from windlass.core.declare.resource import Family, Spec
from windlass.core.declare.spec import copy_of
from windlass.core.declare.stored import raise_count
from windlass.core.words.events import Event
from windlass.store import NameTaken, Row, Tx


class NewResource(Struct, frozen=True):
    """A resource to create, with the caller who requests it."""

    family: Family
    spec: Spec
    parent: Row | None
    """The parent; None for organizations."""
    actor: Actor
    call: Call | None = None
    """The request; None if the server itself creates the resource."""
    extras: Mapping[str, object] = {}
    """Fields that the server adds to the document."""
    links: Mapping[str, str] = {}
    """The ids of referenced resources, by field."""
    copy_of: Row | None = None
    """The resource from which the new one is copied. The copy may keep the references of the original."""
    id: str = msgspec.field(default_factory=ids.new_id)

    @property
    def org(self) -> str:
        return self.parent.org if self.parent else self.id


@writes("*.create")
async def create(ctx: Context, tx: Tx, call: Call) -> Reply:
    parent = await parent_to_create_in(tx, call)
    # A creation modifies the spec and removes secrets from it, and a transaction may be repeated.
    spec = copy_of(call.sent(Spec))
    return await create_in(
        ctx, tx, NewResource(call.family, spec, parent, call.actor, call, extras=call.prepared)
    )


async def create_in(ctx: Context, tx: Tx, new_resource: NewResource) -> Reply:
    """Creates a resource, for a request or for the server itself."""
    family, call, spec = new_resource.family, new_resource.call, new_resource.spec
    if new_resource.parent and new_resource.parent.family in ctx.kinds:
        await refuse_below_deleted(tx, new_resource.parent)
    family.normalise(spec)
    refers = bool(family.references or family.reference_lists)
    copied = msgspec.json.decode(new_resource.copy_of.body) if new_resource.copy_of else None
    named = (
        await check_references(tx, family, spec, new_resource.org, new_resource.actor, copied)
        if refers
        else {}
    )
    if copied is not None:
        named = references_in(family, spec)
    refuse_redacted(family, spec)
    if refers:
        await check_openings(ctx, tx, family, spec, new_resource.actor, copied)
    links = {**named, **new_resource.links}
    is_full = call is not None and call.dialect.is_full
    extras = {**await shown_references(tx, family, spec), **new_resource.extras}
    draft = Draft(
        family,
        new_resource.id,
        new_resource.org,
        new_resource.parent,
        spec,
        new_resource.actor,
        extras,
        links,
        is_full=is_full,
    )
    draft.copy_of = new_resource.copy_of
    behaviour = behaviour_of(family)
    await behaviour.creating(ctx, tx, draft)
    row = await store_draft(ctx, tx, draft)
    await set_links(ctx, tx, family, row.id, draft.links)
    await behaviour.created(ctx, tx, draft)
    await count(ctx, tx, family, new_resource.parent, +1)
    await record(
        ctx,
        tx,
        Event.CREATED,
        row,
        new_resource.actor,
        call,
        new_body=row.body,
        parent_row=new_resource.parent,
    )
    answer = await reveal_to_admins(ctx, tx, call, row) if call and family.redacted else row.body
    answer = with_fields(answer, draft.answer) if draft.answer else answer
    return Reply(in_dialect(call, answer) if call else answer, row.tag)


async def store_draft(ctx: Context, tx: Tx, draft: Draft[Spec]) -> Row:
    """Stores a new resource without its event."""
    family, parent_id = draft.family, draft.parent.id if draft.parent else ""
    position, created = await tx.lists.place(parent_id, family.name)
    moment = stamp(created)
    ids_above = {"organization": draft.org}
    owners = {name: {"id": ids_above.get(name, parent_id)} for name in family.owners}
    base = {"id": draft.id, "created_at": moment, "updated_at": moment}
    view = view_of(family, draft.spec, {**owners, **draft.extras, **base})
    tag = ids.new_tag()
    name = family.key_in(view)
    sealed = encrypt_hidden(ctx, draft.org, draft.id, tag, {**draft.sealed, **hidden_of(family, draft.spec)})
    row = Row(draft.id, family.name, draft.org, parent_id, position, name, created, tag, encode(view), sealed)
    await refuse_many_large(tx, row, family.noun)
    try:
        await tx.resources.add(row)
    except NameTaken as error:
        raise name_conflict(family, draft.spec) from error
    return row


async def count(ctx: Context, tx: Tx, family: Family, parent: Row | None, step: int) -> None:
    """Updates the parent's counter of children of this family, if it has one."""
    if parent is None or (field := ctx.registry[parent.family].counts.get(family.name)) is None:
        return
    await tx.resources.rewrite(parent.id, raise_count(parent.body, field, step))


def name_conflict(family: Family, spec: Spec) -> Conflict:
    field = family.names
    value = getattr(spec, field) if field else ""
    return Conflict(
        f"{field}: there is already one {family.noun} with the {field} {value} here; change it, or choose "
        f"another {field}"
    )
