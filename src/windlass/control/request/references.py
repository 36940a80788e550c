"""Checks fields of a spec that refer to other resources, and addresses that credentials are sent to."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from windlass.base.errors import Forbidden, Invalid
from windlass.control.context.context import Context
from windlass.control.request.behaviour import behaviour_of
from windlass.control.request.permissions import (
    is_visible,
)
from windlass.core.access import Actor
from windlass.core.declare.document import (
    Document,
)
from windlass.core.declare.resource import Family, Spec
from windlass.store import Reads, Tx


async def check_references(
    tx: Tx, family: Family, spec: Spec, org: str, actor: Actor, old: Document | None = None
) -> dict[str, str]:
    """Returns the references of a spec by field. Refuses ids that do not exist or that the caller does not
    see. A reference that stays as it was is not checked again."""
    values: dict[str, str] = {}
    for path, (other, _) in family.references.items():
        value = value_at(spec, path)
        if not isinstance(value, str) or (old is not None and value_at(old, path) == value):
            continue
        await check_reference(tx, path, other, value, org, actor)
        if "." not in path:
            values[path] = value
    return values


async def check_reference(reads: Reads | Tx, path: str, family: str, id: str, org: str, actor: Actor) -> None:
    """Refuses the id of a field that names no resource of the organization which the caller sees."""
    row = await reads.resources.find(family, id)
    if row is None or row.org != org or not await is_visible(reads, actor, row):
        raise Invalid(f"{path}: no {family} of this organization has this id")


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
        row = await tx.resources.find(other, id)
        if row is None:
            continue  # a reference of before, to what was deleted since: there is nothing to send
        if not await is_visible(tx, actor, row):
            raise Forbidden(
                f"{opens}: a {other} that this token does not see is sent there. "
                f"Send null as {path} with it, or use a token that is not limited"
            )
        if why := behaviour_of(ctx.registry[other]).refuses(row, address):
            raise Invalid(f"{path}: {why}")


def check_addresses(family: Family, old: Document, spec: Spec, changes: Mapping[str, object]) -> bool:
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


def _is_turned(new: object, old: object) -> bool:
    """True if the field has a new value that sends something: not false, null or unset."""
    return new != old and new not in (False, None, msgspec.UNSET)


def value_at(whole: object, path: str) -> object:
    """A field of a spec or of a document, by its path; UNSET if there is none."""
    for step in path.split("."):
        if isinstance(whole, dict):
            whole = whole.get(step, msgspec.UNSET)
        else:
            whole = getattr(whole, step, msgspec.UNSET)
    return whole
