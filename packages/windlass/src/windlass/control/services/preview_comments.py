"""What pull requests are told of their previews: one comment that is edited, and a commit status.

A git server that does not do it never fails a preview: the preview says why, and it is tried again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple

from windlass.base.clock import stamp
from windlass.base.errors import Failure
from windlass.control.context.context import Context
from windlass.control.records.previews import StoredPreview
from windlass.control.services.environments import services_of
from windlass.control.services.git_servers import token_of
from windlass.control.services.git_webhooks import key_of_service
from windlass.control.workloads.repositories import api_access
from windlass.core.words.previews import STATE_SENTENCES, PreviewState
from windlass.sources.git_servers.client import GitServerAccess, GitServerClient
from windlass.sources.git_servers.failures import GitServerFailure, GitServerProblem
from windlass.sources.git_servers.pull_requests import CommitState
from windlass.sources.git_servers.repositories import repository_path
from windlass.store import Reads, Row

_STATES: Final[Mapping[PreviewState, CommitState]] = {
    PreviewState.RUNNING: CommitState.SUCCESS,
    PreviewState.STOPPED: CommitState.SUCCESS,
    PreviewState.FAILED: CommitState.FAILURE,
}
"""The commit status of a preview; pending in other states."""
NO_ACCESS_ADVICE: Final = (
    "Give the services of the repository a git token that reads pull requests, and writes comments and "
    "statuses of commits: without one, the git server is not asked"
)


TOO_SLOW: Final = "Try again later: the git server takes too long to answer"
TELL_SECONDS: Final = 30.0
"""Time limit for all that a pull request is told at once."""


class RepositoryAccess(NamedTuple):
    """The API of the git server of a repository."""

    access: GitServerAccess
    path: str


class CommentOutcome(NamedTuple):
    """What the git server was told."""

    text: str
    """What decides whether there is news."""
    comment: str
    problem: str = ""


async def repositories_of(ctx: Context, reads: Reads, base: Row) -> dict[str, RepositoryAccess | None]:
    """Returns the repositories of the services of an environment by their keys; None for one without a git
    token for its API."""
    found: dict[str, RepositoryAccess | None] = {}
    for service in await services_of(ctx, reads, base):
        key, repository = key_of_service(ctx, service), ctx.kinds[service.family].repository(service)
        if not key or repository is None or found.get(key):
            continue
        found[key] = None
        token = await token_of(reads, service, repository)
        if token is not None:
            try:
                found[key] = RepositoryAccess(api_access(ctx, token), repository_path(repository.url))
            except GitServerFailure:
                continue
    return found


def news_of(preview: StoredPreview) -> str:
    """Returns the text that decides whether a pull request is told something new."""
    return "|".join([preview.state, preview.commit_id, preview.deployed_commit_id, preview.address])


async def tell(ctx: Context, base: Row, row: Row) -> CommentOutcome | None:
    """Edits the comment of a preview, and sets the commit status. Returns None if there is no news."""
    stored = row.read(StoredPreview)
    if not stored.pull_request or not stored.repository or news_of(stored) == stored.told:
        return None
    where = (await repositories_of(ctx, ctx.store.reads, base)).get(stored.repository)
    if where is None:
        return CommentOutcome("", stored.comment_id, NO_ACCESS_ADVICE)
    try:
        async with asyncio.timeout(TELL_SECONDS):
            return await _tell(ctx, base.org, row.id, stored, where)
    except TimeoutError:
        return CommentOutcome("", stored.comment_id, TOO_SLOW)


async def _tell(
    ctx: Context, org: str, id: str, stored_preview: StoredPreview, where: RepositoryAccess
) -> CommentOutcome:
    comment, problems = stored_preview.comment_id, list[str]()
    try:
        with ctx.git_servers.client(ctx.out, org, where.access) as client:
            try:
                comment = await _write_comment(client, where.path, id, stored_preview, ctx.clock.now())
            except GitServerFailure as failure:
                if failure.problem is GitServerProblem.UNKNOWN and comment:
                    comment = ""  # somebody has deleted it: another one is written next
                problems.append(f"The comment: {failure}")
            try:
                await _set_status(client, where.path, stored_preview)
            except GitServerFailure as failure:
                problems.append(f"The commit status: {failure}")
    except (GitServerFailure, Failure) as failure:
        problems.append(str(failure))
    return CommentOutcome("" if problems else news_of(stored_preview), comment, ". ".join(problems))


async def _write_comment(
    client: GitServerClient, path: str, id: str, preview: StoredPreview, now: int
) -> str:
    number, comment = int(preview.pull_request or 0), preview.comment_id
    if not comment:
        # It may have been written by a server that was killed before it could note that.
        there = await client.comments(path, number)
        comment = next((one.id for one in there if _mark(id) in one.text), "")
    return await client.write_comment(path, number, comment, text_of(id, preview, now))


async def _set_status(client: GitServerClient, path: str, preview: StoredPreview) -> None:
    if preview.state is PreviewState.ENDED or not preview.commit_id:
        return
    state = _STATES.get(preview.state, CommitState.PENDING)
    await client.set_status(path, preview.commit_id, state, STATE_SENTENCES[preview.state], preview.address)


def _mark(id: str) -> str:
    """Returns the line by which a comment is found again. Markdown does not show it."""
    return f"[windlass-preview]: # ({id})"


def text_of(id: str, preview: StoredPreview, now: int) -> str:
    rows = [("State", preview.state), ("Environment", f"`{preview.name}`")]
    if preview.address and preview.state is not PreviewState.ENDED:
        rows.append(("Address", preview.address))
    if preview.deployed_commit_id:
        rows.append(("Deployed commit", f"`{preview.deployed_commit_id[:12]}`"))
    if preview.commit_id != preview.deployed_commit_id:
        rows.append(("Newest commit", f"`{preview.commit_id[:12]}`"))
    if preview.missing_secrets:
        # Not their keys: everybody reads the comments of a public repository.
        count = len(preview.missing_secrets)
        rows.append(("Secrets that a fork does not get", f"{count}: `windlass preview get {id}` lists them"))
    if preview.state is PreviewState.FAILED and preview.events:
        rows.append(("Reason", " ".join(preview.events[-1].message.replace("|", "/").split())))
    rows.append(("Updated", stamp(now)))
    if preview.state is PreviewState.WAITING_FOR_APPROVAL:
        rows.append(("To approve it", f"`windlass preview approve {id} --commit-id {preview.commit_id}`"))
    lines = ["| Preview | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)]
    return "\n".join([STATE_SENTENCES[preview.state], "", *lines, "", _mark(id)])
