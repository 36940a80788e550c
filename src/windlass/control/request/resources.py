"""Create, list, read, update and delete: the same for every family.

What a family does beyond that is in its `Behaviour`, found by the family's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from windlass.base import ids
from windlass.base.clock import stamp
from windlass.base.errors import Conflict, Forbidden, Invalid, Stale
from windlass.control.request.context import Call, Context, Reply, encode, reads, results, writes
from windlass.control.request.permissions import (
    absent,
    allows,
    is_allowed_throughout,
    is_visible,
    require,
    require_move,
    require_new,
    visible_below,
)
from windlass.control.request.recording import Origin, about, emit, origin_of
from windlass.control.request.recording import record as record
from windlass.core.access import Actor, Scope
from windlass.core.declare.document import (
    VEIL,
    Document,
    hidden_of,
    is_veil,
    merge_patched,
    replaced,
    sent_in,
    view_of,
)
from windlass.core.declare.operations import PathId
from windlass.core.declare.registry import Registry
from windlass.core.declare.resource import Family, Spec
from windlass.core.deploy.progress import Initiator
from windlass.core.words.events import Event
from windlass.store.store import NameTaken, Reads, Row, Tx

T = TypeVar("T", bound="type[Behaviour]")


class Draft(Struct):
    """A resource on its way into the store."""

    family: Family
    id: str
    org: str
    parent: Row | None
    spec: Any
    actor: Actor
    extras: Document
    """What the server adds to the answer."""
    answer: Document
    """What only the answer to the creation carries."""
    links: dict[str, str]
    """Whom it refers to, by field."""
    sealed: dict[str, str] = msgspec.field(default_factory=dict)
    """What the server keeps sealed with it, beside what the client sent; later changes leave it as it is."""

    @property
    def above(self) -> Row:
        """The parent. Only organizations have none, and their behaviour does not ask."""
        if self.parent is None:
            raise LookupError(f"{self.family.name} has no parent")
        return self.parent

    def give(self, **fields: Any) -> None:
        self.extras |= fields


class Behaviour:
    """What a family does beyond being stored. Every step is in the transaction of the change."""

    async def creating(self, ctx: Context, tx: Tx, draft: Draft) -> None:
        """Before: look up, complete, refuse."""

    async def created(self, ctx: Context, tx: Tx, draft: Draft) -> None:
        """After: what goes with it."""

    async def updating(
        self, ctx: Context, tx: Tx, row: Row, before: Document, spec: Any, extras: Document
    ) -> None:
        """Before: complete or refuse; `extras` are laid over the new document."""

    async def updated(self, ctx: Context, tx: Tx, row: Row, before: Document, after: Document) -> None:
        """After: what depends on it."""

    async def deleting(self, ctx: Context, tx: Tx, row: Row) -> None:
        """Before: refuse, or let go of what it holds."""

    def refuses(self, document: Document, address: str) -> str:
        """Says why this credential is not sent to this address; empty if it is."""
        raise NotImplementedError("a credential says which addresses it is for")


DISCARD = "discard"
"""The kind of work that erases data of a deleted service."""
EVERYTHING = 2**31 - 1
Laying = Callable[[Family, Document, Mapping[str, str], Mapping[str, Any]], Spec]
"""From a document, what is sealed with it, and what a client sent, to the spec that is wanted now."""
NOTHING: Mapping[str, Any] = MappingProxyType({})
BEHAVIOURS: dict[str, Behaviour] = {}
"""By family."""
TRAIT_BEHAVIOURS: dict[str, Behaviour] = {}
"""By trait; for families without a behaviour of their own."""
_PLAIN = Behaviour()


def behaves(*families: Family, trait: str = "") -> Callable[[T], T]:
    """Registers the behaviour of these families, or of all families with a trait."""

    def register(behaviour: T) -> T:
        BEHAVIOURS.update({family.name: behaviour() for family in families})
        TRAIT_BEHAVIOURS.update({trait: behaviour()} if trait else {})
        return behaviour

    return register


async def visible(source: Reads, call: Call, family: Family, id: str) -> Row:
    """Returns a resource, if the caller may do with it what the operation needs."""
    row = await source.find(family.name, id)
    if row is None:
        raise absent(family.noun)
    if not is_allowed_throughout(call, row.org):
        await require(source, call, row, family.noun)
    return row


async def target(source: Reads, call: Call) -> Row:
    """The resource that the operation is about, below the parent that the path names."""
    operation = call.operation
    row = await _resource_at(source, call, operation.itself)
    if (above := operation.above) is not None and (
        row.parent != call.ids[above.place] or await source.find(above.name, row.parent) is None
    ):
        raise absent(call.family.noun)
    return row


async def parent_of(source: Reads, call: Call) -> Row:
    """The resource whose collection the path names, or through which it leads."""
    return await _resource_at(source, call, call.operation.above)


async def other_resource(source: Reads, call: Call, param: str) -> Row:
    """The resource whose id is this parameter of the path: one of the `ids` of an action."""
    found = next((id for id in call.operation.ids if id.param == param), None)
    return await _resource_at(source, call, found)


async def _resource_at(source: Reads, call: Call, at: PathId | None, *, to_create: bool = False) -> Row:
    """A resource that the path names. With `to_create`, permission is asked for what is to be made in it."""
    if at is None or not at.families:
        raise LookupError(f"{call.operation.id}: its path does not name this resource")
    id, (family, *more) = call.ids[at.place], at.families
    row = await (source.get(id) if more else source.find(family.name, id))
    noun = at.noun if more else family.noun
    if row is None or (more and all(row.family != other.name for other in at.families)):
        raise absent(noun)
    if not is_allowed_throughout(call, row.org):
        await (require_new if to_create else require)(source, call, row, noun)
    return row


@reads("*.read")
async def read(ctx: Context, call: Call) -> Reply:
    source = ctx.store.reads
    row = await target(source, call)
    body = await unveiled(ctx, source, call, row) if call.family.veiled else row.body
    return Reply(in_dialect(call, body), row.tag)


@reads("*.list")
async def listing(ctx: Context, call: Call) -> Reply:
    source, family = ctx.store.reads, call.family
    parent = await parent_of(source, call)
    whole = is_allowed_throughout(call, parent.org)
    rows = None if whole else await visible_below(source, call.actor, parent, family)
    if rows is None and family.veiled:
        rows = await source.of_parent(parent.id, family.name)
    if rows is not None:
        return paged(call, [await unveiled(ctx, source, call, row) for row in rows])
    page, size = paging(call)
    bodies, total = await source.page(parent.id, family.name, (page - 1) * size, size)
    return Reply(results(all_in_dialect(call, bodies), page, size, total))


def paging(call: Call) -> tuple[int, int]:
    """Which page, of which size. Who expects complete lists gets one page of everything."""
    if call.dialect.everything and not call.paging_asked:
        return 1, EVERYTHING
    return call.query.page, call.query.page_size


def paged(call: Call, bodies: list[bytes]) -> Reply:
    """A slice of a list that is short enough to be at hand."""
    page, size = paging(call)
    shown = bodies[(page - 1) * size : page * size]
    return Reply(results(all_in_dialect(call, shown), page, size, len(bodies)))


@writes("*.create")
async def create(ctx: Context, tx: Tx, call: Call) -> Reply:
    parent = await _resource_at(tx, call, call.operation.above, to_create=True)
    return await create_in(ctx, tx, call.family, call.body, parent.org, parent, call.actor, call)


async def create_in(
    ctx: Context,
    tx: Tx,
    family: Family,
    spec: Spec,
    org: str,
    parent: Row | None,
    actor: Actor,
    call: Call | None = None,
    extras: Mapping[str, Any] = NOTHING,
    links: Mapping[str, str] = NOTHING,
) -> Reply:
    """Creates a resource, whoever asks."""
    named = await check_references(tx, family, spec, org, actor)
    family.normalise(spec)
    refuse_veils(family, spec)
    await check_openings(ctx, tx, family, spec, actor)
    id = ids.new_id() if parent else org
    draft = Draft(family, id, org, parent, spec, actor, dict(extras), {}, {**named, **links})
    behaviour = behaviour_of(family)
    await behaviour.creating(ctx, tx, draft)
    row = await _stored(ctx, tx, draft)
    for field, other in draft.links.items():
        await tx.link(row.id, field, other)
    await behaviour.created(ctx, tx, draft)
    await count(ctx, tx, family, parent, +1)
    await record(ctx, tx, Event.CREATED, row, actor, call, after=row.body, above=parent)
    answer = await unveiled(ctx, tx, call, row) if call else row.body
    answer = with_fields(answer, draft.answer) if draft.answer else answer
    return Reply(in_dialect(call, answer) if call else answer, row.tag)


async def _stored(ctx: Context, tx: Tx, draft: Draft) -> Row:
    family, parent_id = draft.family, draft.parent.id if draft.parent else ""
    position, created = await tx.place(parent_id, family.name)
    moment = stamp(created)
    ids_above = {"organization": draft.org}
    owners = {name: {"id": ids_above.get(name, parent_id)} for name in family.owners}
    base = {"id": draft.id, "created_at": moment, "updated_at": moment}
    view = view_of(family, draft.spec, {**owners, **draft.extras, **base})
    tag = ids.new_tag()
    name = family.key_of(msgspec.structs.asdict(view))
    sealed = encrypt_hidden(ctx, draft.org, draft.id, tag, {**draft.sealed, **hidden_of(family, draft.spec)})
    row = Row(draft.id, family.name, draft.org, parent_id, position, name, created, tag, encode(view), sealed)
    try:
        await tx.add(row)
    except NameTaken as error:
        raise name_conflict(family, draft.spec) from error
    return row


@writes("*.update")
async def update(ctx: Context, tx: Tx, call: Call) -> Reply:
    row = await target(tx, call)
    check_tag(call, row)
    fixed = ctx.registry[row.family].fixed
    sent = {
        name: value for name, value in sent_in(call.body).items() if value is not None or name not in fixed
    }
    return await _apply_changes(ctx, tx, call, row, sent, replaced)


@writes("*.patch")
async def patch(ctx: Context, tx: Tx, call: Call) -> Reply:
    row = await target(tx, call)
    check_tag(call, row)
    return await apply_changes(ctx, tx, call, row, sent_in(call.body))


async def apply_changes(ctx: Context, tx: Tx, call: Call, row: Row, changes: Mapping[str, Any]) -> Reply:
    """Merges changes into a resource; what they do not name stays as it is."""
    return await _apply_changes(ctx, tx, call, row, changes, merge_patched)


async def _apply_changes(
    ctx: Context, tx: Tx, call: Call, row: Row, changes: Mapping[str, Any], lay: Laying
) -> Reply:
    family = ctx.registry[row.family]
    before: Document = msgspec.json.decode(row.body)
    hidden = decrypt_hidden(ctx, row)
    changes = without_veils(family, before, hidden, changeable(family, before, changes))
    own = family.hidden | family.veiled
    sent = {name: value for name, value in hidden.items() if name in own}
    old = before | sent
    spec = lay(family, before, sent, changes)
    links = await check_references(tx, family, spec, row.org, call.actor, old)
    family.normalise(spec)
    refuse_veils(family, spec)
    await require_move(tx, call, row, family, spec)
    moved = check_addresses(family, old, spec, changes)
    await check_openings(ctx, tx, family, spec, call.actor, old)
    extras: Document = {}
    behaviour = behaviour_of(family)
    whole = before | {name: sent[name] for name in family.veiled & sent.keys()}
    await behaviour.updating(ctx, tx, row, whole, spec, extras)
    view = view_of(family, spec, {**_server_side(family, before), **extras})
    # What the server sealed for an address, as a secret that is being replaced, does not go to another one.
    kept = {} if moved else {name: value for name, value in hidden.items() if name not in own}
    new_hidden = {**kept, **hidden_of(family, spec)}
    after: Document = msgspec.to_builtins(view)
    if after == before and new_hidden == hidden:
        return Reply(in_dialect(call, await unveiled(ctx, tx, call, row)), row.tag)
    after["updated_at"] = view.updated_at = stamp(max(tx.now, row.created))  # type: ignore[attr-defined]
    tag = ids.new_tag()
    sealed = encrypt_hidden(ctx, row.org, row.id, tag, new_hidden)
    new = msgspec.structs.replace(row, name=family.key_of(after), tag=tag, body=encode(view), sealed=sealed)
    try:
        await tx.change(new)
    except NameTaken as error:
        raise name_conflict(family, spec) from error
    for field, other in links.items():
        await tx.link(row.id, field, other)
    await behaviour.updated(ctx, tx, new, before, after)
    await record(ctx, tx, Event.UPDATED, new, call.actor, call, before=row.body, after=new.body)
    return Reply(in_dialect(call, await unveiled(ctx, tx, call, new)), tag)


class Asker(Struct, frozen=True):
    """Who asked for a deletion, and from where."""

    by: Initiator
    origin: Origin


def asker_of(call: Call) -> Asker:
    return Asker(Initiator(call.actor.id, call.actor.name), origin_of(call))


async def delete_resource(ctx: Context, tx: Tx, row: Row, asker: Asker) -> None:
    family = ctx.registry[row.family]
    await behaviour_of(family).deleting(ctx, tx, row)
    await purge(tx, row)
    await count(ctx, tx, family, await tx.get(row.parent), -1)
    facts = {"parent": row.parent, "before": msgspec.Raw(row.body), "after": None}
    subject = await about(ctx, tx, row)
    emit(tx, Event.DELETED, row.org, subject, asker.by.id, asker.by.name, asker.origin, facts)


async def purge(tx: Tx, row: Row) -> None:
    """It and all that is below it are gone; what was made for services is taken away as soon as can be."""
    for service in await tx.remove(row):
        await tx.ask(DISCARD, f"{DISCARD}:{service}", org=row.org)


def _server_side(family: Family, document: Document) -> Document:
    """The part of a document that no client sends."""
    sent = {fact.name for fact in family.facts} - family.hidden | {*family.flags.values()}
    return {name: value for name, value in document.items() if name not in sent}


async def count(ctx: Context, tx: Tx, family: Family, parent: Row | None, step: int) -> None:
    """Keeps the field of the parent that says how many of a family are below it, if there is one."""
    if parent is None or (field := ctx.registry[parent.family].counts.get(family.name)) is None:
        return
    document = msgspec.json.decode(parent.body)
    document[field] += step
    await tx.rewrite(parent.id, encode(document))


async def check_references(
    tx: Tx, family: Family, spec: Spec, org: str, actor: Actor, old: Document | None = None
) -> dict[str, str]:
    """Returns the references of a spec by field. Refuses ids that do not exist or that the caller does not
    see. A reference that stays as it was is not checked again."""
    found: dict[str, str] = {}
    for path, (other, _) in family.references.items():
        value = value_at(spec, path)
        if not isinstance(value, str) or (old is not None and value_at(old, path) == value):
            continue
        row = await tx.find(other, value)
        if row is None or row.org != org or not await is_visible(tx, actor, row):
            raise Invalid(f"{path}: no {other} of this organization has this id")
        if "." not in path:
            found[path] = value
    return found


async def check_openings(
    ctx: Context, tx: Tx, family: Family, spec: Spec, actor: Actor, old: Document | None = None
) -> None:
    """Refuses a new address, or a new credential, where the credential belongs to another host."""
    for path, (other, opens) in family.references.items():
        id, address = value_at(spec, path), value_at(spec, opens) if opens else None
        if not isinstance(id, str) or not isinstance(address, str):
            continue
        if old is not None and (value_at(old, path), value_at(old, opens)) == (id, address):
            continue
        row = await tx.find(other, id)
        if row is None:
            continue  # a reference of before, to what was deleted since: there is nothing to send
        if not await is_visible(tx, actor, row):
            raise Forbidden(
                f"{opens}: a {other} that this token does not see is sent there. "
                f"Send null as {path} with it, or use a token that is not limited"
            )
        if why := behaviour_of(ctx.registry[other]).refuses(msgspec.json.decode(row.body), address):
            raise Invalid(f"{path}: {why}")


def check_addresses(family: Family, old: Document, spec: Spec, changes: Mapping[str, Any]) -> bool:
    """True if a secret would be sent to another address; refuses that unless the secret is sent again."""
    moved = False
    for name, fields in family.sent_to.items():
        turned = [
            field for field in fields if _is_turned(value_at(spec, field), old.get(field, msgspec.UNSET))
        ]
        moved = moved or bool(turned)
        if turned and old.get(name) and name not in changes:
            raise Invalid(
                f"{name}: send it again, because {turned[0]} changes: a secret stays with the address that "
                "it was given for"
            )
    return moved


def _is_turned(new: Any, old: Any) -> bool:
    """True if the field has a new value that sends something: not false, null or unset."""
    return new != old and new not in (False, None, msgspec.UNSET)


def value_at(whole: Any, path: str) -> Any:
    """A field of a spec or of a document, by its path; UNSET if there is none."""
    for step in path.split("."):
        if isinstance(whole, dict):
            whole = whole.get(step, msgspec.UNSET)
        else:
            whole = getattr(whole, step, msgspec.UNSET)
    return whole


def behaviour_of(family: Family) -> Behaviour:
    of_traits = (TRAIT_BEHAVIOURS[trait.name] for trait in family.traits if trait.name in TRAIT_BEHAVIOURS)
    return BEHAVIOURS.get(family.name) or next(of_traits, _PLAIN)


def check_behaviours(registry: Registry) -> None:
    """Stops the start where a trait needs a behaviour and there is none."""
    for family in registry.families.values():
        for trait in family.traits:
            if trait.needs_behaviour and trait.name not in TRAIT_BEHAVIOURS and family.name not in BEHAVIOURS:
                raise LookupError(
                    f"{family.name} is {trait.name}, and nothing says what follows from that: "
                    f"register a Behaviour with @behaves(trait={trait.name!r})"
                )


def without_veils(
    family: Family, stored: Document, hidden: Mapping[str, str], changes: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Replaces each veiled address that is sent back as it was shown by the whole one."""
    shown = {
        field for field in family.veiled & changes.keys() & hidden.keys() if changes[field] == stored[field]
    }
    return {**changes, **{field: hidden[field] for field in shown}}


