"""Makes, deploys, stops and deletes the environment of a preview, one step at a time.

Each step is a transaction that reads what is there, so that a killed server leaves no environment behind:
the work of a preview ends only when its environment is gone.
"""

from __future__ import annotations

import asyncio
from typing import Final

from msgspec.structs import replace

from windlass.base.clock import HOUR, MINUTE, SECOND, may_expire, stamp
from windlass.base.errors import Failure
from windlass.control.context.call import Origin
from windlass.control.context.context import Context
from windlass.control.deploying.ledger import fence
from windlass.control.records.previews import (
    PreviewMark,
    StoredPreview,
    change_preview,
    environment_of,
    life_from,
    moment_of,
    places_taken,
    preview_of_work,
)
from windlass.control.request.deleting import Requester, delete_resource
from windlass.control.services.environments import services_of
from windlass.control.services.git_webhooks import key_of_service
from windlass.control.services.preview_comments import news_of, tell
from windlass.control.services.preview_environments import (
    address_of,
    delete_environment,
    deploy_newest,
    make_environment,
    state_of,
    stop_environment,
)
from windlass.control.workloads.repositories import source_of
from windlass.core.access import SYSTEM
from windlass.core.deploy.progress import Initiator
from windlass.core.words.previews import PreviewState
from windlass.families.environment import environment
from windlass.families.preview import preview
from windlass.sources.git import GitError
from windlass.store import Claim, Row, Tx

_FOLLOW_INTERVAL: Final = 2 * SECOND
_CHECK_INTERVAL: Final = 5 * MINUTE
_RETRY_PAUSE: Final = MINUTE
_DELETE_PAUSE: Final = 5 * SECOND
_MAX_PAUSE: Final = 10 * MINUTE
HEAD_SECONDS: Final = 20.0
"""Time limit for the branch of a preview in all repositories: other previews wait meanwhile."""
_ITSELF: Final = Requester(Initiator(SYSTEM.id, SYSTEM.name), Origin("GIT"))


async def tend_preview(ctx: Context, claim: Claim) -> None:
    id = preview_of_work(claim.id)
    row = await ctx.store.reads.resources.find(preview.name, id)
    if row is None:
        await ctx.store.write(lambda tx: _remove_environment(ctx, tx, claim, id))
        return
    newest, address = await _newest_of_branch(ctx, row), await _address_of(ctx, row)
    try:
        due = await ctx.store.write(lambda tx: _advance(ctx, tx, claim, id, newest, address))
    except Failure as failure:
        message = failure.message
        due = await ctx.store.write(lambda tx: _note_failure(tx, claim, id, message))
    await ctx.point("preview advanced")
    due = await _tell(ctx, claim, id, due)
    await ctx.store.write(lambda tx: tx.work.reschedule(claim, due))


async def _remove_environment(ctx: Context, tx: Tx, claim: Claim, id: str) -> None:
    """Deletes the environment of a preview that is gone. The work ends once the environment is gone, too."""
    await fence(tx, claim)
    made = await tx.resources.find(environment.name, environment_of(id))
    if made is None:
        await tx.work.done(claim)
        return
    await delete_environment(ctx, tx, made)
    pause = min(_DELETE_PAUSE * 2 ** min(claim.attempts, 10), _MAX_PAUSE)
    await tx.work.reschedule(claim, tx.now + pause, claim.attempts)


async def _newest_of_branch(ctx: Context, row: Row) -> tuple[str, str]:
    """Returns the repository and the newest commit of the branch of a preview that was made by hand; empty
    for a pull request, and if no git server answers in time."""
    stored = row.read(StoredPreview)
    base = await ctx.store.reads.resources.find(environment.name, row.parent)
    if not stored.branch or base is None:
        return "", ""
    try:
        async with asyncio.timeout(HEAD_SECONDS):
            return await _find_branch(ctx, base, stored)
    except TimeoutError:
        return "", ""


async def _find_branch(ctx: Context, base: Row, stored_preview: StoredPreview) -> tuple[str, str]:
    for service in await services_of(ctx, ctx.store.reads, base):
        key = key_of_service(ctx, service)
        if not key or stored_preview.repository not in {"", key}:
            continue
        try:
            source = await source_of(ctx, ctx.store.reads, service, None)
            _, head = await ctx.git.head(replace(source, branch=str(stored_preview.branch)))
        except GitError:
            continue
        return key, head
    return "", ""


