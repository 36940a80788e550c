"""Previews: their documents, the work that tends them, and the looks at pull requests.

A preview is written down before its environment is made, and the id of the environment follows from that of
the preview. So whatever is interrupted, the work of a preview finds its environment, and deletes it once the
preview is gone.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from windlass.base.clock import DAY, instant, stamp
from windlass.control.context.call import Call, Dialect, Origin
from windlass.control.context.context import Context
from windlass.core.access import SYSTEM, Actor, Scope
from windlass.core.access.permits import permits_throughout
from windlass.core.words.previews import PreviewState
from windlass.families.environment import PreviewOfEnvironment, environment
from windlass.families.preview import preview
from windlass.store import Reads, Row, Tx

PREVIEW_WORK: Final = "preview"
"""The kind of work that makes, deploys and deletes the environment of a preview."""
PULL_REQUEST_WORK: Final = "look at pull requests"
"""The kind of work that looks at the open pull requests for the services of an environment."""
PREVIEW_MODE: Final = "PREVIEW"
"""The mode of the environments of previews."""
MAX_EVENTS: Final = 20
_WORDS: Final = Dialect(name="plain", state=str, event=str)
_FROM_GIT: Final = Origin("GIT")


class PreviewNote(Struct, frozen=True):
    at: str
    message: str


class PreviewMark(Struct, frozen=True):
    """The part of an environment's document that says of what it is the preview."""

    preview: PreviewOfEnvironment | UnsetType | None = UNSET


class StoredPreview(Struct, frozen=True):
    """The fields of a preview's document that the server reads."""

    name: str
    state: PreviewState = PreviewState.PLANNED
    branch: str | UnsetType | None = UNSET
    pull_request: int | UnsetType | None = UNSET
    image_name: str | UnsetType | None = UNSET
    image_tag: str | UnsetType | None = UNSET
    preview_environment_id: str | UnsetType | None = UNSET
    repository: str = ""
    title: str = ""
    url: str = ""
    author: str = ""
    head_branch: str = ""
    target_branch: str = ""
    is_open: bool = True
    commit_id: str = ""
    deployed_commit_id: str = ""
    deployed_image_tag: str = ""
    is_fork: bool = False
    source_url: str = ""
    approved_commit_id: str = ""
    missing_secrets: list[str] = []
    address: str = ""
    active_at: str | UnsetType | None = UNSET
    ends_at: str | UnsetType | None = UNSET
    comment_id: str = ""
    told: str = ""
    problem: str = ""
    events: list[PreviewNote] = []

    @property
    def needs_approval(self) -> bool:
        return self.is_fork and self.approved_commit_id != self.commit_id

    @property
    def is_known(self) -> bool:
        """Returns whether the commit or tag is known that its environment is to have."""
        return bool(self.image_tag or self.commit_id)

    @property
    def is_deployed(self) -> bool:
        """Returns whether its environment was given the newest commit, or its tag."""
        if self.image_tag:
            return self.deployed_image_tag == self.image_tag
        return self.deployed_commit_id == self.commit_id

    @property
    def has_room(self) -> bool:
        """Returns whether it counts among the previews of its project."""
        return bool(self.preview_environment_id) and self.state is not PreviewState.ENDED


def moment_of(text: str | UnsetType | None) -> int:
    return instant(datetime.fromisoformat(text)) if text else 0


def life_from(ctx: Context, now: int) -> dict[str, object]:
    """Returns the fields of a preview whose newest commit has come now."""
    return {"active_at": stamp(now), "ends_at": stamp(now + ctx.settings.preview_days * DAY)}


def environment_of(id: str) -> str:
    """Returns the id of a preview's environment."""
    return str(uuid.uuid5(uuid.UUID(id), environment.name))


def work_of(id: str) -> str:
    return f"{PREVIEW_WORK}:{id}"


def preview_of_work(work: str) -> str:
    return work.removeprefix(f"{PREVIEW_WORK}:")


def look_of(environment: str) -> str:
    return f"{PULL_REQUEST_WORK}:{environment}"


def environment_of_look(work: str) -> str:
    return work.removeprefix(f"{PULL_REQUEST_WORK}:")


async def tend_soon(tx: Tx, row: Row) -> None:
    await tx.work.schedule(PREVIEW_WORK, work_of(row.id), tx.now, row.org)


async def look_soon(tx: Tx, base: Row) -> None:
    await tx.work.schedule(PULL_REQUEST_WORK, look_of(base.id), tx.now, base.org)


async def change_preview(tx: Tx, row: Row, fields: Mapping[str, object], event: str = "") -> Row:
    """Changes fields that the server maintains, and adds an event to the account. A field that becomes None
    is left out."""
    before = msgspec.json.decode(row.body)
    after = {
        name: value for name, value in (before | fields).items() if name not in fields or value is not None
    }
    if event:
        events = [*before.get("events", ()), {"at": stamp(tx.now), "message": event}]
        after["events"] = events[-MAX_EVENTS:]
    if after == before:
        return row
    await tx.resources.rewrite(row.id, msgspec.json.encode(after))
    changed = await tx.resources.get(row.id)
    assert changed is not None
    return changed


async def previews_of(reads: Reads, base: str) -> list[Row]:
    return await reads.resources.of_parent(base, preview.name)


async def places_taken(reads: Reads, project: str) -> int:
    """Returns how many previews of a project have an environment."""
    taken = 0
    for base in await reads.resources.of_parent(project, environment.name):
        for row in await previews_of(reads, base.id):
            taken += row.read(StoredPreview).has_room
    return taken


def call_of(ctx: Context, handler: str, project: str, row: Row) -> Call:
    """Returns a call of Windlass itself for a preview. It may do nothing outside of the project."""
    scopes = Scope.READ | Scope.WRITE | Scope.DEPLOY
    actor = Actor(
        id=SYSTEM.id,
        name=SYSTEM.name,
        subject=SYSTEM.subject,
        permits=permits_throughout(row.org, scopes),
        limited_to=frozenset({project}),
    )
    operation, *_ = ctx.registry.handled_by(handler)
    return Call(operation=operation, actor=actor, ids=(row.id,), dialect=_WORDS, origin=_FROM_GIT)
