"""Runs a command once in the build of a service, without changing the service's state or its serving
instances.

The engine identifies the run by its generation and an index that instances do not use, like a release
command. The output is written to the deployment's log.
"""

from __future__ import annotations

from windlass.builders.builder import BuildError
from windlass.control.context.log_store import DeploymentLog
from windlass.control.deploying.freezing import build_input_of
from windlass.control.deploying.ledger import Ledger, in_transaction
from windlass.control.deploying.retry_later import RETRY_PAUSE_MS, RetryLater
from windlass.control.deploying.steps.outcome import RunFailed, report_of, wait_for_outcome
from windlass.control.deploying.steps.release_command import last_lines
from windlass.control.records.deployments import finish, move, particulars
from windlass.control.records.sealed_workload import decrypt_workload, encrypt_workload
from windlass.core.deploy.progress import RunReport
from windlass.core.deploy.states import DeploymentPhase, Progress
from windlass.core.words.variables import UnresolvableVariable
from windlass.engines.engine import EngineError, EngineUnavailable
from windlass.engines.workload import RELEASE_INDEX, Workload, as_run
from windlass.store import DeploymentRow, Tx


async def run_one_off(ledger: Ledger) -> None:
    try:
        workload = await _freeze(ledger)
        if failure := particulars(ledger.deployment).message:
            await _end(ledger, workload, failure)
            return
        report = await ledger.begin_run()
        outcome = await wait_for_outcome(ledger.ctx, ledger.place, workload, report.started_at, RELEASE_INDEX)
    except EngineUnavailable as error:
        raise RetryLater(RETRY_PAUSE_MS, str(error)) from error
    except RunFailed as error:
        failure = f"Make the command shorter, or ask the operator for more run_seconds: {error}"
        await ledger.give_up(failure, timed_out=True)
        await _end(ledger, workload, failure)
        return
    except (UnresolvableVariable, EngineError, BuildError) as error:
        await _close(ledger, Progress.FAILED, str(error))
        return
    report = report_of(outcome, await last_lines(ledger))
    await ledger.ctx.point("run to its end")
    succeeded = report.exit_code == 0
    message = "" if succeeded else f"The command {report.reason}"
    await _close(ledger, Progress.SUCCEEDED if succeeded else Progress.FAILED, message, report)


async def abandon_one_off(ledger: Ledger) -> None:
    """Ends a run that was cancelled."""
    current = await ledger.ctx.store.reads.deployments.get(ledger.deployment.id)
    if current is not None and (workload := decrypt_workload(ledger.ctx, current)):
        await _remove(ledger, workload)
    await ledger.ctx.point("abandoned")
    await _close(ledger, Progress.CANCELED, particulars(ledger.deployment).message)


async def _freeze(ledger: Ledger) -> Workload:
    """Returns the workload of the run. It is computed once and stored encrypted with the deployment."""
    ctx, service = ledger.ctx, ledger.service
    current = await ctx.store.reads.deployments.get(ledger.deployment.id)
    if current is not None and (workload := decrypt_workload(ctx, current)):
        return workload
    details, kind = particulars(ledger.deployment), ctx.kinds[service.family]
    assert details.made is not None
    if not await kind.is_kept(ctx, service, details.made.artifact):
        raise EngineError("Deploy the service again: the build that it runs is gone")
    making = await build_input_of(ledger, details, DeploymentLog(_discard_remark, None))
    ctx.logs.masks.add(ledger.deployment.id, making.inputs.hidden)
    workload = as_run(await kind.compute(ctx, making, details.made.artifact), details.command)
    await _seal(ledger, workload)
    await ctx.point("frozen")
    return workload


def _discard_remark(line: str, stage: DeploymentPhase | None) -> None:
    """Discards remarks about ports, because the log should contain only the command's output."""


@in_transaction
async def _seal(ledger: Ledger, tx: Tx, current: DeploymentRow, workload: Workload) -> None:
    details, sealed = particulars(current), encrypt_workload(ledger.ctx, workload)
    await move(tx, current, Progress(current.status), details, sealed)
    await ledger.forget_earlier(tx, current)


async def _end(ledger: Ledger, workload: Workload, failure: str) -> None:
    """Ends a run that exceeded its time limit, and records the failure."""
    await _remove(ledger, workload)
    await _close(ledger, Progress.FAILED, failure)


async def _remove(ledger: Ledger, workload: Workload) -> None:
    generation, grace = workload.generation, workload.grace
    await ledger.place.engine.remove(workload.service, generation=generation, grace=grace)


async def _close(ledger: Ledger, progress: Progress, message: str, report: RunReport | None = None) -> None:
    masked = ledger.ctx.logs.masks.text(ledger.deployment.id, message)
    await _record_end(ledger, progress, masked, report)


@in_transaction
async def _record_end(
    ledger: Ledger,
    tx: Tx,
    current: DeploymentRow,
    progress: Progress,
    message: str,
    report: RunReport | None,
) -> None:
    if report is not None:
        details = particulars(current)
        details.run = report
        current = await move(tx, current, Progress(current.status), details)
    await finish(tx, ledger.service, current, progress, message)
