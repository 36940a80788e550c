"""Waits for the end of a workload that runs once, without holding a slot of the worker for long."""

from __future__ import annotations

import asyncio

from windlass.control.context.context import Context
from windlass.control.context.place import Place
from windlass.control.deploying.ledger import Ledger
from windlass.control.deploying.release import with_known_volumes
from windlass.control.deploying.restored_database import examine
from windlass.control.deploying.retry_later import HOLD, RetryLater
from windlass.core.deploy.progress import RunReport
from windlass.engines.workload import Outcome, Workload

LOOK_AGAIN = 5_000
"""Milliseconds after which a run is checked in any case; the engine reports its end at once."""


class RunFailed(Exception):
    """The run has not ended by itself; the message is for the person who deployed."""


async def wait_for_outcome(
    ctx: Context, place: Place, workload: Workload, started_at: int, index: int = 0
) -> Outcome:
    """Waits for the end of the run: for a moment here, then RetryLater. RunFailed after its time limit."""
    engine = place.engine
    until = started_at + round(workload.time_limit * 1000)
    await examine(ctx, place)
    waiting = asyncio.ensure_future(engine.once(await with_known_volumes(ctx, workload), index))
    try:
        while True:
            left = until - ctx.clock.now()
            await asyncio.wait([waiting], timeout=min(HOLD, left / 1000) if left > 0 else HOLD)
            if waiting.done():
                return waiting.result()
            if left <= 0:
                raise RunFailed(
                    f"Make the run shorter, or {ctx.kinds[workload.family].more_time}: "
                    f"{workload.name} did not end within {workload.time_limit:g} seconds"
                )
            # Before it has begun, an engine that is slow would begin in vain each time.
            observation = await engine.observe(workload.service)
            if observation.of(workload.generation).instances:
                await ctx.point("run put off")
                raise RetryLater(min(LOOK_AGAIN, left), f"{workload.name} runs")
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


def report_of(outcome: Outcome, output: str) -> RunReport:
    return RunReport(
        started_at=outcome.started_at,
        ended_at=outcome.ended_at,
        exit_code=outcome.exit_code,
        reason=outcome.reason,
        output=tuple(output.splitlines()),
    )


async def failure_of(ledger: Ledger, workload: Workload, report: RunReport) -> str:
    """Returns the remedy that its kind knows, and how a run failed; empty after the exit code 0."""
    if report.exit_code == 0:
        return ""
    kind = ledger.ctx.kinds[ledger.service.family]
    explanation = await kind.explain_failure(ledger.ctx, ledger.service, ledger.deployment)
    failure = f"{workload.name} {report.reason}"
    return f"{explanation}. {failure}" if explanation else failure
