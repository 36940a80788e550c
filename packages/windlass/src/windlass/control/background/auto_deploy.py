"""Deploys new commits of services with automatic deployments: the newest commit of their branch, if it is
new.

Each such service has a work item that is rescheduled after each check. The last seen commit is stored in the
transaction that requests the deployment, so that no server deploys a commit twice or misses one.
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
from windlass.control.records.git_pushes import LookedAt, record_look
from windlass.control.services.deployment_restrictions import restrictions_of
from windlass.control.workloads.repositories import source_of
from windlass.core.access import SYSTEM
from windlass.core.deploy.progress import Particulars
from windlass.core.deploy.states import ACTIONS_WITH_BUILD, ACTIONS_WITH_RELEASE, OPEN_STATES_OF_DEPLOYMENTS
from windlass.core.words.git_pushes import PushResult
from windlass.families.deployment_restriction import DeploymentRestriction
from windlass.sources.git import GitError, GitSource
from windlass.store import Claim, Reads, Row, Tx
from windlass.store.tables.git_pushes import GitPushRow

HEAD_TIMEOUT, COMPARISON_TIMEOUT = 20.0, 60.0
"""Time limits in seconds for responses of a git server. Without a limit, a few slow servers could occupy all
slots of this work."""
SHORT_TIMEOUT, FULL_TIMEOUT_EVERY = 4.0, 5
"""The time limit after failed checks, and how often a check has the full limit all the same, because a slow
server may need it."""
FAILURES_BETWEEN_LINES: Final = 144
"""The number of failed checks of a branch between two lines in the log of its service: about a day."""
MAX_PAUSE_FACTOR: Final = 10
"""The longest pause while a branch cannot be read, as a multiple of the usual pause."""
MIN_PAUSE_FACTOR: Final = 30
"""The shortest pause after a check, as a multiple of its duration, so that slow servers occupy few slots."""
MAX_SLOW_PAUSE: Final = 10 * MINUTE
MAX_COMPARISONS: Final = 500_000
"""The limit of comparisons: path components times pattern components. A larger commit is treated as a change
of watched files."""
_MAX_SEARCHED_DEPLOYMENTS: Final = 50
"""The number of recent deployments that are searched for a commit."""
_WORDS: Final = Dialect(name="plain", state=str, event=str)
_FROM_GIT: Final = Origin("GIT")


class WatchSettings(Struct):
    """The settings of a service for automatic deployments of commits."""

    watch_paths: list[str] = []


class CommitStep(Enum):
    DEPLOY = auto()
    NOTE = auto()
    """Store the commit as seen without deploying it: it was deployed before."""
    NOT_RUNNING = auto()
    """The same, because the service must not run."""
    WAIT = auto()
    """Check again later: a deployment in progress may be of this commit, but has not fetched it yet."""


_RESULTS: Final = {
    CommitStep.DEPLOY: PushResult.DEPLOYED,
    CommitStep.NOTE: PushResult.ALREADY_KNOWN,
    CommitStep.NOT_RUNNING: PushResult.NOT_RUNNING,
}


async def deploy_new_commit(ctx: Context, claim: Claim) -> None:
    """Checks the branch of a service, deploys its newest commit if it is new, and reschedules the check."""
    service = await ctx.store.reads.resources.get(service_of_work(claim.id))
    if service is None or not ctx.kinds[service.family].deploys_new_commits(service):
        await ctx.store.write(lambda tx: _end(tx, claim))
        return
    pause = ctx.settings.auto_deploy_seconds * SECOND
    limit, began = _look_timeout(claim.attempts), ctx.clock.now()
    pending = await ctx.store.reads.git_pushes.pending(service.id)
    try:
        source = await source_of(ctx, ctx.store.reads, service, None)
        async with asyncio.timeout(limit):
            branch, head = await ctx.git.head(source)
        look = BranchLook(claim, service, branch, head, pending)
        message = await _deploy_if_new(ctx, look, source)
    except (GitError, Conflict, TimeoutError) as failure:
        reason = str(failure) or f"{source.url} did not answer within {limit:g} seconds"
        if claim.attempts % FAILURES_BETWEEN_LINES == 1:
            _log(ctx, service, f"New commits are not deployed now: {reason}")
        later = pause * min(2**claim.attempts, MAX_PAUSE_FACTOR)
        note = f"it could not be read, and is tried again: {reason}"

        async def put_off(tx: Tx) -> None:
            await tx.git_pushes.settle(pending, PushResult.RECEIVED, note)
            await tx.work.reschedule(claim, tx.now + later, claim.attempts)

        await ctx.store.write(put_off)
        return
    if message:
        _log(ctx, service, message.format(commit=head[:12], branch=branch))
    pause = _pause_after(ctx.clock.now() - began, pause)
    await ctx.store.write(lambda tx: tx.work.reschedule(claim, tx.now + pause))


def _look_timeout(attempts: int) -> float:
    return HEAD_TIMEOUT if attempts % FULL_TIMEOUT_EVERY == 1 else min(SHORT_TIMEOUT, HEAD_TIMEOUT)


def _pause_after(duration: int, usual_pause: int) -> int:
    return max(usual_pause, min(MIN_PAUSE_FACTOR * duration, MAX_SLOW_PAUSE))


async def _end(tx: Tx, claim: Claim) -> None:
    """Removes the work item and the last seen commit. If automatic deployments are enabled again, the last
    deployed commit is the last seen one."""
    service = service_of_work(claim.id)
    await tx.branch_heads.delete_of(service)
    await tx.git_pushes.settle(await tx.git_pushes.pending(service), PushResult.AUTO_DEPLOY_OFF)
    await tx.work.done(claim)


class BranchLook(NamedTuple):
    """The result of a check of the branch of a service."""

    claim: Claim
    service: Row
    branch: str
    head: str
    pending: Sequence[GitPushRow]
    """The pushes that a webhook received before the check."""

    async def record(self, tx: Tx, result: PushResult) -> None:
        await record_look(tx, self.service, self.pending, LookedAt(self.branch, self.head, result))


async def _deploy_if_new(ctx: Context, branch_check: BranchLook, source: GitSource) -> str:
    """Deploys a commit that is new and changes a watched path. Returns a log line; empty if there is nothing
    to log."""
    service, head = branch_check.service, branch_check.head
    seen = await _find_seen(ctx.store.reads, service)
    if head == seen:
        if branch_check.pending:
            await ctx.store.write(lambda tx: branch_check.record(tx, PushResult.ALREADY_KNOWN))
        return ""
    filters = await _read_filters(ctx.store.reads, service)
    is_watched = not seen or await _changes_watched(ctx, source, filters, seen, head)

    async def change(tx: Tx) -> str:
        await fence(tx, branch_check.claim)
        current = await tx.resources.get(service.id)
        if current is None or current.tag != service.tag or await _read_filters(tx, service) != filters:
            return ""  # the settings changed meanwhile
        step = CommitStep.NOTE if seen else CommitStep.NOT_RUNNING  # it was never deployed
        if seen and is_watched:
            step = await _choose_step(tx, service.id, seen, head)
        if step is CommitStep.WAIT:
            return ""
        await tx.branch_heads.record(service.id, head)
        await branch_check.record(tx, PushResult.NO_WATCHED_PATH if not is_watched else _RESULTS[step])
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


async def _find_seen(reads: Reads, service: Row) -> str:
    """Returns the last seen commit; before the first check, the last deployed commit."""
    seen = await reads.branch_heads.seen(service.id)
    if seen is not None:
        return seen
    past = await reads.deployments.latest(service.id, _MAX_SEARCHED_DEPLOYMENTS)
    commits = (particulars(deployment).commit_id for deployment in past)
    return next(filter(None, commits), NEXT_COMMIT)


async def _choose_step(tx: Tx, service: str, seen_commit: str, head: str) -> CommitStep:
    past = [
        (deployment, details)
        for deployment in await tx.deployments.latest(service, _MAX_SEARCHED_DEPLOYMENTS)
        if not (details := particulars(deployment)).command
    ]
    if not past or past[0][0].action not in ACTIONS_WITH_RELEASE | ACTIONS_WITH_BUILD:
        return CommitStep.NOT_RUNNING
    if any(_is_of(details, head) for details in _since_seen([details for _, details in past], seen_commit)):
        return CommitStep.NOTE
    if any(
        row.status in OPEN_STATES_OF_DEPLOYMENTS
        and row.action in ACTIONS_WITH_BUILD
        and not details.commit_id
        for row, details in past
    ):
        return CommitStep.WAIT
    return CommitStep.DEPLOY


def _since_seen(deployments: Sequence[Particulars], seen_commit: str) -> Sequence[Particulars]:
    """Returns the deployments that are newer than the automatic deployment of the commit `seen_commit`.
    Deployments up to it do not matter: after a branch is reset to an earlier commit, that commit is deployed
    again.

    If there was no automatic deployment of `seen_commit`, its first deployment is used. If there was none at
    all, all deployments are returned.
    """
    of_seen = [place for place, details in enumerate(deployments) if _is_of(details, seen_commit)]
    followed = (place for place in of_seen if deployments[place].origin == _FROM_GIT.origin)
    return deployments[: next(followed, of_seen[-1] if of_seen else len(deployments))]


def _is_of(details: Particulars, commit: str) -> bool:
    return bool(details.commit_id and commit.startswith(details.commit_id))


class PathFilters(NamedTuple):
    """Patterns that a changed path must match. Without patterns, all paths match."""

    watched: Sequence[str]
    """The patterns of `watch_paths`."""
    allowed: Sequence[str]
    """The patterns of the deployment restrictions."""


async def _read_filters(reads: Reads, service: Row) -> PathFilters:
    restrictions = await restrictions_of(reads, service.id)
    return PathFilters(service.read(WatchSettings).watch_paths, patterns_of(restrictions))


def patterns_of(restrictions: Sequence[DeploymentRestriction]) -> list[str]:
    """Returns the patterns of restrictions. The last matching pattern decides, so exclusions come last."""
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
    ctx: Context, source: GitSource, filters: PathFilters, seen_commit: str, head: str
) -> bool:
    """Returns whether a watched file changed. Commits that cannot be compared count as changed, as after a
    force push."""
    if not any(filters):
        return True
    try:
        async with asyncio.timeout(COMPARISON_TIMEOUT):
            changed = await ctx.git.changed_paths(source, seen_commit, head)
    except (GitError, TimeoutError):
        return True
    return await in_thread(is_any_watched, changed, *filters)


def is_any_watched(paths: Sequence[str], *filters: Sequence[str]) -> bool:
    """Returns whether one of the paths passes all filters. In each filter, the last pattern that matches the
    path decides. A filter with only exclusions accepts all other paths. Returns True if there is too much to
    compare."""
    tests = [_filter_of(patterns) for patterns in filters]
    length = sum(path.count("/") + 1 for path in paths)
    if length * sum(passes.length for passes in tests) > MAX_COMPARISONS:
        return True
    return any(all(passes(PurePosixPath(path)) for passes in tests) for path in paths)


def _filter_of(patterns: Sequence[str]) -> dockerignore.Ignore:
    excludes_only = all(pattern.startswith("!") for pattern in patterns)
    return dockerignore.read("\n".join(("**", *patterns) if excludes_only else patterns))


def _log(ctx: Context, service: Row, message: str) -> None:
    ctx.logs.write(service.id, ctx.clock.now(), message)


def _call(ctx: Context, service: Row) -> Call:
    """Returns a call to the deploy action of the service, with Windlass itself as the actor."""
    operation, *_ = ctx.registry.handled_by(f"{service.family}.deploy")
    return Call(operation=operation, actor=SYSTEM, ids=(service.id,), dialect=_WORDS, origin=_FROM_GIT)
