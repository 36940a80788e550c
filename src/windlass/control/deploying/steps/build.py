"""Builds what a deployment starts, and freezes what it runs."""

from __future__ import annotations

import asyncio

from windlass.builders.builder import BuildError
from windlass.builders.git import GitError
from windlass.control.deploying.freezing import settings_of, workload_with
from windlass.control.deploying.ledger import Ledger
from windlass.control.deploying.release import wait_while_away
from windlass.control.kinds.service_kind import Making
from windlass.control.records.deployments import particulars
from windlass.core.deploy.progress import BuiltArtifact
from windlass.core.deploy.states import State
from windlass.core.words.variables import Unusable
from windlass.engines.engine import EngineError


async def build(ledger: Ledger) -> None:
    ctx, service, deployment = ledger.ctx, ledger.service, ledger.deployment
    say = ctx.logs.build(service.id, deployment.id)
    try:
        settings = await settings_of(ledger, particulars(deployment))
        inputs = settings.inputs
        ctx.logs.masks.add(deployment.id, inputs.hidden)
        for warning in inputs.warnings:
            say(warning)
        making = Making(service=settings.service, deployment=deployment, inputs=inputs, say=say)
        built = await _built(ledger, making)
        workload = await workload_with(ledger, built, settings)
        await ctx.point("built")
    except (BuildError, GitError, EngineError, Unusable, TimeoutError) as error:
        message = reason_of(error, ctx.settings.build_seconds)
        say(f"Failed: {message}")
        await ledger.failed(message, State.BUILD_ERROR)
        return
    await ledger.frozen(workload, built, inputs.digest)


def reason_of(error: Exception, seconds: int) -> str:
    """Says why a build failed that may take so many seconds."""
    if isinstance(error, TimeoutError):
        return f"The build took longer than {seconds} seconds (build_seconds)"
    return str(error)


async def _built(ledger: Ledger, making: Making) -> BuiltArtifact:
    ctx = ledger.ctx
    kind = ctx.kinds[making.service.family]
    if why := ledger.place.refusal or kind.hindrance(ledger.place):
        raise BuildError(why)
    async with asyncio.timeout(ctx.settings.build_seconds):
        return await wait_while_away(ctx, ctx.settings.ready_seconds, lambda: kind.make(ctx, making))
