"""Fields of a resource that are stored encrypted, outside its document, and addresses that only Admins see in
full."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from windlass.base.encryption import Encryption
from windlass.base.errors import Invalid
from windlass.control.context.call import Call, encode
from windlass.control.context.context import Context
from windlass.control.request.permissions import (
    allows,
)
from windlass.core.access import Scope
from windlass.core.declare.document import (
    REDACTED_PATH,
    Document,
    is_redacted,
    value_at,
)
from windlass.core.declare.resource import Family, Spec
from windlass.store import Reads, Row
from windlass.store.tables.sealed import RESOURCE


def restore_redacted(
    family: Family, stored_document: Document, hidden_values: Mapping[str, str], changes: Mapping[str, object]
) -> Mapping[str, object]:
    """Returns the changes with redacted addresses replaced by the stored addresses, if a client sends them
    back unchanged."""
    shown = {
        field
        for field in family.redacted & changes.keys() & hidden_values.keys()
        if changes[field] == stored_document[field]
    }
    return {**changes, **{field: hidden_values[field] for field in shown}}


def refuse_redacted(family: Family, spec: Spec) -> None:
    for field in sorted(family.redacted):
        if is_redacted(value_at(spec, field)):
            raise Invalid(f"{field}: {REDACTED_PATH} stands for what is not shown: send the whole address")


def encrypt_hidden(
    ctx: Context, org: str, id: str, tag: str, hidden_values: Mapping[str, str]
) -> bytes | None:
    if not hidden_values:
        return None
    owner = RESOURCE.owner(org=org, id=id, tag=tag)
    return ctx.encryption.encrypt(encode(hidden_values), *owner)


def decrypt_hidden(ctx: Context, row: Row) -> dict[str, str]:
    return decrypt_with(ctx.encryption, row)


def decrypt_with(encryption: Encryption, row: Row) -> dict[str, str]:
    if row.sealed is None:
        return {}
    owner = RESOURCE.owner(org=row.org, id=row.id, tag=row.tag)
    return msgspec.json.decode(encryption.decrypt(row.sealed, *owner), type=dict[str, str])


def own_hidden(ctx: Context, row: Row) -> dict[str, str]:
    """Returns the encrypted fields that a client sent, without fields that the server added."""
    family = ctx.registry[row.family]
    own = family.hidden | family.redacted
    return {name: value for name, value in decrypt_hidden(ctx, row).items() if name in own}


def whole_addresses(ctx: Context, row: Row) -> Document:
    """Returns the unredacted addresses of a resource."""
    family = ctx.registry[row.family]
    hidden = decrypt_hidden(ctx, row) if family.redacted else {}
    return {name: hidden[name] for name in family.redacted & hidden.keys()}


async def reveal_to_admins(ctx: Context, reads: Reads, call: Call, row: Row) -> bytes:
    """Returns the document of a resource, with unredacted addresses if the caller is Admin."""
    if not ctx.registry[row.family].redacted or not await allows(reads, call.actor, Scope.ADMIN, row):
        return row.body
    return encode(msgspec.json.decode(row.body) | whole_addresses(ctx, row))
