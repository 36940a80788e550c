"""Runs the last task of a service before its removal or stop, such as destroying what it has created.

The engine identifies the run by the generation of the removal, so that a repeated step waits for the same
run. A successful run is recorded and not repeated.
"""

from __future__ import annotations

from typing import NoReturn

from windlass.builders.builder import BuildError
from windlass.control.deploying.freezing import build_input_of
from windlass.control.deploying.ledger import Ledger, in_transaction
from windlass.control.deploying.release import last_output
from windlass.control.deploying.retry_later import RETRY_PAUSE_MS, RetryLater
from windlass.control.deploying.steps.outcome import RunFailed, failure_of, report_of, wait_for_outcome
from windlass.control.records.deployments import move, particulars
from windlass.control.records.sealed_workload import decrypt_workload
from windlass.core.deploy.progress import RunReport
from windlass.core.deploy.states import Progress
from windlass.core.words.variables import UnresolvableVariable
from windlass.engines.engine import EngineError, EngineUnavailable
from windlass.engines.workload import Workload
from windlass.sources.git import GitError
from windlass.store import DeploymentRow, Tx


class RemovalFailed(Exception):
    """The run before a removal has failed. The message is for the person who requested the removal."""

    def __init__(self, message: str, output: str = "") -> None:
        super().__init__(message)
        self.output = output
        """The last log lines of the run."""


async def run_before_removal(ledger: Ledger) -> None:
    """Runs the last task before a removal, if there is one that has not succeeded yet. Raises
    RemovalFailed."""
    sub_action = particulars(ledger.deployment).sub_action
    if not sub_action:
        return
    current = await ledger.ctx.store.reads.deployments.get(ledger.deployment.id)
    run = particulars(current).run if current else None
    if run is not None and run.exit_code == 0:
        return
    try:
        workload = await _freeze(ledger, sub_action)
    except (UnresolvableVariable, BuildError, GitError, TimeoutError) as error:
        raise RemovalFailed(str(error) or "the module could not be fetched in time") from error
    if workload is None:
        return
    if failure := particulars(current).message if current else "":
        await _give_up(ledger, workload, failure)
    await _run(ledger, workload)


async def _freeze(ledger: Ledger, sub_action: str) -> Workload | None:
    ctx, kind = ledger.ctx, ledger.ctx.kinds[ledger.service.family]
    current = await ctx.store.reads.deployments.get(ledger.deployment.id)
    if current is not None and (workload := decrypt_workload(ctx, current)):
        return workload
    say = ledger.say
    making = await build_input_of(ledger, particulars(ledger.deployment), say)
    ctx.logs.masks.add(ledger.deployment.id, making.inputs.hidden)
    prepared = await kind.prepare_removal(ctx, making, sub_action)
    if prepared is None:
        return None
    built, workload = prepared
    frozen = await ledger.freeze(workload, built, making.inputs.digest)
    await ctx.point("frozen")
    return frozen


async def _run(ledger: Ledger, workload: Workload) -> None:
    report = await ledger.begin_run()
    try:
        outcome = await wait_for_outcome(ledger.ctx, ledger.place, workload, report.started_at)
    except EngineUnavailable as error:
        await ledger.note_waiting(str(error))
        raise RetryLater(RETRY_PAUSE_MS, str(error)) from error
    except RunFailed as error:
        await ledger.give_up(str(error), timed_out=True)
        await _give_up(ledger, workload, str(error))
    except EngineError as error:
        raise RemovalFailed(str(error)) from error
    output = await last_output(ledger.ctx, workload.service, workload.deployment)
    report = report_of(outcome, output)
    await ledger.ctx.point("run to its end")
    await _record(ledger, report)
    if failure := await failure_of(ledger, workload, report):
        raise RemovalFailed(failure, output)


async def _give_up(ledger: Ledger, workload: Workload, failure: str) -> NoReturn:
    """Ends a run that exceeded its time limit. The failure was recorded before, so that the run is not
    started again after a crash."""
    engine, generation = ledger.place.engine, workload.generation
    await engine.remove(workload.service, generation=generation, grace=workload.grace)
    raise RemovalFailed(failure)


@in_transaction
async def _record(ledger: Ledger, tx: Tx, current: DeploymentRow, report: RunReport) -> None:
    details = particulars(current)
    details.run = report
    await move(tx, current, Progress(current.status), details)
