"""The history of variables and secrets, which is read from the audit: events have the documents before and
after a change, without values of secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

from windlass.base.clock import stamp
from windlass.control.context.call import Call, Reply, encode, reads
from windlass.control.context.context import Context
from windlass.control.reporting.audit import MAX_PAGE_BYTES, AuditFilter, older_events, take_page
from windlass.control.request.paths import target
from windlass.control.request.permissions import Visibility
from windlass.core.declare.document import Document
from windlass.core.declare.fields import absent
from windlass.core.deploy.progress import Initiator
from windlass.core.words.audit import origin_of
from windlass.core.words.events import Event
from windlass.families.variable import is_secret, secret, variable
from windlass.families.variable_history import VariableHistoryQuery
from windlass.store import NEVER, EventFilter, EventRow

_CHANGES: Final[Mapping[str, str]] = {Event.CREATED: "ADD", Event.UPDATED: "CHANGE", Event.DELETED: "REMOVE"}
_SHOWN_FIELDS: Final = ("key", "value", "mount_path", "description", "enable_interpolation_in_file")
"""Fields whose changes are listed by name."""


class _VariableKey(Struct):
    key: str = ""


class _KeysOfChange(Struct):
    """The keys in the body of an event."""

    before: _VariableKey | None = None
    after: _VariableKey | None = None


class _VariableEvent(Struct):
    """The body of an event of a variable."""

    actor: Initiator
    origin: str = "API"
    address: str = ""
    before: Document | None = None
    after: Document | None = None
    hidden_changes: list[str] = []


_keys_of = msgspec.json.Decoder(_KeysOfChange).decode
_body_of = msgspec.json.Decoder(_VariableEvent).decode


@reads("*.variableHistory")
async def read_history(ctx: Context, call: Call) -> Reply:
    source, asked = ctx.store.reads, call.asked(VariableHistoryQuery)
    here = await target(source, call)
    history_filter = _HistoryFilter(Visibility(source, call.actor, here.org), asked.key or "")
    below = int(asked.continue_token) if asked.continue_token else NEVER
    found: list[EventRow] = []
    oldest = 0  # older events of one list have not been read where this list has more
    for level in await source.tree.above(here.id):
        for family in _families(asked):
            conditions = EventFilter(org=here.org, subject=level.id, family=family)
            walk = older_events(source, conditions, below, asked.page_size + 1)
            events, is_more = await take_page(
                AuditFilter(conditions, history_filter.fits), walk, asked.page_size
            )
            found += events
            oldest = max(oldest, events[-1].seq) if is_more else oldest
    page = _page_of(found, oldest, asked.page_size)
    answer: Document = {
        "changes": [_shown(call, row) for row in page],
        "is_complete": await source.events.anchor() is None,
    }
    if oldest or len(page) < len(found):
        answer["continueToken"] = str(page[-1].seq)
    return Reply(encode(answer))


def _families(asked: VariableHistoryQuery) -> list[str]:
    wanted = asked.is_secret
    return [family.name for family in (variable, secret) if wanted in {absent, None, is_secret(family.name)}]


class _HistoryFilter:
    """Decides which events the caller sees, and which are about a key."""

    def __init__(self, sight: Visibility, key: str) -> None:
        self._sight = sight
        self._key = key

    async def fits(self, row: EventRow) -> bool:
        if row.kind not in _CHANGES or not await self._sight.includes_event(row):
            return False
        if not self._key:
            return True
        keys = _keys_of(row.body)
        return self._key in {side.key for side in (keys.before, keys.after) if side}


def _page_of(found: list[EventRow], oldest: int, size: int) -> list[EventRow]:
    """Returns the newest events, as many as a page may have and as fit into an answer."""
    page: list[EventRow] = []
    left = MAX_PAGE_BYTES
    for row in sorted(found, key=lambda row: -row.seq)[:size]:
        left -= len(row.body)
        if row.seq < oldest or (left < 0 and page):
            break
        page.append(row)
    return page


def _shown(call: Call, row: EventRow) -> Document:
    event = _body_of(row.body)
    former, document = event.before, event.after or event.before or {}
    entry: Document = {
        "number": row.seq,
        "timestamp": stamp(row.at),
        "change": _CHANGES[row.kind],
        "variable_id": row.target,
        "key": document.get("key", ""),
        "is_secret": is_secret(row.family),
        "scope": document.get("scope", ""),
        "level_id": row.subject,
        "variable_type": document.get("variable_type", ""),
        "value": _value_of(row, event.after),
        "former_value": _value_of(row, former),
        "changed": _changed(event),
        "changed_by": event.actor.name,
        "origin": origin_of(event.origin, is_full_interface=call.dialect.is_full),
        "address": event.address,
    }
    if former and former.get("key") != entry["key"]:
        entry["former_key"] = former.get("key")
    original = document.get("aliased_variable") or document.get("aliased_secret")
    return entry | {"alias_of": original["key"]} if isinstance(original, dict) else entry


def _value_of(row: EventRow, document: Document | None) -> str | None:
    if document is None or is_secret(row.family):
        return None
    value = document.get("value")
    return value if isinstance(value, str) else None


def _changed(event: _VariableEvent) -> list[str]:
    """Returns the names of the fields that changed. An event of before Windlass named the hidden fields that
    changed is about one where no other field differs."""
    if not event.before or not event.after:
        return []
    before, after = event.before, event.after
    shown = [name for name in _SHOWN_FIELDS if (before.get(name) or "") != (after.get(name) or "")]
    return sorted({*shown, *event.hidden_changes}) or ["value"]
