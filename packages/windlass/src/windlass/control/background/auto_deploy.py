"""Deploys new commits of services that ask for it: the newest commit of the branch, if it is unseen.

Each such service has a piece of work that is due again after each check. The commit that was seen last is
stored in the transaction that deploys it, so that no server deploys it twice or misses one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import Enum, auto
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from msgspec import Struct

from windlass.base import dockerignore
from windlass.base.clock import MINUTE, SECOND
from windlass.base.errors import Conflict
from windlass.base.subprocesses import in_thread
from windlass.control.context.call import Call, Dialect, Origin
from windlass.control.context.context import Context
from windlass.control.deploying.ledger import fence
from windlass.control.records.branch_watches import NEXT_COMMIT, service_of_work
from windlass.control.records.deployments import accept, particulars
from windlass.control.services.deployment_restrictions import restrictions_of
from windlass.control.workloads.repositories import source_of
from windlass.core.access import SYSTEM
from windlass.core.deploy.progress import Particulars
from windlass.core.deploy.states import BUILDS, OPEN, RELEASES
from windlass.families.deployment_restriction import DeploymentRestriction
from windlass.sources.git import GitError, GitSource
from windlass.store import Claim, Reads, Row, Tx

HEAD_SECONDS, COMPARISON_SECONDS = 20.0, 60.0
"""Timeouts for a git server, because a few slow servers could otherwise hold all slots of this work."""
SHORT_SECONDS, FULL_EVERY = 4.0, 5
"""The limit while a branch cannot be read, and the number of checks of which one has the full limit all the
same: a server that is always slow may have failed just once."""
LONGEST_PAUSE: Final = 10
"""The longest pause while a branch cannot be read, as a multiple of the usual pause."""
SLOWER: Final = 30
"""The shortest pause after a check, as a multiple of its duration: slow servers hold few slots."""
LONGEST_SLOW_PAUSE: Final = 10 * MINUTE
MOST_STEPS: Final = 500_000
"""Maximum product of path parts and pattern parts. A commit above it counts as changing a watched file."""
_LATEST: Final = 50
"""Number of the latest deployments in which a commit is looked for."""
_WORDS: Final = Dialect(name="plain", state=str, event=str)
_FROM_GIT: Final = Origin("GIT")


class WatchSettings(Struct):
    """The settings of a service for automatic deployments of commits."""

    watch_paths: list[str] = []


class CommitStep(Enum):
    DEPLOY = auto()
    NOTE = auto()
    """Remember the commit without deploying it: it was deployed before, or the service is not to run."""
    WAIT = auto()
    """Check again later: a deployment that has not fetched its commit yet may be for this one."""


async def deploy_new_commit(ctx: Context, claim: Claim) -> None:
    """Looks at the branch of a service, deploys its newest commit if it is new, and is due again later."""
    service = await ctx.store.reads.resources.get(service_of_work(claim.id))
    if service is None or not ctx.kinds[service.family].deploys_new_commits(service):
        await ctx.store.write(lambda tx: _end(tx, claim))
        return
    pause = ctx.settings.auto_deploy_seconds * SECOND
    limit, began = _seconds_of_look(claim.attempts), ctx.clock.now()
    try:
        source = await source_of(ctx, ctx.store.reads, service, None)
        async with asyncio.timeout(limit):
            branch, head = await ctx.git.head(source)
        message = await _deploy_if_new(ctx, claim, service, source, head)
    except (GitError, Conflict, TimeoutError) as failure:
        if claim.attempts == 1:
            reason = str(failure) or f"{source.url} did not answer within {limit:g} seconds"
            _log(ctx, service, f"New commits are not deployed now: {reason}")
        later = pause * min(2**claim.attempts, LONGEST_PAUSE)
        await ctx.store.write(lambda tx: tx.work.reschedule(claim, tx.now + later, claim.attempts))
        return
    if message:
        _log(ctx, service, message.format(commit=head[:12], branch=branch))
    pause = _pause_after(ctx.clock.now() - began, pause)
    await ctx.store.write(lambda tx: tx.work.reschedule(claim, tx.now + pause))


def _seconds_of_look(attempts: int) -> float:
    return HEAD_SECONDS if attempts % FULL_EVERY == 1 else min(SHORT_SECONDS, HEAD_SECONDS)


def _pause_after(took: int, usual: int) -> int:
    return max(usual, min(SLOWER * took, LONGEST_SLOW_PAUSE))


async def _end(tx: Tx, claim: Claim) -> None:
    """Ends the checks of a branch and deletes its recorded commit: if auto_deploy is turned on again, it
    starts from the last deployed commit."""
    await tx.branch_heads.forget(service_of_work(claim.id))
    await tx.work.done(claim)


async def _deploy_if_new(ctx: Context, claim: Claim, service: Row, source: GitSource, head: str) -> str:
    """Deploys a commit that is new and changes a watched path. Returns a line for the log, or nothing."""
    seen = await _find_seen(ctx.store.reads, service)
    if head == seen:
        return ""
    filters = await _read_filters(ctx.store.reads, service)
    is_watched = not seen or await _changes_watched(ctx, source, filters, seen, head)

    async def change(tx: Tx) -> str:
        await fence(tx, claim)
        current = await tx.resources.get(service.id)
        if current is None or current.tag != service.tag or await _read_filters(tx, service) != filters:
            return ""  # its settings changed meanwhile
        step = await _choose_step(tx, service.id, seen, head) if seen and is_watched else CommitStep.NOTE
        if step is CommitStep.WAIT:
            return ""
        await tx.branch_heads.note(service.id, head)
        if step is CommitStep.DEPLOY:
            kind = ctx.kinds[service.family]
            version = kind.new_commit(service, head)
            await accept(tx, service, kind.deploys_by, _call(ctx, service), version)
            return "Commit {commit} is new on {branch}: it is deployed"
        return (
            "" if is_watched else f"Commit {{commit}} of {{branch}} is not deployed: {_why_skipped(filters)}"
        )

    await ctx.point("about to deploy a new commit")
    return await ctx.store.write(change)


async def _find_seen(source: Reads, service: Row) -> str:
    """Returns the commit that was seen last; before the first check, the one that was deployed last."""
    seen = await source.branch_heads.seen(service.id)
    if seen is not None:
        return seen
    past = await source.deployments.latest(service.id, _LATEST)
    commits = (particulars(deployment).commit_id for deployment in past)
    return next(filter(None, commits), NEXT_COMMIT)


async def _choose_step(tx: Tx, service: str, seen: str, head: str) -> CommitStep:
    past = [
        (deployment, details)
        for deployment in await tx.deployments.latest(service, _LATEST)
        if not (details := particulars(deployment)).command
    ]
    if not past or past[0][0].action not in RELEASES | BUILDS:
        return CommitStep.NOTE
    if any(_is_of(details, head) for details in _since_seen([details for _, details in past], seen)):
        return CommitStep.NOTE
    if any(row.status in OPEN and row.action in BUILDS and not details.commit_id for row, details in past):
        return CommitStep.WAIT
    return CommitStep.DEPLOY


def _since_seen(past: Sequence[Particulars], seen: str) -> Sequence[Particulars]:
    """Returns the deployments after the one that followed the branch to the commit seen last: a branch that
    is set back to an earlier commit leads to a deployment of it. If there is no such deployment, the first
    deployment of the commit counts; without one, all do."""
    of_seen = [place for place, details in enumerate(past) if _is_of(details, seen)]
    followed = (place for place in of_seen if past[place].origin == _FROM_GIT.origin)
    return past[: next(followed, of_seen[-1] if of_seen else len(past))]


def _is_of(details: Particulars, commit: str) -> bool:
    return bool(details.commit_id and commit.startswith(details.commit_id))


class PathFilters(NamedTuple):
    """Patterns that a changed path must pass. Without any, all paths pass."""

    watched: Sequence[str]
    """The patterns of `watch_paths`."""
    allowed: Sequence[str]
    """The patterns of the deployment restrictions."""


async def _read_filters(source: Reads, service: Row) -> PathFilters:
    restrictions = await restrictions_of(source, service.id)
    return PathFilters(service.read(WatchSettings).watch_paths, patterns_of(restrictions))


def patterns_of(restrictions: Sequence[DeploymentRestriction]) -> list[str]:
    """Returns the patterns of restrictions. The last one that matches a path decides, so exclusions come
    last."""
    paths = [(restriction.mode, restriction.value.strip("/")) for restriction in restrictions]
    return [
        *(path for mode, path in paths if mode == "MATCH"),
        *(f"!{path}" for mode, path in paths if mode == "EXCLUDE"),
    ]


def _why_skipped(filters: PathFilters) -> str:
    if filters.watched and filters.allowed:
        return "watch_paths and deployment restrictions leave out all paths that it changes"
    if filters.watched:
        return "it changes no watch_paths"
    return "deployment restrictions leave out all paths that it changes"


async def _changes_watched(
    ctx: Context, source: GitSource, filters: PathFilters, seen: str, head: str
) -> bool:
    """Returns whether a watched file differs. Commits that cannot be compared count as different, as after
    a rewrite of the branch."""
    if not any(filters):
        return True
    try:
        async with asyncio.timeout(COMPARISON_SECONDS):
            changed = await ctx.git.changed_paths(source, seen, head)
    except (GitError, TimeoutError):
        return True
    return await in_thread(is_any_watched, changed, *filters)


def is_any_watched(paths: Sequence[str], *filters: Sequence[str]) -> bool:
    """Returns whether one of the paths passes all filters: in each, the last pattern that matches it
    decides. If all patterns of a filter exclude, everything else passes it. True as well if there is too
    much to compare."""
    tests = [_filter_of(patterns) for patterns in filters]
    length = sum(path.count("/") + 1 for path in paths)
    if length * sum(passes.length for passes in tests) > MOST_STEPS:
        return True
    return any(all(passes(PurePosixPath(path)) for passes in tests) for path in paths)


def _filter_of(patterns: Sequence[str]) -> dockerignore.Ignore:
    excludes_only = all(pattern.startswith("!") for pattern in patterns)
    return dockerignore.read("\n".join(("**", *patterns) if excludes_only else patterns))


def _log(ctx: Context, service: Row, message: str) -> None:
    ctx.logs.write(service.id, ctx.clock.now(), message)


def _call(ctx: Context, service: Row) -> Call:
    """Returns a call to the deploy action of the service, as Windlass itself makes it."""
    operation, *_ = ctx.registry.handled_by(f"{service.family}.deploy")
    return Call(operation=operation, actor=SYSTEM, ids=(service.id,), dialect=_WORDS, origin=_FROM_GIT)
