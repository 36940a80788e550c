"""Previews: what follows from their creation and deletion, and the approval of forks."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from windlass.base.errors import Conflict
from windlass.control.context.call import Call, Reply, prepares, writes
from windlass.control.context.context import Context
from windlass.control.records.deployments import name_of, refuse_in_deletion
from windlass.control.records.previews import (
    PreviewMark,
    StoredPreview,
    change_preview,
    life_from,
    look_soon,
    previews_of,
    tend_soon,
)
from windlass.control.records.recording import record
from windlass.control.request.behaviour import Behaviour, Draft, behaves
from windlass.control.request.changing import check_tag
from windlass.control.request.deleting import delete_row
from windlass.control.request.paths import target
from windlass.control.request.reading import in_dialect
from windlass.control.services.deployment_rules import require_previews
from windlass.control.services.preview_comments import tell
from windlass.core.words.events import Event
from windlass.core.words.previews import PreviewState
from windlass.families.environment import environment
from windlass.families.preview import Approval, Preview, preview
from windlass.store import Reads, Row, Tx

MAX_PREVIEWS: Final = 200
"""Maximum number of previews of one environment."""
_NOT_IN_NAMES_PATTERN: Final = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_NAME_LENGTH: Final = 200


@behaves(preview)
class Previews(Behaviour[Preview]):
    async def creating(self, ctx: Context, tx: Tx, draft: Draft[Preview]) -> None:
        base, spec = draft.above, draft.spec
        await refuse_in_deletion(tx, base.id)
        if base.read(PreviewMark).preview:
            raise Conflict("Choose the environment of which this one is a preview: previews have none")
        await require_previews(tx, draft.actor, base)
        present = await previews_of(tx, base.id)
        if len(present) >= MAX_PREVIEWS:
            raise Conflict(f"Delete a preview first: the environment has {MAX_PREVIEWS}, which is the most")
        end = (
            f"pr-{spec.pull_request}"
            if spec.pull_request
            else _NOT_IN_NAMES_PATTERN.sub("-", _title_of(spec))
        )
        asked = [row.read(StoredPreview) for row in present]
        names = {one.name.casefold() for one in asked}
        name = f"{name_of(base)[:_MAX_NAME_LENGTH]}-{end}"[: _MAX_NAME_LENGTH + 50]
        if spec.branch and spec.branch in {one.branch for one in asked}:
            raise Conflict("branch: choose another one: it has a preview already")
        if spec.image_tag and any(
            (one.image_name, one.image_tag) == (spec.image_name, spec.image_tag) for one in asked
        ):
            raise Conflict("image_tag: choose another one: it has a preview already")
        wanted = draft.extras.get("repository", "")
        if spec.pull_request and any(
            one.pull_request == spec.pull_request and (not wanted or one.repository in {wanted, ""})
            for one in asked
        ):
            raise Conflict("pull_request: choose another one: it has a preview already")
        fields = {
            "name": f"{name}-{draft.id[:4]}" if name.casefold() in names else name,
            "head_branch": spec.branch or "",
            **life_from(ctx, tx.now),
        }
        draft.give(**(fields | draft.extras))

    async def created(self, ctx: Context, tx: Tx, draft: Draft[Preview]) -> None:
        row = await tx.resources.get(draft.id)
        assert row is not None
        await tend_soon(tx, row)
        if draft.spec.pull_request and not row.read(StoredPreview).repository:
            await set_dismissed(tx, draft.above.id, row, is_dismissed=False)
            await look_soon(tx, draft.above)

    async def deleting(self, ctx: Context, tx: Tx, row: Row) -> None:
        await tend_soon(tx, row)  # which finds no preview, and deletes its environment


def _title_of(spec: Preview) -> str:
    image = (spec.image_name or "").rpartition("/")[2]
    return f"{image}-{spec.image_tag}" if spec.image_tag else spec.branch or ""


@prepares("preview.delete")
async def tell_of_deletion(ctx: Context, call: Call) -> None:
    """Tells the pull request that its preview is deleted, while it is still known."""
    row = await target(ctx.store.reads, call)
    base = await ctx.store.reads.resources.find(environment.name, row.parent)
    stored = row.read(StoredPreview)
    if base is not None and stored.comment_id:
        body = msgspec.json.decode(row.body) | {"state": PreviewState.ENDED}
        await tell(ctx, base, msgspec.structs.replace(row, body=msgspec.json.encode(body)))


@writes("preview.delete")
async def delete_preview(ctx: Context, tx: Tx, call: Call) -> Reply:
    row = await target(tx, call)
    check_tag(call, row)
    await set_dismissed(tx, row.parent, row, is_dismissed=True)
    await delete_row(ctx, tx, call, row, at_once=True)
    return Reply()


@writes("preview.approve")
async def approve(ctx: Context, tx: Tx, call: Call) -> Reply:
    row = await target(tx, call)
    check_tag(call, row)
    base = await tx.resources.find(environment.name, row.parent)
    assert base is not None
    await require_previews(tx, call.actor, base)
    stored, asked = row.read(StoredPreview), call.sent(Approval).commit_id
    if asked != stored.commit_id:
        newest = stored.commit_id or "not known yet"
        raise Conflict(f"commit_id: look at the newest commit first: it is {newest}")
    if not stored.needs_approval:
        raise Conflict(
            "Choose a preview that waits for an approval: the newest commit of this one needs none"
        )
    fields = {"approved_commit_id": stored.commit_id, "state": PreviewState.PLANNED}
    event = f"{call.actor.name} has approved commit {stored.commit_id[:12]}"
    new = await change_preview(tx, row, fields, event)
    await record(ctx, tx, Event.UPDATED, new, call.actor, call, old_body=row.body, new_body=new.body)
    await tend_soon(tx, new)
    return Reply(in_dialect(call, new.body), new.tag)


# Pull requests whose preview was deleted by hand get no other by themselves.


def _dismissed_fact(base: str) -> str:
    return f"pull requests without preview of {base}"


async def dismissed_pulls(reads: Reads, base: str) -> set[str]:
    """Returns the pull requests of an environment whose previews were deleted by hand."""
    found = await reads.facts.get(_dismissed_fact(base))
    return set(msgspec.json.decode(found)) if found else set()


def pull_key(repository: str, number: int) -> str:
    return f"{repository}#{number}"


async def keep_dismissed(tx: Tx, base: str, pulls: set[str]) -> None:
    await tx.facts.set(_dismissed_fact(base), msgspec.json.encode(sorted(pulls)) if pulls else b"")


async def set_dismissed(tx: Tx, base: str, row: Row, *, is_dismissed: bool) -> None:
    stored = row.read(StoredPreview)
    if not stored.pull_request:
        return
    before = await dismissed_pulls(tx, base)
    key = pull_key(stored.repository, stored.pull_request)
    if is_dismissed and stored.repository:
        after = before | {key}
    else:
        end = f"#{stored.pull_request}"
        after = {pull for pull in before if not pull.endswith(end)}
    if after != before:
        await keep_dismissed(tx, base, after)
