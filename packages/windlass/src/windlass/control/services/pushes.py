"""Pushes to applications: `git push` stores commits and deploys the branch of the application.

The deployed branch moves once its commit is built; the deployment does that by itself, so a client that hangs
up cancels nothing. git checks each ref against the commit from which the client pushed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import ExitStack, aclosing
from functools import partial
from typing import Final

import msgspec
from msgspec import Struct

from windlass.base.errors import Conflict, Failure, Unavailable
from windlass.base.segments import Gone
from windlass.control.context.call import Call
from windlass.control.context.context import Context
from windlass.control.context.git_reader import GitPlaces, ReadCaller
from windlass.control.kinds.application import takes_pushes
from windlass.control.records.deployments import name_of, particulars, version_of
from windlass.control.records.disk_shares import refuse_above_share
from windlass.control.records.kept_builds import kept_commits
from windlass.control.records.links import links_of
from windlass.control.records.reachability import check_here
from windlass.control.reporting.logs import has_ended, until_over
from windlass.control.request.changing import apply_changes
from windlass.control.request.paths import target
from windlass.control.services.actions import deploy
from windlass.control.workloads.repositories import check_holder, holder_fact, provide_repository
from windlass.core.declare.shapes import PUSHED_REPOSITORY, Branch
from windlass.core.declare.traits import DeployRequest
from windlass.core.deploy.progress import PushedRef
from windlass.core.deploy.states import Progress
from windlass.families.application import GIT_SOURCE, Application
from windlass.sources.git import GitError
from windlass.sources.git.messages import printable
from windlass.sources.push import PackFile, PushHead, PushRefused, RefUpdate
from windlass.sources.push.commands import (
    FLUSH_PACKET,
    KEEP_ALIVE,
    OUTPUT,
    PROGRESS,
    ZERO_COMMIT,
    on_band,
    report_of,
)
from windlass.sources.push.repositories import new_kept_ref
from windlass.store import DeploymentRow, Row, Tx

_HEADS, _TAGS = "refs/heads/", "refs/tags/"
_SHORT_COMMIT_LENGTH: Final = 12
_KEEPALIVE_INTERVAL: Final = 5.0
"""Seconds without output after which an empty packet is sent, for proxies that end silent connections."""
_MAX_QUEUED_LINES: Final = 1000
_MAX_REFS: Final = 10_000
_MAX_REF_NAMES_BYTES: Final = 2 * 1024**2
"""The number of branches and tags of one repository, and of the bytes in their names. Git lists all of them
to each client."""
_PLACE_TIMEOUT: Final = 600.0
"""Seconds for which a push that has arrived waits for a place. Only a few of an application may wait."""
_INTERNAL_ERROR: Final = "something went wrong here: the log of the server has the reason"


def caller_of(row: Row, call: Call) -> ReadCaller:
    """Returns the caller for whom git runs."""
    return ReadCaller(row.org, call.actor.subject)


async def repository_to_push(ctx: Context, call: Call) -> Row:
    """Returns the application of a push. Raises a failure if it takes none, or if this server takes none for
    it."""
    row = await target(ctx.store.reads, call)
    _require_own_repository(row.read(Application))
    await check_here(ctx, row.id)
    await refuse_above_share(ctx.store.reads, row.org, ctx.ownership.place)
    try:
        await check_holder(ctx, ctx.store.reads, row.id)
    except GitError as error:
        raise Unavailable(str(error)) from error
    return row


def _require_own_repository(spec: Application) -> None:
    """Refuses applications that are built from another repository. One that is built from uploads may be
    pushed to: the first push makes this repository its source."""
    if spec.source == GIT_SOURCE and not takes_pushes(spec) and spec.git_repository:
        raise Conflict(
            f"Push to {spec.git_repository.url}, from which this application is built. To push here, set its "
            "git_repository.url to windlass://push, or run `windlass init --push` in its folder"
        )


async def repository_to_fetch(ctx: Context, call: Call) -> Row:
    """Returns the application whose repository is fetched. Raises a failure if there is none here."""
    row = await target(ctx.store.reads, call)
    _require_own_repository(row.read(Application))
    await check_here(ctx, row.id)
    try:
        await provide_repository(
            ctx, ctx.store.reads, row.id
        )  # copies the repository of a copied application
    except GitError as error:
        raise Unavailable(str(error)) from error
    await ctx.pushed.prepare(row.id, branch_of(ctx, row))
    return row


def branch_of(ctx: Context, row: Row) -> str:
    """Returns the branch that is deployed."""
    repository = row.read(Application).git_repository
    return (repository.branch if repository else "") or ctx.pushed.default_branch(row.id)


async def refs_to_push(ctx: Context, row: Row) -> Mapping[str, str]:
    """Returns the refs that a client compares with its own."""
    await provide_repository(ctx, ctx.store.reads, row.id)
    return await ctx.pushed.refs(row.id)


class IncomingPush(Struct):
    """A push whose refs were judged, before its objects arrive."""

    row: Row
    call: Call
    head: PushHead
    branch: str
    """The branch that is deployed."""
    refused: Mapping[str, str]
    """The reasons of refused refs, by ref."""
    for_git: tuple[RefUpdate, ...]
    """The updates for git. That of the deployed branch only keeps its commit."""
    deployed: RefUpdate | None = None
    kept: str = ""
    """The ref under which git keeps the commit of the deployed branch."""
    pack: PackFile | None = None
    """The objects, once they have arrived; None for a push of which git gets nothing."""

    @property
    def has_bands(self) -> bool:
        return "side-band-64k" in self.head.capabilities


async def judge_push(ctx: Context, call: Call, row: Row, head: PushHead) -> IncomingPush:
    """Decides about each ref of a push, and prepares the repository for its objects."""
    known = await refs_to_push(ctx, row)
    branch = _branch_after(ctx, row, head, known)
    await ctx.pushed.prepare(row.id, branch)
    if await ctx.store.reads.facts.get(holder_fact(row.id)) != ctx.server.encode():
        await ctx.store.write(lambda tx: tx.facts.set(holder_fact(row.id), ctx.server.encode()))
    refused: dict[str, str] = {}
    for_git: list[RefUpdate] = []
    deployed, kept = None, ""
    is_full = _would_have_too_many_refs(head, known)
    for update in head.updates:
        is_deployed = update.ref == _HEADS + branch
        if reason := _why_refused(update, head, known, is_deployed=is_deployed):
            refused[update.ref] = reason
        elif is_full and update.ref not in known:
            refused[update.ref] = (
                f"delete branches or tags first: a repository has at most {_MAX_REFS} of them, with "
                f"{_MAX_REF_NAMES_BYTES // 1024**2} MiB of names"
            )
        elif is_deployed:
            deployed, kept = update, new_kept_ref()
            for_git.append(RefUpdate(ZERO_COMMIT, update.new, kept))
        else:
            for_git.append(update)
    return IncomingPush(row, call, head, branch, refused, tuple(for_git), deployed, kept)


def _branch_after(ctx: Context, row: Row, head: PushHead, known: Mapping[str, str]) -> str:
    """Returns the deployed branch. If the application names none, it is the first one that is pushed."""
    repository = row.read(Application).git_repository
    if repository and repository.branch:
        return repository.branch
    usual = ctx.pushed.default_branch(row.id)
    heads = [update.ref.removeprefix(_HEADS) for update in head.updates if update.ref.startswith(_HEADS)]
    pushed = [name for name in heads if _may_be_deployed(name)]
    if any(ref.startswith(_HEADS) for ref in known) or usual in pushed or not pushed:
        return usual
    return pushed[0]


def _may_be_deployed(name: str) -> bool:
    """Returns whether a name is one that an application may name as its branch."""
    try:
        msgspec.convert(name, Branch)
    except msgspec.ValidationError:
        return False
    return True


def _would_have_too_many_refs(head: PushHead, known: Mapping[str, str]) -> bool:
    """Returns whether a repository would have too many refs after a push."""
    refs = set(known)
    for update in head.updates:
        if update.is_deletion:
            refs.discard(update.ref)
        else:
            refs.add(update.ref)
    return len(refs) > _MAX_REFS or sum(len(ref.encode()) for ref in refs) > _MAX_REF_NAMES_BYTES


def _why_refused(update: RefUpdate, head: PushHead, known: Mapping[str, str], *, is_deployed: bool) -> str:
    if head.is_shallow:
        return "this clone has only a part of the history: run `git fetch --unshallow` first"
    if not update.ref.startswith((_HEADS, _TAGS)):
        return "only branches and tags are stored"
    if is_deployed and update.is_deletion:
        return "this branch is deployed: choose another branch for the application, or delete the application"
    if update.old != known.get(update.ref, ZERO_COMMIT):
        return "fetch first: another push has moved it"
    return ""


class PushRun:
    """A push after its objects have arrived: stores them, deploys, and follows the deployment. Goes on
    without the client."""

    def __init__(
        self,
        ctx: Context,
        push: IncomingPush,
        stack: ExitStack,
        places: GitPlaces,
        allowed: Callable[[], Awaitable[bool]],
    ) -> None:
        """`stack`: what the push occupies until its objects are stored. `allowed` tells whether its caller
        still has the rights of the beginning: the objects may have taken long to arrive."""
        self._ctx, self._push, self._held, self._places = ctx, push, stack, places
        self._allowed = allowed
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._task = asyncio.create_task(self._run())

    @property
    def task(self) -> asyncio.Task[None]:
        return self._task

    async def answer(self) -> AsyncGenerator[bytes, None]:
        """Yields the answer for the client."""
        while True:
            try:
                async with asyncio.timeout(_KEEPALIVE_INTERVAL):
                    piece = await self._pieces.get()
            except TimeoutError:
                if self._push.has_bands:
                    yield KEEP_ALIVE
                continue
            if piece is None:
                return
            yield piece

    async def _run(self) -> None:
        push = self._push
        outcomes = dict(push.refused)
        unpacked = "ok"
        try:
            with self._held:
                await self._places.enter(caller_of(push.row, push.call), self._held, _PLACE_TIMEOUT)
                if not await self._allowed():
                    raise PushRefused("this token may not do that any more: it has ended, or its rights have")
                stored = await self._ctx.pushed.receive(push.row.id, push.pack) if push.pack else {}
            for update in push.for_git:
                if update.ref != push.kept:
                    outcomes[update.ref] = stored.get(update.ref, "git gave no reason")
            self._tell_stored(outcomes)
            if push.deployed:
                outcomes[push.deployed.ref] = stored.get(push.kept) or await self._deploy(push.deployed)
        except PushRefused as refused:
            unpacked = printable(str(refused))
            outcomes = {update.ref: unpacked for update in push.head.updates} | outcomes
        except Failure as failure:
            outcomes = {update.ref: printable(failure.message) for update in push.head.updates} | outcomes
        except TimeoutError:
            outcomes = {update.ref: "git took too long" for update in push.head.updates} | outcomes
        finally:
            self._finish(outcomes, unpacked)

    def _finish(self, outcomes: Mapping[str, str], unpacked: str) -> None:
        ordered = {
            update.ref: outcomes.get(update.ref, _INTERNAL_ERROR) for update in self._push.head.updates
        }
        report = report_of(ordered, unpacked=unpacked)
        if "report-status" not in self._push.head.capabilities:
            report = b""
        if self._push.has_bands:
            report = (on_band(OUTPUT, report) if report else b"") + FLUSH_PACKET
        self._pieces.put_nowait(report)
        self._pieces.put_nowait(None)

    def _say(self, line: str) -> None:
        if self._push.has_bands:
            self._pieces.put_nowait(on_band(PROGRESS, f"{line}\n".encode()))

    def _tell_stored(self, outcomes: Mapping[str, str]) -> None:
        """Says what happens to refs that are not deployed."""
        for update in self._push.for_git:
            if update.ref == self._push.kept or outcomes.get(update.ref):
                continue
            kind = "branch" if update.ref.startswith(_HEADS) else "tag"
            name = update.ref.removeprefix(_HEADS).removeprefix(_TAGS)
            if update.is_deletion:
                self._say(f"The {kind} {name} is deleted.")
            else:
                self._say(f"The {kind} {name} is stored; only {self._push.branch} is deployed.")

    async def _deploy(self, update: RefUpdate) -> str:
        """Deploys the pushed commit, and follows the deployment to its end. Returns why the branch was not
        moved; empty if it was."""
        ctx, push = self._ctx, self._push
        if not await ctx.pushed.is_commit(push.row.id, update.new):
            return "a branch must be at a commit"
        if update.old != ZERO_COMMIT and not await ctx.pushed.is_behind(push.row.id, update.old, update.new):
            self._say(
                f"This push is forced: {push.branch} was at {update.old[:_SHORT_COMMIT_LENGTH]}, "
                "which is no part of its history now."
            )
        subject = await ctx.pushed.subject(push.row.id, update.new)
        self._say(f"Received {update.new[:_SHORT_COMMIT_LENGTH]}: {subject}")
        deployment = await self._accept(update)
        self._say(
            f"Deployment {deployment.number} of {name_of(push.row)} is queued. Ctrl-C does not stop it."
        )
        await self._follow(deployment)
        return await self._tell_end(update, deployment)

    async def _accept(self, update: RefUpdate) -> DeploymentRow:
        ctx, push = self._ctx, self._push
        body = DeployRequest(git_commit_id=update.new)

        async def change(tx: Tx) -> DeploymentRow:
            row = await target(tx, push.call)
            spec = row.read(Application)
            _require_own_repository(spec)
            if not takes_pushes(spec):
                await apply_changes(ctx, tx, push.call, row, _own_repository(spec, push.branch))
                row = await tx.resources.get(row.id) or row
            deployment, _ = await deploy(ctx, tx, push.call, row, body, PushedRef(update.ref, update.old))
            return deployment

        if shortage := ctx.store.shortage(ends_something=False):
            raise Unavailable(shortage)
        return await ctx.store.write(change)

    async def _follow(self, deployment: DeploymentRow) -> None:
        """Sends the lines of a deployment until it ends."""
        ctx, service = self._ctx, self._push.row.id
        lines = ctx.logs.follow(service, _MAX_QUEUED_LINES, deployment=deployment.id)
        over = partial(has_ended, ctx, deployment.id)
        async with aclosing(until_over(ctx, service, over, lines)) as following:
            async for piece in following:
                if isinstance(piece, Gone):
                    self._say("Some lines are not kept any more.")
                    continue
                for line in piece:
                    self._say(msgspec.json.decode(line, type=LineOfLog).message)

    async def _tell_end(self, update: RefUpdate, deployment: DeploymentRow) -> str:
        """Says how a deployment ended. Returns why the branch was not moved; empty if it was."""
        ctx, push = self._ctx, self._push
        row = await ctx.store.reads.deployments.get(deployment.id)
        is_moved = (await ctx.pushed.refs(push.row.id)).get(update.ref) == update.new
        if row is None:
            return "the application was deleted meanwhile"
        message = printable(particulars(row).message.partition("\n")[0])
        if row.status == Progress.SUCCEEDED:
            self._say(f"{name_of(push.row)} runs v{row.number}.")
            for link in await links_of(ctx, ctx.store.reads, push.row):
                self._say(f"  {link['url']}")
        elif is_moved:
            await self._tell_failed_release(row, message)
        if is_moved:
            return ""
        match row.status:
            case Progress.SUPERSEDED:
                return message or "a newer deployment took its place"
            case Progress.CANCELED:
                return message or "the deployment was cancelled"
        return f"not deployed: {message}" if message else "not deployed"

    async def _tell_failed_release(self, row: DeploymentRow, message: str) -> None:
        ctx, push = self._ctx, self._push
        status = await ctx.store.reads.statuses.get(push.row.id)
        serving = await version_of(ctx.store.reads, status.serving if status else None)
        keeps = f"{serving} keeps serving." if serving else "Nothing serves yet."
        self._say(
            f"{push.branch} is at this commit, which was built, but v{row.number} did not start to serve. "
            f"{keeps}"
        )
        self._say(f"  {message or row.status}")


def _own_repository(spec: Application, branch: str) -> Mapping[str, object]:
    """Returns the settings of an application that was built from uploads, and is now built from pushes."""
    repository = {"url": PUSHED_REPOSITORY, "branch": branch, "root_path": spec.root_path or "/"}
    return {"source": GIT_SOURCE, "root_path": None, "git_repository": repository}


class LineOfLog(Struct):
    message: str = ""


async def sweep_pushed(ctx: Context) -> None:
    """Removes the repositories of deleted applications, and joins the packs of others."""
    for application in ctx.pushed.applications():
        if await ctx.store.reads.deletions.is_deleted(application):
            await ctx.pushed.discard(application)
        else:
            await ctx.pushed.tidy(application, await kept_commits(ctx, application))
