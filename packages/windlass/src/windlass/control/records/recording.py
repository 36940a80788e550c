"""Writes audit events: actor, action, subject, origin, and the document before and after.

Events are written in the transaction of the change. Documents do not contain secret fields, so events do not
either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import msgspec
from msgspec import Struct

from windlass.control.context.call import ITSELF, Call, Origin, encode
from windlass.control.context.context import Context
from windlass.core.access import LEVEL_FAMILIES, Actor
from windlass.core.words.events import Event
from windlass.families import registry
from windlass.store import Reads, Row, Tx


class About(Struct, frozen=True):
    """The subject of an event, with its project and environment. The audit log is filtered by these
    columns."""

    target: str
    family: str
    subject: str
    subject_family: str
    project: str = ""
    environment: str = ""


def origin_of(call: Call | None) -> Origin:
    return call.origin if call else ITSELF


async def about(ctx: Context, reads: Reads, row: Row, parent: Row | None = None) -> About:
    """Returns the subject of an event about a resource. `parent` is the parent, if the caller has read it."""
    if not ctx.registry.audit.is_part(row.family):
        return await about_itself(reads, row, parent)
    project, environment = await levels_of(reads, row, parent)
    if row.parent == row.org:
        return About(row.id, row.family, row.org, "organization", project, environment)
    parent = parent or await reads.resources.get(row.parent)
    return About(row.id, row.family, row.parent, parent.family if parent else "", project, environment)


async def about_itself(reads: Reads, row: Row, parent: Row | None = None) -> About:
    """Returns the subject of an event about a resource that is not part of another resource, such as a
    service."""
    project, environment = await levels_of(reads, row, parent)
    return About(row.id, row.family, row.id, row.family, project, environment)


async def levels_of(reads: Reads, row: Row, parent: Row | None = None) -> tuple[str, str]:
    """Returns the ids of the project and environment that contain a resource, including the resource itself.
    An id is empty if there is none."""
    if row.family in LEVEL_FAMILIES:
        ids = {row.family: row.id, _parent_of(row.family): row.parent}
        return ids.get("project", ""), ids.get("environment", "")
    if row.parent in ("", row.org):
        return "", ""
    parent = parent or await reads.resources.get(row.parent)
    return await levels_of(reads, parent) if parent else ("", "")


@cache
def _parent_of(level: str) -> str:
    """Returns the parent family; empty if there is none."""
    parent = registry().families[level].parent
    return parent.name if parent else ""


async def record(
    ctx: Context,
    tx: Tx,
    kind: Event,
    row: Row,
    actor: Actor,
    call: Call | None,
    *,
    old_body: bytes = b"null",
    new_body: bytes = b"null",
    parent_row: Row | None = None,
    hidden_changes: Sequence[str] = (),
) -> None:
    """Writes the event of a resource's creation or change. `hidden_changes`: names of the fields that changed
    and are in no document, such as the value of a secret."""
    data: dict[str, object] = {
        "parent": row.parent,
        "before": msgspec.Raw(old_body),
        "after": msgspec.Raw(new_body),
    }
    if hidden_changes:
        data["hidden_changes"] = hidden_changes
    emit(
        tx, kind, row.org, await about(ctx, tx, row, parent_row), actor.id, actor.name, origin_of(call), data
    )


async def emit_asked(
    ctx: Context, tx: Tx, kind: Event, row: Row, call: Call, data: Mapping[str, object]
) -> None:
    """Writes the event of an action by a person that does not change the resource's fields."""
    actor = call.actor
    emit(tx, kind, row.org, await about(ctx, tx, row), actor.id, actor.name, origin_of(call), data)


def emit(
    tx: Tx,
    kind: Event,
    org: str,
    subject_fields: About,
    actor: str,
    name: str,
    source: Origin,
    data: Mapping[str, object],
) -> None:
    """Writes an event. `data` contains the fields that are specific to this kind of event."""
    body = {
        "family": subject_fields.family,
        **data,
        "actor": {"id": actor, "name": name},
        "origin": source.origin,
        "address": source.address,
        "user_agent": source.user_agent,
        "request_id": source.request_id,
    }
    tx.emit(
        kind,
        org,
        subject_fields.target,
        encode(body),
        family=subject_fields.family,
        subject=subject_fields.subject,
        subject_family=subject_fields.subject_family,
        actor=name,
        origin=source.origin,
        project=subject_fields.project,
        environment=subject_fields.environment,
    )
