"""Bring services to where their records say they should be, one step at a time.

A worker is given an id and nothing else: it reads, plans, does one step, writes, goes round. What it
writes counts only while its claim is held; a worker that was paused past its lease changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from windlass.builders.builder import BuildError
from windlass.builders.git import GitError
from windlass.control.deploying import release
from windlass.control.deploying.release import ReleaseFailed
from windlass.control.deploying.routes import all_endpoints, refresh, reserve
from windlass.control.request.context import Context
from windlass.control.request.deleting import deleted, give_up_above
from windlass.control.request.deployments import (
    RECONCILE,
    announce,
    begin,
    cancel_word,
    finish,
    move,
    particulars,
    status_of,
)
from windlass.control.request.recording import Origin
from windlass.control.request.resources import DISCARD, Asker
from windlass.control.variables.inputs import inputs_of
from windlass.control.workloads.builds import builds_of
from windlass.control.workloads.kind import BuiltArtifact, Making
from windlass.control.workloads.names import reserve_declared, reserve_wanted
from windlass.control.workloads.sealed_workload import decrypt_workload, encrypt_workload, wanted_of
from windlass.core.declare.document import Document
from windlass.core.deploy.plan import OpenDeployment, Step, plan
from windlass.core.deploy.progress import Particulars
from windlass.core.deploy.states import WORDS, Do, Progress, State
from windlass.core.deploy.workload import Instance, Phase, Workload
from windlass.core.words.events import Event
from windlass.core.words.variables import Inputs, Unusable
from windlass.engines.engine import EngineAway, EngineError
from windlass.routers.router import RouteError
from windlass.store.store import Claim, DeploymentRow, Reads, Row, StatusRow, Tx, route_word

LOOK = 5.0
"""Seconds after which somebody who waits looks for himself whether he was called."""
TRY_AGAIN = 30_000
"""Milliseconds after which what cannot run is tried again."""


class LostClaim(Exception):
    """Somebody else does this work now."""


class Task(Struct, frozen=True):
    """What is to be done, as it was read in one moment."""

    step: Step
    claim: Claim
    service: Row
    status: StatusRow
    deployment: DeploymentRow | None = None

    @property
    def doing(self) -> DeploymentRow:
        assert self.deployment is not None
        return self.deployment


async def reconcile(ctx: Context, claim: Claim) -> None:
    """Goes round until there is nothing left to do for this service."""
    while task := await _next(ctx, claim):
        await _cancellable(ctx, task, DEEDS[task.step])
        if task.step in {Step.KEEP, Step.REST}:
            return


async def _next(ctx: Context, claim: Claim) -> Task | None:
    async def change(tx: Tx) -> Task | None:
        service, status = await tx.get(claim.id), await tx.status(claim.id)
        if service is None or status is None:
            # Deleted meanwhile; who was late may have begun something after all was taken away.
            if await tx.is_deleted(claim.id):
                await tx.ask(DISCARD, f"{DISCARD}:{claim.id}")
            await tx.done(claim)
            return None
        await _fence(tx, claim)
        waiting = await tx.open_deployments(claim.id)
        head = waiting[0] if waiting else None
        step = _plan(head, status)
        if step is Step.BEGIN:
            assert head is not None
            if await _must_wait(ctx, tx, service, head):
                await tx.again(claim, tx.now + int(LOOK * 1000))
                return None
            head = await begin(tx, service, status, head)
            status = await status_of(tx, service)
            step = _plan(head, status)
        return Task(step, claim, service, status, head)

    task = await ctx.store.write(change)
    await ctx.point(f"{task.step} planned" if task else "nothing planned")
    return task


def _plan(head: DeploymentRow | None, status: StatusRow) -> Step:
    if head is None:
        return plan(None, status.serving is not None)
    story = particulars(head)
    return plan(
        OpenDeployment(head.action, head.status, story.cancelled, _switched(head, status)),
        status.serving is not None,
    )


def _switched(deployment: DeploymentRow, status: StatusRow) -> bool:
    """Whether it is too late to cancel: it serves, or what it was to end serves no more."""
    if deployment.action in {Do.STOP, Do.UNINSTALL, Do.DELETE}:
        return deployment.status != Progress.QUEUED and status.serving is None
    return status.serving == deployment.id


async def _must_wait(ctx: Context, tx: Tx, service: Row, head: DeploymentRow) -> bool:
    """An application waits for the databases of its environment that were to be deployed before it."""
    if head.action != Do.DEPLOY:
        return False
    for family in sorted(ctx.kinds[service.family].waits_for):
        for neighbour in await tx.of_parent(service.parent, family):
            ahead = await tx.open_deployments(neighbour.id)
            if any(one.action == Do.DEPLOY and one.created <= head.created for one in ahead):
                return True
    return False


async def _cancellable(ctx: Context, task: Task, deed: Deed) -> None:
    """Does it, unless somebody asks meanwhile to cancel it: then it is for the next round."""
    doing = asyncio.ensure_future(deed(ctx, task))
    if task.deployment is None or task.step is Step.ABANDON:
        return await _whole(doing)
    asked = asyncio.ensure_future(_asked_to_cancel(ctx, task.deployment.id))
    try:
        await asyncio.wait([doing, asked], return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            doing.cancel()
            with suppress(asyncio.CancelledError):
                await doing
            return None
        await doing
    finally:
        for one in (doing, asked):
            one.cancel()
        await asyncio.gather(doing, asked, return_exceptions=True)


async def _whole(doing: asyncio.Future[None]) -> None:
    try:
        await doing
    finally:
        doing.cancel()
        await asyncio.gather(doing, return_exceptions=True)


async def _asked_to_cancel(ctx: Context, deployment: str) -> None:
    """Returns when somebody asked. A call that was not heard is found by looking."""
    called = ctx.calls.expect(cancel_word(deployment))
    try:
        while True:
            row = await ctx.store.reads.deployment(deployment)
            if row is None:
                return
            status = await ctx.store.reads.status(row.service)
            if status is None or (particulars(row).cancelled and not _switched(row, status)):
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK):
                    await called.wait()
            called.clear()
    finally:
        ctx.calls.forget(cancel_word(deployment), called)


# Deeds


async def _build(ctx: Context, task: Task) -> None:
    """Builds it, and says in every detail what will run."""
    service, deployment = task.service, task.doing
    say = ctx.logs.build(service.id, deployment.id)
    try:
        document, inputs = await _settings(ctx, service, particulars(deployment))
        ctx.logs.masks.add(deployment.id, inputs.hidden)
        for warning in inputs.warnings:
            say(warning)
        making = Making(service=service, document=document, deployment=deployment, inputs=inputs, say=say)
        built = await _made(ctx, making)
        wanted = await wanted_of(ctx, service, document, deployment, built.made.artifact, inputs)
        await ctx.point("built")
    except (BuildError, GitError, EngineError, Unusable) as error:
        say(f"Failed: {error}")
        await _failed(ctx, task, State.BUILD_ERROR, str(error))
        return
    except TimeoutError:
        error_text = f"The build took longer than {ctx.settings.build_seconds} seconds (build_seconds)"
        say(f"Failed: {error_text}")
        await _failed(ctx, task, State.BUILD_ERROR, error_text)
        return

    async def change(tx: Tx) -> None:
        current = await _current(tx, task)
        story = particulars(current)
        story.made, story.commit, story.branch = built.made, built.commit, built.branch
        story.image_tag, story.digest = built.image_tag, inputs.digest
        sealed = encrypt_workload(ctx, await reserve_wanted(ctx, tx, wanted))
        await move(tx, current, Progress.DEPLOYING, story, sealed)
        await tx.change_status(
            replace(await status_of(tx, service), state=WORDS[Do(current.action)].under_way)
        )

    await ctx.store.write(change)


async def _settings(ctx: Context, service: Row, story: Particulars) -> tuple[Document, Inputs]:
    """The settings that a deployment runs with, and what goes with them, as they are now."""
    own = msgspec.json.decode(service.body)
    document = ctx.kinds[service.family].settings(own, story)
    if document is not own:
        service = replace(service, body=msgspec.json.encode(document))
    place = await ctx.places.of(service.id)
    return document, await inputs_of(ctx, ctx.store.reads, service, place.engine.neighbour_address)


async def _made(ctx: Context, making: Making) -> BuiltArtifact:
    kind = ctx.kinds[making.service.family]
    if why := kind.hindrance(await ctx.places.of(making.service.id)):
        raise BuildError(why)
    async with asyncio.timeout(ctx.settings.build_seconds):
        return await release.wait_while_away(ctx, ctx.settings.ready_seconds, lambda: kind.make(ctx, making))


async def _release(ctx: Context, task: Task) -> None:
    """New beside old, switch when well, drain, retire."""
    service = task.service
    old = await _wanted_of(ctx, ctx.store.reads, task.status.serving)
    try:
        new = await _freeze(ctx, task)
    except (Unusable, EngineError, BuildError) as error:
        await _failed(ctx, task, WORDS[Do(task.doing.action)].failed, str(error))
        return
    if _switched(task.doing, task.status):
        # Before an interruption. What is wrong with it since, keeping says, which comes next.
        seen = await refresh(ctx, service.id)
    else:
        count = release.count_of(new, task.status.instances or new.instances)
        if not await _brought_up(ctx, task, new, old, count) or not await _switch(ctx, task, new, count):
            return
        await ctx.point("switched")
        seen = await refresh(ctx, service.id)
        await ctx.point("routed")
    await release.retire_others(ctx, new, new.generation, seen=seen)
    await _succeeded(ctx, task)
    await _prune(ctx, service)


async def _prune(ctx: Context, service: Row) -> None:
    """Here and nowhere else: whoever holds the claim is the only one who builds for this service. Where
    nothing was built it is left out: an engine may take as long for it as for half a deployment. What then
    should have gone, because it was away the last time, goes with the next build."""
    await ctx.point("about to prune")
    builds, place = await builds_of(ctx, service.id), await ctx.places.of(service.id)
    if builds.grown:
        with suppress(BuildError):
            await place.builder.prune(service.id, builds.kept)
    await ctx.point("pruned")


async def _brought_up(ctx: Context, task: Task, new: Workload, old: Workload | None, count: int) -> bool:
    """Whether it is up and well. If not, it has failed, and what served before serves."""
    failure = particulars(task.doing).message
    if not failure:
        try:
            await release.bring_up(ctx, new, old, count, lambda: _still_ours(ctx, task))
            return True
        except ReleaseFailed as failed:
            failure = str(failed)
            await _give_up(ctx, task, failure)
    words = await release.take_down(ctx, new, old, count)
    message = f"{failure}\nIts last lines were:\n{words}" if words else failure
    await _failed(ctx, task, WORDS[Do(task.doing.action)].failed, message)
    return False


async def _give_up(ctx: Context, task: Task, failure: str) -> None:
    """Decided before anything is taken away: who was paused past its lease must not take away what another
    has made of it since, and who comes after an interruption goes on with that."""
    failure = ctx.logs.masks.text(task.doing.id, failure)

    async def change(tx: Tx) -> None:
        current = await _current(tx, task)
        story = particulars(current)
        story.message = story.message or failure
        await move(tx, current, Progress(current.status), story)

    await ctx.store.write(change)
    await ctx.point("given up")


async def _freeze(ctx: Context, task: Task) -> Workload:
    """What this deployment runs: worked out once, whatever is changed meanwhile."""
    deployment = await ctx.store.reads.deployment(task.doing.id)
    if deployment is None:
        raise LostClaim(task.claim.id)
    if wanted := decrypt_workload(ctx, deployment):
        return wanted
    story = particulars(deployment)
    if Do(deployment.action) is Do.RESTART:
        running = await _wanted_of(ctx, ctx.store.reads, task.status.serving)
        if running is None:
            raise EngineError("It does not run any more: deploy it instead")
        wanted = replace(running, generation=deployment.number, deployment=deployment.id)
        made, digest = None, task.status.digest
        serving = await ctx.store.reads.deployment(running.deployment)
        earlier = particulars(serving) if serving else story
        made, commit, tag = earlier.made, earlier.commit, earlier.image_tag
    else:
        assert story.made is not None
        made, commit, tag = story.made, story.commit, story.image_tag
        if not await ctx.kinds[task.service.family].is_kept(ctx, task.service, made.artifact):
            raise EngineError("What was built for it is no more: deploy its commit again")
        document, inputs = await _settings(ctx, task.service, story)
        digest = story.digest or inputs.digest
        wanted = await wanted_of(ctx, task.service, document, deployment, made.artifact, inputs)

    async def change(tx: Tx) -> Workload:
        current = await _current(tx, task)
        story = particulars(current)
        story.digest, story.made, story.commit, story.image_tag = digest, made, commit, tag
        named = await reserve_wanted(ctx, tx, wanted)
        await move(tx, current, Progress.DEPLOYING, story, encrypt_workload(ctx, named))
        return named

    named = await ctx.store.write(change)
    await ctx.point("frozen")
    return named


async def _switch(ctx: Context, task: Task, new: Workload, count: int) -> bool:
    """From now on this generation is the one that serves, whatever happens; unless it was just cancelled."""

    async def change(tx: Tx) -> bool:
        current = await _current(tx, task)
        status = await status_of(tx, task.service)
        story = particulars(current)
        if story.cancelled and not _switched(current, status):
            return False
        digest = story.digest
        if count:  # else no instance has made them yet
            await tx.add_volumes(task.service.id, [volume.name for volume in new.volumes])
        await tx.change_status(
            replace(status, serving=current.id, digest=digest, instances=count, deployed_at=tx.now)
        )
        tx.nudge(route_word(task.service.id))
        return True

    return await ctx.store.write(change)


async def _succeeded(ctx: Context, task: Task) -> None:
    async def change(tx: Tx) -> None:
        current = await _current(tx, task)
        service = await _as_deployed(ctx, tx, current)
        await finish(tx, service, current, Progress.SUCCEEDED)
        await _settled(ctx, tx, service, WORDS[Do(current.action)].done, "")

    await ctx.store.write(change)


async def _as_deployed(ctx: Context, tx: Tx, deployment: DeploymentRow) -> Row:
    """Writes into the document of a service what a successful deployment changes in it."""
    service = await tx.get(deployment.service)
    assert service is not None
    document = msgspec.json.decode(service.body)
    after = ctx.kinds[service.family].deployed(document, particulars(deployment))
    if after is document:
        return service
    body = msgspec.json.encode(after)
    await tx.rewrite(service.id, body)
    return replace(service, body=body)


async def _stop(ctx: Context, task: Task) -> None:
    """Nothing of it runs any more; what it stored stays."""
    try:
        await release.wait_while_away(ctx, ctx.settings.ready_seconds, lambda: _end_all(ctx, task))
    except EngineError as error:
        await _failed(ctx, task, State.STOP_ERROR, str(error))
        return
    await ctx.point("stopped")
    await _ended(ctx, task, State.STOPPED)


async def _uninstall(ctx: Context, task: Task) -> None:
    """Nothing of it is left but its settings and its history."""
    place = await ctx.places.of(task.service.id)
    try:
        await release.wait_while_away(ctx, ctx.settings.ready_seconds, lambda: _end_all(ctx, task))
        await ctx.point("about to discard what it stored")
        await _still_ours(ctx, task)
        await release.wait_while_away(
            ctx, ctx.settings.ready_seconds, lambda: place.engine.discard(task.service.id)
        )
    except EngineError as error:
        await _failed(ctx, task, State.DELETE_ERROR, str(error))
        return
    await ctx.point("uninstalled")
    await _ended(ctx, task, State.READY)


async def _delete(ctx: Context, task: Task) -> None:
    """Takes away all that was made for the service, and then the service itself."""
    service, say = task.service, ctx.logs.build(task.service.id, task.doing.id)
    place = await ctx.places.of(service.id)
    try:
        say("Ending what runs")
        await release.wait_while_away(ctx, ctx.settings.ready_seconds, lambda: _end_all(ctx, task))
        await ctx.point("about to erase what it stored")
        await _still_ours(ctx, task)
        say("Erasing what it stored")
        await release.wait_while_away(
            ctx, ctx.settings.ready_seconds, lambda: place.engine.discard(service.id)
        )
        await ctx.point("about to erase what was built")
        await release.wait_while_away(
            ctx, ctx.settings.ready_seconds, lambda: place.builder.discard(service.id)
        )
        await place.servers.discard(service.id)
    except (EngineError, BuildError, OSError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        say(f"Failed: {why}")
        await _failed(ctx, task, State.DELETE_ERROR, why)
        return
    await ctx.point("about to delete")

    async def change(tx: Tx) -> None:
        current = await _current(tx, task)
        story = particulars(current)
        await deleted(ctx, tx, service, Asker(story.actor, Origin(story.origin)))

    await ctx.store.write(change)
    await ctx.point("deleted")


async def _end_all(ctx: Context, task: Task) -> None:
    """Nobody is sent there any more, who is there may finish, and then it ends."""

    async def change(tx: Tx) -> None:
        await _current(tx, task)
        await tx.change_status(replace(await status_of(tx, task.service), serving=None))
        tx.nudge(route_word(task.service.id))

    wanted = await _wanted_of(ctx, ctx.store.reads, task.status.serving)
    await ctx.store.write(change)
    ctx.watch.forget(task.service.id)
    await ctx.point("about to route away")
    await refresh(ctx, task.service.id)
    if wanted:
        await ctx.point("routed away")
        place = await ctx.places.of(task.service.id)
        seen = await place.engine.observe(task.service.id)
        await place.router.drain(all_endpoints(wanted, seen), wanted.grace)
        await ctx.point("drained to stop")
    grace = wanted.grace if wanted else ctx.settings.stop_seconds
    await release.end_up_to(ctx, task.service.id, task.doing.number, grace)


async def _ended(ctx: Context, task: Task, state: State) -> None:
    place = await ctx.places.of(task.service.id)
    await place.router.reserve(task.service.id, [])

    async def change(tx: Tx) -> None:
        current = await _current(tx, task)
        await finish(tx, task.service, current, Progress.SUCCEEDED)
        status = await status_of(tx, task.service)
        gone = state is State.READY
        if gone:
            await tx.forget_volumes(task.service.id)
            status = replace(status, deployed_at=None, digest="", instances=0)
        await tx.change_status(status)
        await _settled(ctx, tx, task.service, state, "")

    await ctx.store.write(change)


async def _abandon(ctx: Context, task: Task) -> None:
    """It was cancelled: what served before goes on serving."""
    deployment = task.doing
    wanted = decrypt_workload(ctx, deployment)
    old = await _wanted_of(ctx, ctx.store.reads, task.status.serving)
    if wanted and deployment.status == Progress.DEPLOYING:
        await release.take_down(ctx, wanted, old, task.status.instances)
    await ctx.point("abandoned")

    async def change(tx: Tx) -> None:
        current = await _current(tx, task)
        message = particulars(current).message
        await finish(tx, task.service, current, Progress.CANCELED, message)
        await _settled(ctx, tx, task.service, State.CANCELED, message)

    await ctx.store.write(change)


async def _keep(ctx: Context, task: Task) -> None:
    """What was deployed runs, as many as wanted, nothing else does, and the state says how it is."""
    wanted = await _wanted_of(ctx, ctx.store.reads, task.status.serving)
    if wanted is None:
        await _rest(ctx, task)
        return
    count = release.count_of(wanted, task.status.instances or wanted.instances)
    try:
        await ctx.point("about to keep")
        await reserve(ctx, wanted)
        for index in range(count):
            await release.start(ctx, wanted, index)
        if count:
            await _note_volumes(ctx, task, wanted)
        await ctx.point("kept")
    except EngineAway:
        raise
    except (EngineError, RouteError) as error:
        await _note(ctx, task, wanted, State.DEPLOYMENT_ERROR, str(error))
        if not await ctx.store.write(lambda tx: tx.again(task.claim, tx.now + TRY_AGAIN)):
            raise LostClaim(task.claim.id) from error
        return
    seen = await refresh(ctx, task.service.id)
    # Nothing waits or is under way: of all that was ever asked for, only this is meant to run.
    await release.retire_others(ctx, wanted, task.status.deployments, seen=seen)
    if surplus := release.surplus(seen, wanted, count):
        await _retire_surplus(ctx, task, wanted, surplus)
    ctx.watch.keep(wanted)
    await _note_health(ctx, task, wanted, [one for one in seen if one not in surplus])
    await _rest(ctx, task)


async def _note_volumes(ctx: Context, task: Task, wanted: Workload) -> None:
    """Of a service that was deployed by a version that did not note them."""
    names = {volume.name for volume in wanted.volumes}
    if not names <= (await ctx.store.reads.volumes(task.service.id) if names else names):

        async def change(tx: Tx) -> None:
            await _fence(tx, task.claim)
            await tx.add_volumes(task.service.id, sorted(names))

        await ctx.store.write(change)


async def _retire_surplus(ctx: Context, task: Task, wanted: Workload, surplus: Sequence[Instance]) -> None:
    place = await ctx.places.of(wanted.service)
    ctx.unwell.update(one.id for one in surplus)
    await refresh(ctx, wanted.service)
    await place.router.drain(all_endpoints(wanted, surplus), wanted.grace)
    await ctx.point("about to remove what is too many")
    await _still_ours(ctx, task)
    indexes = [one.index for one in surplus]
    await place.engine.remove(
        wanted.service, generation=wanted.generation, indexes=indexes, grace=wanted.grace
    )
    await ctx.point("removed what was too many")
    ctx.unwell.difference_update(one.id for one in surplus)


async def _note_health(ctx: Context, task: Task, wanted: Workload, there: Sequence[Instance]) -> None:
    """What breaks later shows in the state, with how often and why; what mended itself does too."""
    seen = [one for one in there if one.generation == wanted.generation]
    broken = [one for one in seen if one.phase is not Phase.RUNNING]
    troubled = broken or [one for one in seen if one.restarts]
    message = ""
    if troubled:
        worst = max(troubled, key=lambda one: one.restarts)
        times = "once" if worst.restarts == 1 else f"{worst.restarts} times"
        message = f"{wanted.name} {worst.reason or 'ended'}; it was started anew {times}"
    was = task.status.state
    recovered = was == State.DEPLOYMENT_ERROR and task.status.deployment == task.status.serving
    state = State.DEPLOYMENT_ERROR if broken else State.DEPLOYED if recovered else State(was)
    if state != was or troubled:
        await _note(ctx, task, wanted, state, message)


async def _note(ctx: Context, task: Task, wanted: Workload, state: State, message: str) -> None:
    """The state and the message, if they are news and nothing else is under way."""
    message = ctx.logs.masks.text(wanted.deployment, message)
    was = task.status.state
    if (state, message) == (was, task.status.message):
        return

    async def change(tx: Tx) -> None:
        await _fence(tx, task.claim)
        status = await status_of(tx, task.service)
        if status.state != was or await tx.open_deployments(task.service.id):
            return
        await tx.change_status(replace(status, state=state, message=message))
        if state != was and (serving := await tx.deployment(wanted.deployment)):
            kind = Event.BROKE if state is State.DEPLOYMENT_ERROR else Event.RECOVERED
            await announce(tx, kind, task.service, serving, particulars(serving), message)

    await ctx.store.write(change)


async def _clear(ctx: Context, task: Task) -> None:
    """It is not meant to run. If something of it does, somebody was late: he was paused past his lease."""
    await release.end_up_to(ctx, task.service.id, task.status.deployments, ctx.settings.stop_seconds)
    await _rest(ctx, task)


async def _rest(ctx: Context, task: Task) -> None:
    async def change(tx: Tx) -> None:
        await _fence(tx, task.claim)
        await tx.done(task.claim)

    await ctx.store.write(change)


async def _failed(ctx: Context, task: Task, state: State, message: str) -> None:
    message = ctx.logs.masks.text(task.doing.id, message)

    async def change(tx: Tx) -> None:
        current = await _current(tx, task)
        await finish(tx, task.service, current, Progress.FAILED, message)
        status = await status_of(tx, task.service)
        await tx.change_status(replace(status, deployed_at=tx.now))
        await _settled(ctx, tx, task.service, state, message)
        if current.action == Do.DELETE:
            await give_up_above(tx, task.service)

    await ctx.store.write(change)
    ctx.logs.write(
        task.service.id, ctx.clock.now(), f"Deployment {task.doing.id} failed: {message}".splitlines()[0]
    )


async def _settled(ctx: Context, tx: Tx, service: Row, state: State, message: str) -> None:
    """The state after a deployment, unless another waits already: then its word is the one to say."""
    await reserve_declared(ctx, tx, service.family, service.id)
    waiting = await tx.open_deployments(service.id)
    status = await status_of(tx, service)
    if waiting:
        state, message = WORDS[Do(waiting[0].action)].queued, ""
    await tx.change_status(replace(status, state=state, message=message))
    for family, kind in ctx.kinds.items():
        if service.family in kind.waits_for:
            for neighbour in await tx.of_parent(service.parent, family):
                if await tx.open_deployments(neighbour.id):
                    await tx.ask(RECONCILE, neighbour.id, org=neighbour.org)


async def _current(tx: Tx, task: Task) -> DeploymentRow:
    """The deployment as it is now, while it is still ours to move."""
    await _fence(tx, task.claim)
    current = await tx.deployment(task.doing.id)
    if current is None or current.status != task.doing.status:
        raise LostClaim(task.claim.id)
    return current


async def _wanted_of(ctx: Context, source: Reads, deployment: str | None) -> Workload | None:
    row = await source.deployment(deployment) if deployment else None
    return decrypt_workload(ctx, row) if row else None


async def _still_ours(ctx: Context, task: Task) -> None:
    """Asked just before what cannot be undone, where no record says beforehand that it may be done."""
    await ctx.store.write(lambda tx: _fence(tx, task.claim))


async def _fence(tx: Tx, claim: Claim) -> None:
    if not await tx.held(claim):
        raise LostClaim(claim.id)


Deed = Callable[[Context, Task], Awaitable[None]]
DEEDS: Final[Mapping[Step, Deed]] = {
    Step.BUILD: _build,
    Step.RELEASE: _release,
    Step.STOP: _stop,
    Step.UNINSTALL: _uninstall,
    Step.DELETE: _delete,
    Step.ABANDON: _abandon,
    Step.KEEP: _keep,
    Step.REST: _clear,
}
