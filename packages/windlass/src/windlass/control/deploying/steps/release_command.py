"""Runs the release command of a deployment, after its build and before its first instance.

The engine identifies the run by its generation and an index that instances do not use, so that a repeated
step waits for the same run. The end of the run is recorded, and the command is not run again.
"""

from __future__ import annotations

import asyncio

import msgspec

from windlass.control.deploying.freezing import log_start
from windlass.control.deploying.ledger import Ledger, in_transaction
from windlass.control.deploying.release import LAST_LINES, ReleaseFailed
from windlass.control.deploying.retry_later import RETRY_PAUSE_MS, RetryLater
from windlass.control.deploying.steps.outcome import RunFailed, report_of, wait_for_outcome
from windlass.control.records.deployments import move, particulars
from windlass.core.deploy.progress import RunReport
from windlass.core.deploy.states import DeploymentPhase, Progress
from windlass.engines.engine import EngineError, EngineUnavailable
from windlass.engines.workload import RELEASE_INDEX, Workload, as_run, is_of_release
from windlass.store import DeploymentRow, Tx


async def run_release_command(ledger: Ledger, workload: Workload) -> None:
    """Runs the release command if there is one that has not run yet. Raises ReleaseFailed if it fails."""
    if not workload.artifact.release:
        return
    say = ledger.say
    say.begin(DeploymentPhase.COMMAND)
    report, is_first = await _begin(ledger)
    if is_first:
        say("Running the release command")
    if not report.ended_at:
        report = await _run(ledger, workload, report.started_at)
        say(f"The release command {report.reason}")
        await _finish(ledger, report)
        await ledger.ctx.point("release command ended")
        if report.exit_code == 0:
            log_start(ledger)
    if report.exit_code != 0:
        raise ReleaseFailed(f"Fix the release command, or what it needs: it {report.reason}")
    say.begin(DeploymentPhase.START)


async def release_output(ledger: Ledger) -> str:
    """Returns the last log lines of a release command that failed; empty otherwise."""
    current = await ledger.ctx.store.reads.deployments.get(ledger.deployment.id)
    report = particulars(current).release if current else None
    return "\n".join(report.output) if report and report.exit_code != 0 else ""


async def _run(ledger: Ledger, workload: Workload, started_at: int) -> RunReport:
    try:
        outcome = await wait_for_outcome(
            ledger.ctx, ledger.place, as_run(workload, workload.artifact.release), started_at, RELEASE_INDEX
        )
    except EngineUnavailable as error:
        await ledger.note_waiting(str(error))
        raise RetryLater(RETRY_PAUSE_MS, str(error)) from error
    except RunFailed as error:
        raise ReleaseFailed(
            "Make the release command shorter, or ask the operator for more run_seconds: it did not end "
            f"within {workload.time_limit:g} seconds"
        ) from error
    except EngineError as error:
        raise ReleaseFailed(str(error)) from error
    return report_of(outcome, await last_lines(ledger))


@in_transaction
async def _begin(ledger: Ledger, tx: Tx, current: DeploymentRow) -> tuple[RunReport, bool]:
    """Records the start time of the run, on which its time limit depends. Also returns whether this call
    recorded it first."""
    details = particulars(current)
    is_first = details.release is None
    if details.release is None:
        details.release = RunReport(started_at=tx.now)
        await move(tx, current, Progress(current.status), details)
    return details.release, is_first


@in_transaction
async def _finish(ledger: Ledger, tx: Tx, current: DeploymentRow, report: RunReport) -> None:
    details = particulars(current)
    details.release = report
    await move(tx, current, Progress(current.status), details)


async def last_lines(ledger: Ledger) -> str:
    """Returns the last lines of the release command in the deployment's log."""
    service, deployment = ledger.service.id, ledger.deployment.id
    lines = await asyncio.to_thread(ledger.ctx.logs.tail, service, LAST_LINES, deployment=deployment)
    decoded = [msgspec.json.decode(line) for line in lines]
    return "\n".join(line["message"] for line in decoded if is_of_release(line["pod_name"]))
