"""Runs the command of a service in its instances before they get the signal to stop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final

from windlass.control.context.context import Context
from windlass.core.settings.values import AdvancedValues
from windlass.engines.engine import EngineError
from windlass.engines.workload import Instance, Phase

_COMMAND_SETTING: Final = "deployment.lifecycle.pre_stop_exec_command"
_MIN_SECONDS: Final = 1.0


async def run_before_stop(ctx: Context, service: str, instances: Sequence[Instance], grace: float) -> float:
    """Runs the command in all running instances at once. Returns the part of the grace period that is left.
    A failure is logged, and the instances end in any case."""
    row = await ctx.store.reads.resources.get(service)
    command = AdvancedValues(row.body if row else b"").changed(_COMMAND_SETTING)
    running = [instance for instance in instances if instance.phase is Phase.RUNNING]
    if not command or not running:
        return grace
    began, seconds = time.monotonic(), max(grace, _MIN_SECONDS)
    await asyncio.gather(*(_run(ctx, service, instance, command, seconds) for instance in running))
    return max(grace - (time.monotonic() - began), min(grace, _MIN_SECONDS))


async def _run(
    ctx: Context, service: str, instance: Instance, command: Sequence[str], seconds: float
) -> None:
    place = await ctx.places.of(service)
    try:
        async with asyncio.timeout(seconds + _MIN_SECONDS):
            code, _ = await place.engine.execute(instance, command, seconds)
        failure = f"it exited with code {code}" if code else ""
    except (EngineError, TimeoutError) as error:
        failure = str(error) or f"it took longer than {seconds:g} seconds"
    if failure:  # without the output, which may contain a secret
        line = f"The command before the stop of {instance.id} failed: {failure}"
        ctx.logs.write(service, ctx.clock.now(), line)
