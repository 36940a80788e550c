"""Entries of the audit log: events in the vocabulary of a client, with the names of their subjects."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from windlass.base.clock import stamp
from windlass.control.context.call import encode
from windlass.core.declare.document import Document
from windlass.core.deploy.progress import Initiator
from windlass.core.words.audit import AuditNames, origin_of, type_of
from windlass.store import EventRow, Reads

_ENVELOPE_FIELDS = {"family", "actor", "origin", "address", "user_agent", "request_id", "parent", "name"}


class EventSubject(Struct, kw_only=True):
    """The display name of a resource in its document."""

    name: str | None = None
    key: str | None = None
    email: str | None = None

    @property
    def title(self) -> str:
        return self.name or self.key or self.email or ""


class EventBody(Struct, kw_only=True):
    """The fields that the bodies of all events share."""

    actor: Initiator
    family: str = ""
    name: str | None = None
    origin: str = "API"
    address: str = ""
    user_agent: str | None = None
    request_id: str = ""
    action: str = ""
    before: EventSubject | None = None
    after: EventSubject | None = None

    @property
    def title(self) -> str:
        """The name of the resource at the time of the event."""
        described = self.after or self.before
        return described.title if described else self.name or ""


body_of = msgspec.json.Decoder(EventBody).decode


class TargetNames:
    """Caches the names of resources in events. A deleted resource is shown with its last name."""

    def __init__(self, reads: Reads, audit_names: AuditNames) -> None:
        self.words = audit_names
        self._source = reads
        self._known: dict[str, str] = {"": ""}

    async def of(self, id: str) -> str:
        if id not in self._known:
            self._known[id] = await self._find_title(id)
        return self._known[id]

    async def _find_title(self, id: str) -> str:
        row = await self._source.resources.get(id)
        if row is not None:
            return row.read(EventSubject).title
        last = await self._source.events.last_of(id)
        return body_of(last.body).title if last else ""


def _actor_itself(row: EventRow, event: EventBody) -> str:
    """Returns the actor's name if the actor is the subject, such as in the use of a token or a sign-in; empty
    otherwise."""
    return event.actor.name if event.actor.id == row.target else ""


def entry_type(row: EventRow, event: EventBody, *, is_full_interface: bool) -> str:
    return type_of(row.kind, event.action, is_full_interface=is_full_interface)


async def show_entry(row: EventRow, names: TargetNames, *, is_full_interface: bool) -> Document:
    event = body_of(row.body)
    family = row.family or event.family
    sub = names.words.sub_target(family)
    change, original = _change(row)
    return {
        "id": row.id,
        "timestamp": stamp(row.at),
        "event_type": entry_type(row, event, is_full_interface=is_full_interface),
        "target_id": row.subject or row.target,
        "target_name": event.title or _actor_itself(row, event) or await names.of(row.target),
        "target_type": names.words.target(row.subject_family or family),
        **({"sub_target_type": sub} if sub else {}),
        "change": change,
        "original_change": original,
        "origin": origin_of(event.origin, is_full_interface=is_full_interface),
        "triggered_by": event.actor.name,
        "project_id": row.project or None,
        "project_name": await names.of(row.project),
        "environment_id": row.environment or None,
        "environment_name": await names.of(row.environment),
        "user_agent": event.user_agent or None,
        "address": event.address,
        "request_id": event.request_id,
        "number": row.seq,
        "hash": row.hash.hex() if row.hash else "",
    }


def _change(row: EventRow) -> tuple[str, str | None]:
    details = msgspec.json.decode(row.body, type=Document)
    if "after" in details:
        before = details["before"]
        return encode(details["after"]).decode(), None if before is None else encode(before).decode()
    data = {name: value for name, value in details.items() if name not in _ENVELOPE_FIELDS}
    return encode({"event": row.kind, **data}).decode(), None
