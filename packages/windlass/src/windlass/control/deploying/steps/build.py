"""Builds the artifact of a deployment, and freezes its workload."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from typing import Final

from msgspec.structs import replace

from windlass.base.slot_waits import waiting
from windlass.builders.builder import BuildError
from windlass.builders.usage import BuildUsage
from windlass.control.deploying.freezing import build_input_of, freeze_to_start
from windlass.control.deploying.ledger import Ledger
from windlass.control.deploying.retry_later import wait_while_unavailable
from windlass.control.records.deployments import move, particulars
from windlass.control.workloads.build_input import BuildInput, FetchedCommit
from windlass.core.deploy.progress import BuiltArtifact
from windlass.core.deploy.states import Progress, State
from windlass.core.settings.values import AdvancedValues
from windlass.core.words.variables import UnresolvableVariable
from windlass.engines.engine import EngineError
from windlass.engines.workload import Workload
from windlass.sources.git import GitError
from windlass.store import Tx


async def build(ledger: Ledger) -> None:
    async with AsyncExitStack() as cleanup:
        await _build(ledger, cleanup)


async def _build(ledger: Ledger, cleanup: AsyncExitStack) -> None:
    ctx, deployment = ledger.ctx, ledger.deployment
    say, fetched, usage = ledger.say, FetchedCommit(), BuildUsage()
    try:
        build_input = await build_input_of(ledger, particulars(deployment), say)
        build_input = replace(build_input, fetched=fetched, usage=usage, cleanup=cleanup)
        ctx.logs.masks.add(deployment.id, build_input.inputs.hidden)
        # Reading all variables and the build itself take long, so pending requests are served in between.
        await asyncio.sleep(0)
        for warning in build_input.inputs.warnings:
            say(warning)
        built, workload = await _prepare(ledger, build_input)
        built = replace(built, usage=usage if usage.is_known else None)
        await ctx.point("built")
        await freeze_to_start(ledger, workload, built, build_input.inputs.digest, build_input.rows)
    except (BuildError, GitError, EngineError, UnresolvableVariable, TimeoutError) as error:
        message = reason_of(error, *_time_limit(ledger))
        say(f"Failed: {message}")
        builds = ctx.kinds[ledger.service.family].builds
        await _note_failure(ledger, fetched, usage, builds=builds)
        await ledger.fail(message, State.BUILD_ERROR if builds else None)


async def _note_failure(
    ledger: Ledger, fetched_commit: FetchedCommit, usage: BuildUsage, *, builds: bool
) -> None:
    """Records the commit of a failed build, and what it used, which a successful build records with its
    result. Records also whether there was anything to build."""

    async def write(tx: Tx) -> None:
        current = await ledger.current(tx)
        details = particulars(current)
        details.commit, details.branch = fetched_commit.commit, fetched_commit.branch
        details.usage = usage if usage.is_known else None
        details.builds_nothing = not builds
        await move(tx, current, Progress(current.status), details)

    if fetched_commit.commit or not builds:
        await ledger.ctx.store.write(write)


_TIMEOUT_SETTING: Final = "build.timeout_max_sec"


def _time_limit(ledger: Ledger) -> tuple[int, bool]:
    """Returns the time limit of a build in seconds, and whether it is that of the service."""
    most = ledger.ctx.settings.build_seconds
    wanted = AdvancedValues(ledger.service.body).changed(_TIMEOUT_SETTING)
    return (most, False) if wanted is None or wanted >= most else (wanted, True)


def reason_of(error: Exception, seconds: int, is_of_service: bool = False) -> str:
    """Returns the reason of a failed build; `seconds` is its time limit."""
    if isinstance(error, TimeoutError):
        remedy = (
            f"raise the advanced setting {_TIMEOUT_SETTING}"
            if is_of_service
            else "ask the operator for more build_seconds"
        )
        return f"Make the build shorter, or {remedy}: it took longer than {seconds} seconds"
    return str(error)


async def _prepare(ledger: Ledger, build_input: BuildInput) -> tuple[BuiltArtifact, Workload]:
    ctx = ledger.ctx
    kind = ctx.kinds[build_input.service.family]
    if why := ledger.place.refusal or kind.obstacle(ledger.place):
        raise BuildError(why)
    seconds, _ = _time_limit(ledger)
    async with asyncio.timeout(seconds) as limit:
        build_input = replace(build_input, paused=partial(_paused, limit))
        return await wait_while_unavailable(
            ctx.settings.ready_seconds, lambda: kind.prepare(ctx, build_input), ledger.note_waiting
        )


@contextmanager
def _paused(limit: asyncio.Timeout) -> Iterator[None]:
    """Suspends a time limit while a block waits for builds of other services."""
    now = asyncio.get_running_loop().time
    deadline, began = limit.when(), now()
    limit.reschedule(None)
    try:
        with waiting.get()():
            yield
    finally:
        if deadline is not None and not limit.expired():
            limit.reschedule(deadline + now() - began)
