"""Runs a workload to its end, once. The engine knows the run by its generation, so that a step that is
repeated waits for the same run; between two looks at a long run, no slot of the worker is held."""

from __future__ import annotations

import asyncio

from windlass.builders.builder import BuildError
from windlass.control.deploying.freezing import freeze
from windlass.control.deploying.ledger import Ledger
from windlass.control.deploying.older_database import examine
from windlass.control.deploying.patience import HOLD, PAUSE, PutOff
from windlass.control.deploying.release import last_output, with_known_volumes
from windlass.control.deploying.steps.release import prune
from windlass.control.records.deployments import particulars
from windlass.core.deploy.progress import RunReport
from windlass.core.deploy.workload import Outcome, Workload
from windlass.core.words.variables import Unusable
from windlass.engines.engine import EngineAway, EngineError

LOOK_AGAIN = 5_000
"""Milliseconds after which a run is looked at in any case; the engine tells at once when it ends."""


class RunFailed(Exception):
    """The run has not ended by itself; the message is for the person who deployed."""


async def run(ledger: Ledger) -> None:
    try:
        workload = await freeze(ledger)
    except (Unusable, EngineError, BuildError) as error:
        await ledger.fail(str(error))
        return
    if failure := particulars(ledger.deployment).message:
        await _end(ledger, workload, failure)
        return
    report = await ledger.begin_run()
    try:
        outcome = await _outcome(ledger, workload, report.started_at)
    except EngineAway as error:
        await ledger.note_waiting(str(error))
        raise PutOff(PAUSE, str(error)) from error
    except (RunFailed, EngineError) as error:
        await ledger.give_up(str(error))
        await _end(ledger, workload, str(error))
        return
    report = report_of(outcome, await last_output(ledger.ctx, workload))
    await ledger.ctx.point("run to its end")
    if failure := failure_of(workload.name, report):
        await ledger.fail(failure, report=report, output="\n".join(report.output))
        return
    await ledger.finish_run(report)
    await prune(ledger)


def report_of(outcome: Outcome, output: str) -> RunReport:
    return RunReport(
        started_at=outcome.started_at,
        ended_at=outcome.ended_at,
        exit_code=outcome.exit_code,
        reason=outcome.reason,
        output=tuple(output.splitlines()),
    )


def failure_of(name: str, report: RunReport) -> str:
    """Says how a run failed, or returns an empty text: only the exit code 0 is a success."""
    return "" if report.exit_code == 0 else f"{name} {report.reason}"


async def _outcome(ledger: Ledger, workload: Workload, started_at: int) -> Outcome:
    """Waits for the end of the run: for a moment here, then PutOff. RunFailed after its time limit."""
    ctx, engine = ledger.ctx, ledger.place.engine
    until = started_at + round(workload.time_limit * 1000)
    await examine(ctx, ledger.place)
    waiting = asyncio.ensure_future(engine.once(await with_known_volumes(ctx, workload)))
    try:
        while True:
            left = until - ctx.clock.now()
            await asyncio.wait([waiting], timeout=min(HOLD, left / 1000) if left > 0 else HOLD)
            if waiting.done():
                return waiting.result()
            if left <= 0:
                raise RunFailed(f"{workload.name} did not end within {workload.time_limit:g} seconds")
            # Before it has begun, an engine that is slow would begin in vain each time.
            observation = await engine.observe(workload.service)
            if observation.of(workload.generation).instances:
                await ctx.point("run put off")
                raise PutOff(min(LOOK_AGAIN, left), f"{workload.name} runs")
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def _end(ledger: Ledger, workload: Workload, failure: str) -> None:
    """Ends a run that was given up, before another may begin."""
    engine, generation = ledger.place.engine, workload.generation
    await engine.remove(workload.service, generation=generation, grace=workload.grace)
    await ledger.fail(failure, output=await last_output(ledger.ctx, workload))
