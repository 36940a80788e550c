"""Runs the command of a service in its instances after their start, before they get requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from typing import Final

from windlass.control.context.context import Context
from windlass.engines.engine import EngineError, Note, NotReady, ignore_note
from windlass.engines.workload import Instance, Phase, Workload

_LOOK_SECONDS: Final = 0.2
"""Seconds between two looks for instances that an engine starts later."""
_MAX_OUTPUT_LINES: Final = 20
"""Number of lines of a failed command that are in the log."""
_MAX_OUTPUT_LINE: Final = 1000
_SETTING: Final = "deployment.lifecycle.post_start_exec_command"


async def wait_until_ready(
    ctx: Context, workload: Workload, count: int, note_reason: Note = ignore_note
) -> None:
    """Waits until `count` instances of an applied generation are ready, and their commands have succeeded.
    The commands run meanwhile, as readiness may depend on them. Raises NotReady if a command fails."""
    engine = (await ctx.places.of(workload.service)).engine
    if not workload.after_start:
        await engine.wait_until_ready(workload, count, note_reason)
        return
    tasks = [
        asyncio.ensure_future(engine.wait_until_ready(workload, count, note_reason)),
        asyncio.ensure_future(run_after_start(ctx, workload, count)),
    ]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def running_instances(ctx: Context, workload: Workload) -> frozenset[str]:
    """Returns the ids of the running instances of a generation."""
    engine = (await ctx.places.of(workload.service)).engine
    seen = (await engine.observe(workload.service)).of(workload.generation)
    return frozenset(one.id for one in seen.instances if one.phase is Phase.RUNNING)


async def run_after_start(
    ctx: Context, workload: Workload, count: int, known: Collection[str] = frozenset()
) -> None:
    """Runs the command in each of `count` instances, all at once, except in those that are `known` to have
    run it. Ends without an error if instances do not start in time, which the engine reports itself."""
    if not workload.after_start:
        return
    engine = (await ctx.places.of(workload.service)).engine
    done, until = {*known}, time.monotonic() + workload.patience
    while True:
        seen = (await engine.observe(workload.service)).of(workload.generation).instances
        fresh = [one for one in seen if one.phase is Phase.RUNNING and one.id not in done]
        await asyncio.gather(*(_run(ctx, workload, one) for one in fresh))
        done |= {one.id for one in fresh}
        if sum(one.id in done for one in seen) >= count or time.monotonic() > until:
            return
        await asyncio.sleep(_LOOK_SECONDS)


async def _run(ctx: Context, workload: Workload, instance: Instance) -> None:
    engine = (await ctx.places.of(workload.service)).engine
    output = ""
    try:
        async with asyncio.timeout(workload.patience + 1):
            code, output = await engine.execute(instance, workload.after_start, workload.patience)
        failure = f"it exited with code {code}" if code else ""
    except (EngineError, TimeoutError) as error:
        failure = str(error) or f"it took longer than {workload.patience:g} seconds"
    if failure:
        lines = [line[:_MAX_OUTPUT_LINE] for line in output.splitlines()[-_MAX_OUTPUT_LINES:]]
        ctx.logs.write(workload.service, ctx.clock.now(), *lines, version=workload.deployment)
        raise NotReady(f"Fix {_SETTING}: {failure} in instance {instance.index} of {workload.name}")
