"""Waits for the end of a workload that runs once, without occupying a worker slot for long."""

from __future__ import annotations

import asyncio

from windlass.control.context.context import Context
from windlass.control.context.place import Place
from windlass.control.deploying.ledger import Ledger
from windlass.control.deploying.release import with_known_volumes
from windlass.control.deploying.restored_database import examine
from windlass.control.deploying.retry_later import SLOT_SECONDS, RetryLater
from windlass.core.deploy.progress import RunReport
from windlass.engines.workload import Outcome, Workload

POLL_INTERVAL_MS = 5_000
"""Milliseconds until a run is polled. Usually, the engine reports the end of the run earlier."""


class RunFailed(Exception):
    """The run exceeded its time limit. The message is for the person who deployed it."""


async def wait_for_outcome(
    ctx: Context, place: Place, workload: Workload, started_at: int, index: int = 0
) -> Outcome:
    """Waits briefly for the end of a run, then raises RetryLater. Raises RunFailed after the time limit of
    the run."""
    engine = place.engine
    until = started_at + round(workload.time_limit * 1000)
    await examine(ctx, place)
    waiting = asyncio.ensure_future(engine.once(await with_known_volumes(ctx, workload), index))
    try:
        while True:
            left = until - ctx.clock.now()
            await asyncio.wait(
                [waiting], timeout=min(SLOT_SECONDS, left / 1000) if left > 0 else SLOT_SECONDS
            )
            if waiting.done():
                return waiting.result()
            if left <= 0:
                raise RunFailed(
                    f"Make the run shorter, or {ctx.kinds[workload.family].more_time}: "
                    f"{workload.name} did not end within {workload.time_limit:g} seconds"
                )
            # A run that has not begun is not put off: a slow engine would start it again in each attempt,
            # without result.
            observation = await engine.observe(workload.service)
            if observation.of(workload.generation).instances:
                await ctx.point("run put off")
                raise RetryLater(min(POLL_INTERVAL_MS, left), f"{workload.name} runs")
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
    """Returns how a run failed, with the remedy of its kind; empty after the exit code 0."""
    if report.exit_code == 0:
        return ""
    kind = ledger.ctx.kinds[ledger.service.family]
    explanation = await kind.explain_failure(ledger.ctx, ledger.service, ledger.deployment)
    failure = f"{workload.name} {report.reason}"
    return f"{explanation}. {failure}" if explanation else failure
