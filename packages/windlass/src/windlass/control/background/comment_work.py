"""Carries out commands in comments of pull requests, such as `/windlass preview`.

A delivery only says which comment to read. The git server is asked for its text and its author, and whether
the author may write to the repository. A command does what a member has allowed with the rule of the
environment: code of a fork waits for its approval all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from windlass.base.clock import SECOND
from windlass.base.errors import Failure
from windlass.control.background.pull_request_work import add_preview, may_be_previewed
from windlass.control.context.call import Origin
from windlass.control.context.context import Context
from windlass.control.deploying.ledger import fence
from windlass.control.records.git_webhooks import webhook_of_comment_work
from windlass.control.records.previews import (
    StoredPreview,
    change_preview,
    environment_of,
    life_from,
    previews_of,
    tend_soon,
)
from windlass.control.request.deleting import Requester, delete_resource
from windlass.control.services.deployment_rules import gives_previews
from windlass.control.services.git_webhooks import services_of_repository
from windlass.control.services.preview_comments import (
    NO_ACCESS_ADVICE,
    TOO_SLOW,
    RepositoryAccess,
    repositories_of,
    tell,
)
from windlass.control.services.preview_environments import stop_environment
from windlass.control.services.previews import dismissed_pulls, keep_dismissed, pull_key, set_dismissed
from windlass.core.access import SYSTEM
from windlass.core.deploy.progress import Initiator
from windlass.core.words.comment_commands import CommentCommand, command_in
from windlass.core.words.git_pushes import PushResult
from windlass.core.words.previews import PreviewState
from windlass.families.environment import environment
from windlass.sources.git_servers.client import GitServerClient
from windlass.sources.git_servers.failures import GitServerFailure, GitServerProblem
from windlass.sources.git_servers.payloads import CommentHint, hint_in
from windlass.sources.git_servers.pull_requests import OpenPullRequest
from windlass.store import Claim, Reads, Row, Tx
from windlass.store.tables.git_pushes import GitPushRow
from windlass.store.tables.git_webhooks import GitWebhookRow

MAX_COMMENTS_AT_ONCE: Final = 10
MAX_REMEMBERED_COMMENTS: Final = 500
"""The number of comments of a repository whose commands are not carried out again."""
COMMENT_SECONDS: Final = 30.0
"""Time limit for what a git server says about one comment."""
_MAX_ATTEMPTS: Final = 5
_RETRY_PAUSE: Final = 5 * SECOND
_ITSELF: Final = Requester(Initiator(SYSTEM.id, SYSTEM.name), Origin("GIT"))
_NO_WRITER: Final = "its author may not write to the repository"
_COMMANDS: Final = ", ".join(f"`/windlass {command}`" for command in CommentCommand)


class ReadCommand(Struct, frozen=True):
    """A command of a comment, as the git server confirms it."""

    hint: CommentHint
    command: CommentCommand
    author: str
    pull: OpenPullRequest


class RefusedComment(Exception):
    """Raised if a comment is no command that may be carried out."""


async def carry_out_comments(ctx: Context, claim: Claim) -> None:
    reads = ctx.store.reads
    webhook = await reads.git_webhooks.get(webhook_of_comment_work(claim.id))
    rows = await reads.git_pushes.comments(webhook.id, MAX_COMMENTS_AT_ONCE) if webhook else []
    if webhook is None or not rows:
        await ctx.store.write(lambda tx: tx.work.done(claim))
        return
    row, *_ = rows
    bases = await _bases_of(ctx, reads, webhook)
    try:
        async with asyncio.timeout(COMMENT_SECONDS):
            command = await _read(ctx, reads, webhook, bases, row)
    except RefusedComment as refusal:
        await _settle(ctx, claim, row, PushResult.COMMAND_REFUSED, str(refusal))
        return
    except (GitServerFailure, Failure, TimeoutError) as failure:
        if claim.attempts < _MAX_ATTEMPTS:
            pause = _RETRY_PAUSE * 2**claim.attempts
            await ctx.store.write(lambda tx: tx.work.reschedule(claim, tx.now + pause, claim.attempts))
        else:
            await _settle(ctx, claim, row, PushResult.COMMAND_REFUSED, str(failure) or TOO_SLOW)
        return
    if command.command is CommentCommand.DELETE:
        await _tell_of_deletion(ctx, reads, webhook, bases, command)
    await ctx.point("comment read")

    async def change(tx: Tx) -> None:
        await fence(tx, claim)
        done = await _carry_out(ctx, tx, webhook, bases, command)
        note = f"{row.note}: {done}" if done else "no environment of the repository has a preview for it"
        result = PushResult.COMMAND_DONE if done else PushResult.COMMAND_REFUSED
        await tx.git_pushes.settle_comment(row, result, note)
        await tx.work.reschedule(claim, tx.now)

    await ctx.store.write(change)


async def _settle(ctx: Context, claim: Claim, row: GitPushRow, result: PushResult, note: str) -> None:
    async def change(tx: Tx) -> None:
        await fence(tx, claim)
        await tx.git_pushes.settle_comment(row, result, f"{row.note}: {note}")
        await tx.work.reschedule(claim, tx.now)

    await ctx.store.write(change)


async def _bases_of(ctx: Context, reads: Reads, webhook: GitWebhookRow) -> list[Row]:
    """Returns the environments with services of the repository that have previews on."""
    services = await services_of_repository(ctx, reads, webhook.org, webhook.repository)
    found = []
    for id in sorted({service.parent for service in services}):
        base = await reads.resources.find(environment.name, id)
        if base is not None and gives_previews(base):
            found.append(base)
    return found


async def _read(
    ctx: Context, reads: Reads, webhook: GitWebhookRow, bases: Sequence[Row], row: GitPushRow
) -> ReadCommand:
    """Reads a comment at the git server. Raises RefusedComment if its command may not be carried out."""
    hint = hint_in(row.note)
    if hint is None or not bases:
        raise RefusedComment("no environment of the repository has previews on")
    if hint.id in await _remembered(reads, webhook.id):
        raise RefusedComment("it was carried out before")
    where = await _access_of(ctx, reads, webhook, bases)
    if where is None:
        raise RefusedComment(NO_ACCESS_ADVICE)
    with ctx.git_servers.client(ctx.out, webhook.org, where.access) as client:
        return await _ask(client, where.path, hint)


async def _access_of(
    ctx: Context, reads: Reads, webhook: GitWebhookRow, bases: Sequence[Row]
) -> RepositoryAccess | None:
    for base in bases:
        if where := (await repositories_of(ctx, reads, base)).get(webhook.repository):
            return where
    return None


async def _ask(client: GitServerClient, path: str, hint: CommentHint) -> ReadCommand:
    try:
        comment = await client.sent_comment(path, hint.pull_request, hint.id)
    except GitServerFailure as failure:
        if failure.problem is GitServerProblem.UNKNOWN:
            raise RefusedComment("the git server does not have it") from failure
        raise
    if comment is None:
        raise RefusedComment("it belongs to no pull request, or this git server does not tell who may write")
    if not await client.may_write(path, comment.author):
        raise RefusedComment(_NO_WRITER)
    command = command_in(comment.text)
    if command is None:
        raise RefusedComment(f"its first line is none of {_COMMANDS}")
    pulls = await client.pull_requests(path)
    pull = next((one for one in pulls if one.number == hint.pull_request), None)
    if pull is None:
        raise RefusedComment("the pull request is not open")
    return ReadCommand(hint, command, comment.author, pull)


async def _carry_out(
    ctx: Context, tx: Tx, webhook: GitWebhookRow, bases: Sequence[Row], command: ReadCommand
) -> str:
    """Carries out a command in all environments with previews. Returns what was done; empty if nothing."""
    remembered = await _remembered(tx, webhook.id)
    if command.hint.id in remembered:
        return ""
    kept = [*remembered, command.hint.id][-MAX_REMEMBERED_COMMENTS:]
    await tx.facts.set(_fact(webhook.id), msgspec.json.encode(kept))
    done = []
    for before in bases:
        base = await tx.resources.find(environment.name, before.id)
        if base is None or not gives_previews(base) or await tx.deletions.at_or_above(base.id):
            continue
        row = await _preview_of(tx, base, webhook.repository, command.hint.pull_request)
        match command.command:
            case CommentCommand.PREVIEW:
                done.append(await _preview(ctx, tx, base, webhook.repository, row, command))
            case CommentCommand.STOP:
                done.append(await _stop(ctx, tx, row, command) if row else "")
            case CommentCommand.DELETE:
                done.append(await _delete(ctx, tx, base, row) if row else "")
    return ", ".join(filter(None, done))


async def _preview_of(reads: Reads, base: Row, repository: str, number: int) -> Row | None:
    for row in await previews_of(reads, base.id):
        stored = row.read(StoredPreview)
        if stored.pull_request == number and stored.repository in {repository, ""}:
            return row
    return None


async def _preview(
    ctx: Context, tx: Tx, base: Row, repository: str, row: Row | None, command: ReadCommand
) -> str:
    if row is None:
        if not await may_be_previewed(ctx, tx, base, repository, command.pull):
            return ""
        dismissed = await dismissed_pulls(tx, base.id)
        await keep_dismissed(tx, base.id, dismissed - {pull_key(repository, command.pull.number)})
        await add_preview(ctx, tx, base, repository, command.pull)
        return "a preview is made"
    stored = row.read(StoredPreview)
    fields: dict[str, object] = dict(life_from(ctx, tx.now))
    if not stored.needs_approval:  # else the approved commit runs on
        fields |= {"deployed_commit_id": ""}
    if stored.state is PreviewState.ENDED:
        fields |= {"state": PreviewState.PLANNED}
    await tend_soon(tx, await change_preview(tx, row, fields, f"{command.author} has asked for it"))
    return "its preview is deployed again"


async def _stop(ctx: Context, tx: Tx, row: Row, command: ReadCommand) -> str:
    made = await tx.resources.find(environment.name, environment_of(row.id))
    if made is None or await tx.deletions.at_or_above(made.id):
        return ""
    stopped = await stop_environment(ctx, tx, made, row, f"Stopped: {command.author} has asked for it")
    await tend_soon(tx, stopped)
    return "its preview is stopped"


async def _delete(ctx: Context, tx: Tx, base: Row, row: Row) -> str:
    await set_dismissed(tx, base.id, row, is_dismissed=True)
    await delete_resource(ctx, tx, row, _ITSELF)
    return "its preview is deleted"


async def _tell_of_deletion(
    ctx: Context, reads: Reads, webhook: GitWebhookRow, bases: Sequence[Row], command: ReadCommand
) -> None:
    """Tells the pull request that its previews are deleted, while they are still known."""
    for base in bases:
        row = await _preview_of(reads, base, webhook.repository, command.hint.pull_request)
        if row is not None and row.read(StoredPreview).comment_id:
            body = msgspec.json.decode(row.body) | {"state": PreviewState.ENDED}
            await tell(ctx, base, msgspec.structs.replace(row, body=msgspec.json.encode(body)))


def _fact(webhook: str) -> str:
    return f"comments with commands of {webhook}"


async def _remembered(reads: Reads, webhook: str) -> list[str]:
    found = await reads.facts.get(_fact(webhook))
    return msgspec.json.decode(found, type=list[str]) if found else []