async def _address_of(ctx: Context, row: Row) -> str:
    made = await ctx.store.reads.resources.find(environment.name, environment_of(row.id))
    return await address_of(ctx, ctx.store.reads, made, row.read(StoredPreview)) if made else ""


async def _advance(
    ctx: Context, tx: Tx, claim: Claim, id: str, newest_commit: tuple[str, str], address: str
) -> int:
    """Does the next step of a preview. Returns when the one after it is due."""
    await fence(tx, claim)
    row = await tx.resources.find(preview.name, id)
    base = await tx.resources.find(environment.name, row.parent) if row else None
    if row is None or base is None:
        return tx.now
    made = await tx.resources.find(environment.name, environment_of(id))
    row = await _note_newest(ctx, tx, row, newest_commit)
    stored = row.read(StoredPreview)
    if stored.is_open and made is None and stored.preview_environment_id:
        fields: dict[str, object] = {
            "preview_environment_id": None,
            "address": "",
            "deployed_commit_id": "",
            "deployed_image_tag": "",
        }
        if stored.state not in {PreviewState.ENDED, PreviewState.PLANNED}:
            fields |= {"state": PreviewState.ENDED}
        row = await change_preview(tx, row, fields, "Its environment is gone")
        stored = row.read(StoredPreview)
    is_over = moment_of(stored.ends_at) <= tx.now and may_expire(ctx.clock)
    if stored.state is not PreviewState.ENDED and is_over:
        event = f"Its life has ended: nothing new came for {ctx.settings.preview_days} days"
        row = await change_preview(tx, row, {"state": PreviewState.ENDED}, event)
        stored = row.read(StoredPreview)
    if stored.state is PreviewState.ENDED:
        if made is None:
            return tx.now + _CHECK_INTERVAL
        is_under_way = await tx.deletions.at_or_above(made.id) is not None
        await delete_environment(ctx, tx, made)
        return tx.now + (_DELETE_PAUSE if is_under_way else _RETRY_PAUSE)
    if made is not None and stored.is_fork and _has_secrets(made):
        await _take_secrets(ctx, tx, made, row)
        return tx.now + _DELETE_PAUSE
    if not stored.is_known:
        return await _await_commit(tx, row, stored)
    if stored.needs_approval:
        if stored.state is not PreviewState.WAITING_FOR_APPROVAL:
            event = f"Commit {stored.commit_id[:12]} of a fork waits for an approval"
            await change_preview(tx, row, {"state": PreviewState.WAITING_FOR_APPROVAL}, event)
        return tx.now + _CHECK_INTERVAL
    if made is None:
        return await _make(ctx, tx, base, row, stored)
    if await tx.deletions.at_or_above(made.id):
        return tx.now + _DELETE_PAUSE
    if not stored.is_deployed:
        await deploy_newest(ctx, tx, made, row)
        return tx.now + _FOLLOW_INTERVAL
    return await _follow(ctx, tx, made, row, address)


def _has_secrets(made: Row) -> bool:
    mark = made.read(PreviewMark).preview
    return not (mark and mark.without_secrets)


async def _take_secrets(ctx: Context, tx: Tx, made: Row, row: Row) -> None:
    """Deletes the environment of a preview that has turned out to be of a fork. The next approval makes
    another one, without secrets."""
    if await tx.deletions.at_or_above(made.id):
        return
    await delete_environment(ctx, tx, made)
    fields: dict[str, object] = {
        "state": PreviewState.WAITING_FOR_APPROVAL,
        "preview_environment_id": None,
        "address": "",
        "deployed_commit_id": "",
        "approved_commit_id": "",
    }
    event = "Its environment is deleted, as it has secrets, and the pull request is of a fork"
    await change_preview(tx, row, fields, event)