def refuse_veils(family: Family, spec: Spec) -> None:
    for field in sorted(family.veiled):
        if is_veil(value_at(spec, field)):
            raise Invalid(f"{field}: {VEIL} stands for what is not shown: send the whole address")


def changeable(family: Family, stored: Document, changes: Mapping[str, Any]) -> Document:
    """The changes without fixed fields, which may only be repeated."""
    for field in sorted(family.fixed & changes.keys()):
        if changes[field] != stored.get(field):
            raise Invalid(f"{field}: cannot be changed after creation")
    return {field: value for field, value in changes.items() if field not in family.fixed}


def check_tag(call: Call, row: Row) -> None:
    """`If-Match` compares strongly: a weak tag never matches."""
    if call.if_match is None or call.if_match.strip() == "*":
        return
    if f'"{row.tag}"' not in [tag.strip() for tag in call.if_match.split(",")]:
        raise Stale("It was changed since: read it again, and send its current ETag as If-Match")


def name_conflict(family: Family, spec: Any) -> Conflict:
    field = family.names
    value = getattr(spec, field) if field else ""
    return Conflict(f"{field}: there is already one {family.noun} with the {field} {value} here")


def encrypt_hidden(ctx: Context, org: str, id: str, tag: str, hidden: Mapping[str, str]) -> bytes | None:
    return ctx.encryption.encrypt(encode(hidden), org, id, "hidden", tag) if hidden else None


