"""Looks at the open pull requests for the services of an environment, and writes down their previews.

A webhook only has the look happen now. So a closed pull request is found although its webhook never came, and
nothing is previewed that the git server does not show.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from windlass.base.clock import MINUTE, SECOND, stamp
from windlass.base.errors import Failure
from windlass.control.context.context import Context
from windlass.control.deploying.ledger import fence
from windlass.control.records.previews import (
    StoredPreview,
    call_of,
    change_preview,
    environment_of_look,
    life_from,
    previews_of,
    tend_soon,
)
from windlass.control.request.creating import NewResource, create_in
from windlass.control.services.deployment_rules import gives_previews, rule_of
from windlass.control.services.environments import services_of
from windlass.control.services.git_webhooks import key_of_service
from windlass.control.services.preview_comments import (
    NO_ACCESS_ADVICE,
    TOO_SLOW,
    RepositoryAccess,
    repositories_of,
)
from windlass.control.services.previews import MAX_PREVIEWS, dismissed_pulls, keep_dismissed, pull_key
from windlass.core.words.previews import PREVIEW_LABEL, PreviewState
from windlass.families.environment import environment
from windlass.families.preview import Preview, preview
from windlass.sources.git_servers.failures import GitServerFailure
from windlass.sources.git_servers.pull_requests import OpenPullRequest
from windlass.store import Claim, Row, Tx

_MAX_PAUSE: Final = 30 * MINUTE
_MAX_REPOSITORIES: Final = 20
ASK_SECONDS: Final = 60.0
"""Time limit for the pull requests of all repositories of an environment."""
_MAX_TITLE_LENGTH: Final = 300


class FoundPulls(Struct, frozen=True):
    """What the git servers say about the repositories of an environment."""

    pulls: Mapping[str, Sequence[OpenPullRequest]]
    """Open pull requests by repository; one that cannot be asked is missing."""
    problems: Mapping[str, str]


async def look_at_pull_requests(ctx: Context, claim: Claim) -> None:
    reads = ctx.store.reads
    base = await reads.resources.find(environment.name, environment_of_look(claim.id))
    rows = [row for row in await previews_of(reads, base.id) if _is_of_pull(row)] if base else []
    if base is None or not (rows or gives_previews(base)):
        await ctx.store.write(lambda tx: tx.work.done(claim))
        return
    found = await _ask(ctx, base, rows)
    await ctx.point("pull requests looked at")
    pause = ctx.settings.auto_deploy_seconds * SECOND
    if found.problems:
        pause = min(pause * 2 ** min(claim.attempts, 10), _MAX_PAUSE)
        if claim.attempts == 1:
            await _tell_problems(ctx, base, found.problems)
    attempts = claim.attempts if found.problems else 0

    async def change(tx: Tx) -> None:
        await fence(tx, claim)
        await _note(ctx, tx, base.id, found)
        await tx.work.reschedule(claim, tx.now + pause, attempts)

    await ctx.store.write(change)


def _is_of_pull(row: Row) -> bool:
    return bool(row.read(StoredPreview).pull_request)


async def _ask(ctx: Context, base: Row, rows: Sequence[Row]) -> FoundPulls:
    pulls: dict[str, Sequence[OpenPullRequest]] = {}
    problems: dict[str, str] = {}
    known: dict[str, dict[int, str]] = {}
    for stored in [row.read(StoredPreview) for row in rows]:
        known.setdefault(stored.repository, {})[int(stored.pull_request or 0)] = stored.commit_id
    repositories = await repositories_of(ctx, ctx.store.reads, base)
    until = asyncio.get_running_loop().time() + ASK_SECONDS
    for key, where in [*repositories.items()][:_MAX_REPOSITORIES]:
        if where is None:
            problems[key] = NO_ACCESS_ADVICE
            continue
        try:
            async with asyncio.timeout_at(until):
                pulls[key] = await _pulls_of(ctx, base.org, where, known.get(key, {}))
        except TimeoutError:
            problems[key] = TOO_SLOW
        except (GitServerFailure, Failure) as failure:
            problems[key] = str(failure)
    return FoundPulls(pulls, problems)


async def _pulls_of(
    ctx: Context, org: str, repository: RepositoryAccess, known: Mapping[int, str]
) -> Sequence[OpenPullRequest]:
    with ctx.git_servers.client(ctx.out, org, repository.access) as client:
        return await client.pull_requests(repository.path, known)


async def _tell_problems(ctx: Context, base: Row, problems: Mapping[str, str]) -> None:
    for service in await services_of(ctx, ctx.store.reads, base):
        if problem := problems.get(key_of_service(ctx, service)):
            ctx.logs.write(service.id, ctx.clock.now(), f"Pull requests get no previews now: {problem}")


async def _note(ctx: Context, tx: Tx, id: str, found_pulls: FoundPulls) -> None:
    """Writes down what pull requests mean for previews."""
    base = await tx.resources.find(environment.name, id)
    if base is None or await tx.deletions.at_or_above(id):
        return
    dismissed = await dismissed_pulls(tx, id)
    kept = {one for one in dismissed if one.rpartition("#")[0] not in found_pulls.pulls}
    for key, pulls in found_pulls.pulls.items():
        rows = {
            stored.pull_request: row
            for row in await previews_of(tx, id)
            if (stored := row.read(StoredPreview)).pull_request and stored.repository in {"", key}
        }
        for pull in pulls:
            is_dismissed = pull_key(key, pull.number) in dismissed
            kept |= {pull_key(key, pull.number)} if is_dismissed else set()
            if row := rows.pop(pull.number, None):
                await _note_present(ctx, tx, row, key, pull)
            elif not is_dismissed and await _is_wanted(ctx, tx, base, key, pull):
                await add_preview(ctx, tx, base, key, pull)
        for row in rows.values():
            await _note_closed(tx, row, found_pulls)
    if kept != dismissed:
        await keep_dismissed(tx, id, kept)


async def _is_wanted(ctx: Context, tx: Tx, base: Row, key: str, pull_request: OpenPullRequest) -> bool:
    """Returns whether a pull request gets a preview by itself."""
    rule = rule_of(base)
    if not (rule.auto_preview or (rule.on_demand_preview and PREVIEW_LABEL in pull_request.labels)):
        return False
    return await may_be_previewed(ctx, tx, base, key, pull_request)


async def may_be_previewed(ctx: Context, tx: Tx, base: Row, key: str, pull_request: OpenPullRequest) -> bool:
    """Returns whether a pull request is to be merged into a branch of a service that has previews."""
    if len(await previews_of(tx, base.id)) >= MAX_PREVIEWS:
        return False
    for service in await services_of(ctx, tx, base):
        kind = ctx.kinds[service.family]
        if key_of_service(ctx, service) == key and kind.asks_for_previews(service):
            repository = kind.repository(service)
            if repository and (not repository.branch or repository.branch == pull_request.target):
                return True
    return False


async def add_preview(ctx: Context, tx: Tx, base: Row, key: str, pull_request: OpenPullRequest) -> None:
    call = call_of(ctx, "preview.create", base.parent, base)
    await create_in(
        ctx,
        tx,
        NewResource(
            preview,
            Preview(pull_request=pull_request.number),
            base,
            call.actor,
            call,
            extras={
                **_fields_of(key, pull_request),
                "events": [{"at": stamp(tx.now), "message": f"Pull request {pull_request.number} is open"}],
            },
        ),
    )


def _fields_of(key: str, pull_request: OpenPullRequest) -> dict[str, object]:
    return {
        "repository": key,
        "title": pull_request.title[:_MAX_TITLE_LENGTH],
        "url": pull_request.url,
        "author": pull_request.author,
        "head_branch": pull_request.branch,
        "target_branch": pull_request.target,
        "commit_id": pull_request.commit,
        "is_fork": pull_request.is_fork,
        "source_url": pull_request.source_url,
        "is_open": True,
    }


async def _note_present(ctx: Context, tx: Tx, row: Row, key: str, pull_request: OpenPullRequest) -> None:
    before = row.read(StoredPreview)
    fields = _fields_of(key, pull_request)
    event = ""
    if not pull_request.commit:  # the git server does not tell it now
        del fields["commit_id"]
    elif pull_request.commit != before.commit_id:
        event = f"Commit {pull_request.commit[:12]} is the newest"
        fields |= life_from(ctx, tx.now)
        if before.state is PreviewState.ENDED:
            fields |= {"state": PreviewState.PLANNED}
    after = await change_preview(tx, row, fields, event)
    if after.body != row.body:
        await tend_soon(tx, after)


async def _note_closed(tx: Tx, row: Row, found_pulls: FoundPulls) -> None:
    stored = row.read(StoredPreview)
    if stored.repository:
        if stored.is_open:
            fields = {"is_open": False, "state": PreviewState.ENDED}
            await tend_soon(tx, await change_preview(tx, row, fields, "The pull request is closed"))
    elif not found_pulls.problems and stored.state is not PreviewState.FAILED:
        open_ones = {pull.number for pulls in found_pulls.pulls.values() for pull in pulls}
        if stored.pull_request not in open_ones:
            event = "No repository of the environment has an open pull request with this number"
            await change_preview(tx, row, {"state": PreviewState.FAILED}, event)