async def _note_newest(ctx: Context, tx: Tx, row: Row, newest_commit: tuple[str, str]) -> Row:
    key, head = newest_commit
    stored = row.read(StoredPreview)
    if not head or head == stored.commit_id:
        return row
    fields: dict[str, object] = {"repository": key, "commit_id": head, **life_from(ctx, tx.now)}
    if stored.state is PreviewState.ENDED:
        fields |= {"state": PreviewState.PLANNED}
    return await change_preview(tx, row, fields, f"Commit {head[:12]} is the newest")


async def _await_commit(tx: Tx, row: Row, preview: StoredPreview) -> int:
    if preview.branch and preview.state is not PreviewState.FAILED:
        event = f"No repository of the environment has a branch {preview.branch}"
        await change_preview(tx, row, {"state": PreviewState.FAILED}, event)
    return tx.now + _RETRY_PAUSE


async def _make(ctx: Context, tx: Tx, base: Row, row: Row, preview: StoredPreview) -> int:
    most = ctx.settings.previews_of_project
    if await places_taken(tx, base.parent) >= most:
        if preview.state is not PreviewState.WAITING_FOR_ROOM:
            event = f"The project has {most} previews, which is the most"
            await change_preview(tx, row, {"state": PreviewState.WAITING_FOR_ROOM}, event)
        return tx.now + _RETRY_PAUSE
    await make_environment(ctx, tx, base, row)
    return tx.now + _FOLLOW_INTERVAL


async def _follow(ctx: Context, tx: Tx, environment: Row, row: Row, address: str) -> int:
    """Notes how the environment is, and stops it if nothing came for a while."""
    stored = row.read(StoredPreview)
    quiet = moment_of(stored.active_at) + ctx.settings.preview_quiet_hours * HOUR
    state = await state_of(ctx, tx, environment)
    was_stopped = stored.state is PreviewState.STOPPED
    if was_stopped and state is PreviewState.DEPLOYING:
        return tx.now + _FOLLOW_INTERVAL  # it is being stopped, or somebody starts it again
    if not was_stopped and quiet <= tx.now and state in {PreviewState.RUNNING, PreviewState.FAILED}:
        await stop_environment(ctx, tx, environment, row)
        return tx.now + _FOLLOW_INTERVAL
    fields: dict[str, object] = {"state": state, "address": address}
    if was_stopped and state is PreviewState.RUNNING:
        fields |= {"active_at": stamp(tx.now)}
    event = f"It is {state.lower()}" if state is not stored.state else ""
    await change_preview(tx, row, fields, event)
    if state is PreviewState.DEPLOYING:
        return tx.now + _FOLLOW_INTERVAL
    return tx.now + (_RETRY_PAUSE if stored.branch else _CHECK_INTERVAL)


async def _note_failure(tx: Tx, claim: Claim, id: str, message: str) -> int:
    await fence(tx, claim)
    row = await tx.resources.find(preview.name, id)
    if row is not None:
        events = row.read(StoredPreview).events
        is_new = not events or events[-1].message != message
        await change_preview(tx, row, {"state": PreviewState.FAILED}, message if is_new else "")
    return tx.now + _RETRY_PAUSE


async def _tell(ctx: Context, claim: Claim, id: str, due_at: int) -> int:
    """Tells the pull request what is new. Deletes the preview of a closed one after that. Returns when the
    preview is tended next."""
    row = await ctx.store.reads.resources.find(preview.name, id)
    base = await ctx.store.reads.resources.find(environment.name, row.parent) if row else None
    if row is None or base is None:
        return due_at
    told = await tell(ctx, base, row)
    await ctx.point("pull request told")

    async def change(tx: Tx) -> int:
        await fence(tx, claim)
        present = await tx.resources.find(preview.name, id)
        if present is None:
            return tx.now
        if told:
            fields = {"comment_id": told.comment, "told": told.text, "problem": told.problem}
            present = await change_preview(tx, present, fields)
        after = present.read(StoredPreview)
        is_over = after.state is PreviewState.ENDED and (not after.is_open or not after.pull_request)
        if is_over:
            await delete_resource(ctx, tx, present, _ITSELF)
            return tx.now
        is_news = news_of(after) != after.told and after.pull_request and after.repository
        return (
            min(due_at, tx.now + (_RETRY_PAUSE if told and told.problem else _FOLLOW_INTERVAL))
            if is_news
            else due_at
        )

    return await ctx.store.write(change)