def decrypt_hidden(ctx: Context, row: Row) -> dict[str, str]:
    if row.sealed is None:
        return {}
    return msgspec.json.decode(
        ctx.encryption.decrypt(row.sealed, row.org, row.id, "hidden", row.tag), type=dict[str, str]
    )


def whole_addresses(ctx: Context, row: Row) -> Document:
    """The fields of which the document holds only a part that everybody may see."""
    family = ctx.registry[row.family]
    hidden = decrypt_hidden(ctx, row) if family.veiled else {}
    return {name: hidden[name] for name in family.veiled & hidden.keys()}


async def unveiled(ctx: Context, source: Reads, call: Call, row: Row) -> bytes:
    """Returns the document of a resource, with its whole addresses if the caller is Admin there."""
    if not ctx.registry[row.family].veiled or not await allows(source, call.actor, Scope.ADMIN, row):
        return row.body
    return encode(msgspec.json.decode(row.body) | whole_addresses(ctx, row))


def with_fields(body: bytes, fields: Mapping[str, Any]) -> bytes:
    """A JSON object with more fields at its end."""
    return body[:-1] + b"," + encode(fields)[1:]


def in_dialect(call: Call, body: bytes) -> bytes:
    """The document in the reader's words. Documents are kept in the contract's."""
    family = call.operation.family
    if family is None or family.in_full is None or call.dialect.name == "plain":
        return body
    return encode(family.in_full(msgspec.json.decode(body)))


def all_in_dialect(call: Call, bodies: list[bytes]) -> list[bytes]:
    return bodies if call.dialect.name == "plain" else [in_dialect(call, body) for body in bodies]
