"""Runs a workload to its end, once.

The engine identifies the run by its generation, so that a repeated step waits for the same run. A long run
does not occupy a worker slot between two checks.
"""

from __future__ import annotations

from windlass.builders.builder import BuildError
from windlass.control.deploying.freezing import freeze
from windlass.control.deploying.ledger import Ledger
from windlass.control.deploying.release import last_output
from windlass.control.deploying.retry_later import RETRY_PAUSE_MS, RetryLater
from windlass.control.deploying.steps.job_commands import run_start_command
from windlass.control.deploying.steps.one_off import run_one_off
from windlass.control.deploying.steps.outcome import RunFailed, failure_of, report_of, wait_for_outcome
from windlass.control.deploying.steps.release import prune
from windlass.control.records.deployments import particulars
from windlass.core.words.variables import UnresolvableVariable
from windlass.engines.engine import EngineError, EngineUnavailable
from windlass.engines.workload import Workload


async def run(ledger: Ledger) -> None:
    if particulars(ledger.deployment).command:
        await run_one_off(ledger)
        return
    try:
        workload = await freeze(ledger)
    except (UnresolvableVariable, EngineError, BuildError) as error:
        await ledger.fail(str(error))
        return
    if workload.job is not None:
        await run_start_command(ledger, workload)
        await prune(ledger)
        return
    if failure := particulars(ledger.deployment).message:
        await _end(ledger, workload, failure)
        return
    report = await ledger.begin_run()
    try:
        outcome = await wait_for_outcome(ledger.ctx, ledger.place, workload, report.started_at)
    except EngineUnavailable as error:
        await ledger.note_waiting(str(error))
        raise RetryLater(RETRY_PAUSE_MS, str(error)) from error
    except (RunFailed, EngineError) as error:
        await ledger.give_up(str(error), timed_out=isinstance(error, RunFailed))
        await _end(ledger, workload, str(error))
        return
    report = report_of(outcome, await last_output(ledger.ctx, workload.service, workload.deployment))
    await ledger.ctx.point("run to its end")
    if failure := await failure_of(ledger, workload, report):
        await ledger.fail(failure, report=report, output="\n".join(report.output))
        return
    await ledger.finish_run(report)
    await prune(ledger)


async def _end(ledger: Ledger, workload: Workload, failure: str) -> None:
    """Ends a run that timed out or could not be awaited, and records the failure. The next run may begin
    afterwards."""
    engine, generation = ledger.place.engine, workload.generation
    await engine.remove(workload.service, generation=generation, grace=workload.grace)
    await ledger.fail(failure, output=await last_output(ledger.ctx, workload.service, workload.deployment))
