"""Reads and replaces advanced settings. A document contains only those that differ from their defaults, so
that documents of resources without any are as short as before."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from windlass.base import ids
from windlass.base.clock import stamp
from windlass.control.context.call import Call, Reply, encode, reads, writes
from windlass.control.context.context import Context
from windlass.control.records.recording import record
from windlass.control.request.changing import check_tag
from windlass.control.request.hidden_fields import decrypt_hidden, encrypt_hidden
from windlass.control.request.paths import target
from windlass.core.declare.document import Document
from windlass.core.settings.checks import check_values
from windlass.core.settings.operations import DEFAULTS, READ, REPLACE
from windlass.core.settings.setting import kind_of
from windlass.core.settings.values import SETTINGS_FIELD, acting_at_once, changed_in
from windlass.core.words.events import Event
from windlass.store import Row, Tx, route_topic


@reads(f"*.{DEFAULTS}")
async def read_defaults(ctx: Context, call: Call) -> Reply:
    return Reply(encode(_defaults(ctx, call)))


@reads(f"*.{READ}")
async def read_settings(ctx: Context, call: Call) -> Reply:
    return _reply(ctx, call, await target(ctx.store.reads, call))


@writes(f"*.{REPLACE}")
async def replace_settings(ctx: Context, tx: Tx, call: Call) -> Reply:
    row = await target(tx, call)
    check_tag(call, row)
    sent, defaults = msgspec.to_builtins(call.body), _defaults(ctx, call)
    changed = {name: value for name, value in sent.items() if value != defaults[name]}
    check_values(changed)
    return _reply(ctx, call, await store_changes(ctx, tx, call, row, changed))


async def store_changes(ctx: Context, tx: Tx, call: Call, row: Row, changed_document: Document) -> Row:
    """Stores the settings of a resource that differ from their defaults, in place of the former ones. Returns
    the changed resource."""
    former = changed_in(row.body)
    if changed_document == former:
        return row
    new = _with_settings(ctx, tx, row, changed_document)
    await tx.resources.change(new)
    await record(ctx, tx, Event.UPDATED, new, call.actor, call, old_body=row.body, new_body=new.body)
    if acting_at_once(changed_document) != acting_at_once(former):
        tx.nudge(route_topic(row.id))
    return new


def _with_settings(ctx: Context, tx: Tx, row: Row, changed_document: Document) -> Row:
    document: Document = msgspec.json.decode(row.body)
    document.pop(SETTINGS_FIELD, None)
    if changed_document:
        document[SETTINGS_FIELD] = changed_document
    document["updated_at"] = stamp(max(tx.now, row.created))
    tag = ids.new_tag()
    sealed = encrypt_hidden(ctx, row.org, row.id, tag, decrypt_hidden(ctx, row))
    return replace(row, tag=tag, body=encode(document), sealed=sealed)


def _defaults(ctx: Context, call: Call) -> Document:
    """Returns the defaults of the kind of resource that the operation is about."""
    rows = kind_of(call.operation.answer).rows
    return {
        row.name: int(getattr(ctx.settings, row.operator)) if row.operator else row.default for row in rows
    }


def _reply(ctx: Context, call: Call, row: Row) -> Reply:
    defaults = _defaults(ctx, call)
    known = {name: value for name, value in changed_in(row.body).items() if name in defaults}
    return Reply(encode(defaults | known), row.tag)
