"""Checks references of a spec to other resources, and the addresses to which credentials are sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from windlass.base.errors import Conflict, Forbidden, Invalid
from windlass.control.context.context import Context
from windlass.control.records.deployments import name_of
from windlass.control.request.behaviour import behaviour_of
from windlass.control.request.permissions import (
    is_visible,
)
from windlass.core.access import Actor
from windlass.core.declare.document import Document, value_at
from windlass.core.declare.resource import Family, Spec
from windlass.core.declare.stored import rewritten
from windlass.store import Reads, Row, Tx

MAX_SHOWN_BYTES: Final = 256 * 1024
"""The size of the resources that the document of another one shows in full: as much as Kubernetes
allows for the annotations of an object."""
_LISTED: Final = "[].id="
"""Follows the name of a list in the field of a link, before the id."""


async def check_references(
    tx: Tx, family: Family, spec: Spec, org: str, actor: Actor, old_document: Document | None = None
) -> dict[str, str]:
    """Returns the changed references of a spec by field. Raises Invalid for ids that do not exist or are
    invisible to the caller. Unchanged references are not checked again."""
    values: dict[str, str] = {}
    for path, (other, _) in family.references.items():
        value = value_at(spec, path)
        if not isinstance(value, str) or (old_document is not None and value_at(old_document, path) == value):
            continue
        await check_reference(tx, path, other, value, org, actor)
        values[path] = value
    for field in family.reference_lists:
        _refuse_repeated(field, _ids_of(value_at(spec, field)))
    known = _listed_references(family, old_document) if old_document is not None else {}
    for path, value in _listed_references(family, spec).items():
        if path not in known:
            field = path.partition(_LISTED)[0]
            await check_reference(tx, f"{field}[].id", family.reference_lists[field], value, org, actor)
            values[path] = value
    return values


def _refuse_repeated(field: str, ids: list[str]) -> None:
    if repeated := next((place for place, id in enumerate(ids) if id in ids[:place]), 0):
        raise Invalid(f"{field}[{repeated}].id: is there twice. Leave one out")


def references_in(family: Family, spec: Spec) -> dict[str, str]:
    """Returns all references of a spec by field."""
    values = {path: value_at(spec, path) for path in family.references}
    return {
        **{path: value for path, value in values.items() if isinstance(value, str)},
        **_listed_references(family, spec),
    }


def _listed_references(family: Family, holder: Spec | Document) -> dict[str, str]:
    """Returns the references in lists. The field of a link contains the id, because a list has several."""
    return {
        f"{field}{_LISTED}{id}": id
        for field in family.reference_lists
        for id in _ids_of(value_at(holder, field))
    }


def _ids_of(references: object) -> list[str]:
    items = references if isinstance(references, list) else []
    return [str(value_at(item, "id")) for item in items]


async def shown_references(reads: Reads | Tx, family: Family, spec: Spec) -> Document:
    """Returns the lists of references of a spec with the whole resources. A resource that does not exist any
    more is left out. Raises Invalid if they are too large together."""
    shown = {
        field: [
            row.body
            for id in _ids_of(value_at(spec, field))
            if (row := await reads.resources.find(other, id))
        ]
        for field, other in family.reference_lists.items()
    }
    size = sum(len(body) for bodies in shown.values() for body in bodies)
    if size > MAX_SHOWN_BYTES:
        raise Invalid(
            f"{', '.join(shown)}: choose fewer or smaller ones: they have {size >> 10} KiB together, and may "
            f"have {MAX_SHOWN_BYTES >> 10}"
        )
    return {field: [msgspec.json.decode(body) for body in bodies] for field, bodies in shown.items()}


async def show_in_lists(ctx: Context, tx: Tx, row: Row) -> None:
    """Updates a resource in the lists of the resources that refer to it. Raises Conflict if they would show
    too much."""
    document = msgspec.json.decode(row.body)
    users = await tx.links.users(row.id)
    tx.spend_rewrites(len(users), len(row.body))
    for user in users:
        family = ctx.registry[user.family]
        shown = {
            field: [document if item["id"] == row.id else item for item in items]
            for field in family.reference_lists
            if isinstance(items := msgspec.json.decode(user.body).get(field), list)
        }
        if sum(len(msgspec.json.encode(items)) for items in shown.values()) > MAX_SHOWN_BYTES:
            raise Conflict(
                f"Make it smaller, or remove it from {name_of(user)}: a {user.family} shows at most "
                f"{MAX_SHOWN_BYTES >> 10} KiB of what it refers to"
            )
        await tx.resources.rewrite(user.id, rewritten(user.body, shown))


async def set_links(
    ctx: Context, tx: Tx, family: Family, source: str, links: Mapping[str, str], spec: Spec | None = None
) -> None:
    """Stores the references of a resource, and updates the user counts of referenced resources. With `spec`,
    references that the spec no longer contains are removed."""
    counted = {
        path: other for path, (other, _) in family.references.items() if ctx.registry[other].counts_users
    }
    changed: set[str] = set()
    counted |= {
        field: family.reference_lists[name]
        for field in {*links, *(await tx.links.fields(source) if spec and family.reference_lists else ())}
        if (name := field.partition(_LISTED)[0]) != field and name in family.reference_lists
    }
    listed = _listed_references(family, spec) if spec else {}
    for field in counted.keys() & links.keys():
        changed |= {links[field], await tx.links.target(source, field) or links[field]}
    for field, target in links.items():
        await tx.links.set(source, field, target)
    for field in counted if spec else ():
        is_used = field in listed or isinstance(value_at(spec, field), str)
        if not is_used and (former := await tx.links.target(source, field)):
            await tx.links.unset(source, field)
            changed.add(former)
    await count_users(ctx, tx, changed)


async def count_users(ctx: Context, tx: Tx, targets: Iterable[str]) -> None:
    """Writes into the documents of resources how many services refer to them."""
    for id in targets:
        if row := await tx.resources.get(id):
            count = len({user.id for user in await tx.links.users(id) if user.family in ctx.kinds})
            field = ctx.registry[row.family].counts_users
            await tx.resources.rewrite(id, rewritten(row.body, {field: count}))


async def counted_targets(ctx: Context, tx: Tx, id: str) -> list[str]:
    """Returns the resources with a user count to which a resource or its descendants refer."""
    families = [family.name for family in ctx.registry.families.values() if family.counts_users]
    return [target for family in families for target in await tx.links.targets_at_or_below(id, family)]


async def check_reference(reads: Reads | Tx, path: str, family: str, id: str, org: str, actor: Actor) -> None:
    """Raises Invalid unless the id belongs to a resource of the organization that the caller may read."""
    row = await reads.resources.find(family, id)
    if row is None or row.org != org or not await is_visible(reads, actor, row):
        raise Invalid(f"{path}: no {family} of this organization has this id")


async def check_openings(
    ctx: Context, tx: Tx, family: Family, spec: Spec, actor: Actor, old_document: Document | None = None
) -> None:
    """Refuses a new address or a new credential if the credential must not be sent to the address."""
    for path, (other, opens) in family.references.items():
        id, address = value_at(spec, path), value_at(spec, opens) if opens else None
        if not isinstance(id, str) or not isinstance(address, str):
            continue
        if old_document is not None and (value_at(old_document, path), value_at(old_document, opens)) == (
            id,
            address,
        ):
            continue
        row = await tx.resources.find(other, id)
        if row is None:
            continue  # the referenced resource was deleted since, so no credential is sent
        if not await is_visible(tx, actor, row):
            raise Forbidden(
                f"{opens}: a {other} that this token does not see is sent there. "
                f"Send null as {path} with it, or use a token that is not limited"
            )
        if why := behaviour_of(ctx.registry[other]).refuses(row, address):
            raise Invalid(f"{path}: {why}")


def check_addresses(
    family: Family, old_document: Document, spec: Spec, changes: Mapping[str, object]
) -> bool:
    """Returns whether an address changes to which a secret is sent. Raises Invalid unless the client sends
    the secret again."""
    moved = False
    for name, fields in family.sent_to.items():
        turned = [
            field for field in fields if _is_turned(value_at(spec, field), value_at(old_document, field))
        ]
        moved = moved or bool(turned)
        is_kept = value_at(old_document, name) == value_at(spec, name)
        if turned and is_kept and value_at(spec, name) and value_at(changes, name) is msgspec.UNSET:
            raise Invalid(
                f"{name}: send it again, because {turned[0]} changes: a secret stays with the address that "
                "it was given for"
            )
    return moved


def _is_turned(new_value: object, old_value: object) -> bool:
    """Returns whether a field has a new effective value, which is not false, null or unset."""
    return new_value != old_value and new_value not in (False, None, msgspec.UNSET)
