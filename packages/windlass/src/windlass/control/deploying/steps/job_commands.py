"""Runs the command that a job has for a deployment: on start, on stop, or on delete.

The deployment waits for a run, which is separate background work. If the run fails, the deployment fails, and
so do deployments of the same request that wait for the job. `removal_run` runs the commands of other service
kinds before their removal.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from windlass.control.deploying.ledger import Ledger, in_transaction, write_deployed
from windlass.control.deploying.retry_later import RetryLater
from windlass.control.records.deployments import finish, particulars, status_of, with_report
from windlass.control.records.runs import (
    ABANDONED_REASON,
    NewRun,
    add_run,
    arm,
    cancel_run,
    plan_of,
    report_of_run,
    run_details,
)
from windlass.core.deploy.progress import RunReport
from windlass.core.deploy.states import STATES_OF_ACTIONS, Do, Progress
from windlass.engines.job_plans import OPEN_RUNS, Cause, JobPlan, RunEvent, RunState
from windlass.engines.workload import Workload
from windlass.store import NEVER, DeploymentRow, RunRow, Tx

_POLL_INTERVAL_MS: Final = 5_000
"""Milliseconds until an awaited run is polled. Usually, the end of the run schedules the deployment
earlier."""
_OTHERS_END: Final = "Ended, because the job is stopped or deleted"


async def run_start_command(ledger: Ledger, workload: Workload) -> None:
    """Runs the start command of a job's deployment, if there is one. Scheduled runs use the deployed version
    afterwards."""
    assert workload.job is not None
    asked = particulars(ledger.deployment).event
    event = RunEvent(asked or RunEvent.ON_START)
    if event not in workload.job.commands:
        await _finish(ledger, workload.job, None)
        return
    run = await _await_run(ledger, ledger.deployment.id, workload.job, event)
    if run.status == RunState.SUCCEEDED:
        await _finish(ledger, workload.job, report_of_run(run))
    else:
        await _fail(ledger, run, event)


async def run_end_command(ledger: Ledger) -> bool:
    """Ends the runs of a job that is stopped, uninstalled or deleted, then runs the job's command for that
    action. Returns False if the command failed; the deployment has then failed, too."""
    kind = ledger.ctx.kinds[ledger.service.family]
    if not kind.has_runs:
        return True
    timetable = await ledger.ctx.store.reads.timetables.get(ledger.service.id)
    if timetable is None:
        await _end_other_runs(ledger)
        return True
    event = RunEvent(kind.event_at(ledger.action))
    plan = plan_of(timetable)
    await _end_other_runs(ledger)
    if event not in plan.commands:
        return True
    run = await _await_run(ledger, timetable.deployment, plan, event)
    if run.status == RunState.SUCCEEDED:
        return True
    await _fail(ledger, run, event)
    return False


async def cancel_awaited_run(ledger: Ledger) -> None:
    """Ends the run of a deployment that was cancelled."""
    run = await ledger.ctx.store.reads.runs.awaited_by(ledger.deployment.id)
    if run is not None and run.status in OPEN_RUNS:
        await _cancel(ledger, [run], ABANDONED_REASON)
        raise RetryLater(_POLL_INTERVAL_MS, f"Run {run.number} ends")


async def _end_other_runs(ledger: Ledger) -> None:
    """Disables the timetable, and cancels runs that this deployment does not wait for. Raises RetryLater
    while such runs exist."""
    others = await _disarm(ledger)
    if others:
        await _cancel(ledger, others, _OTHERS_END)
        raise RetryLater(_POLL_INTERVAL_MS, f"Run {others[0].number} ends")


@in_transaction
async def _disarm(ledger: Ledger, tx: Tx, current: DeploymentRow) -> list[RunRow]:
    await tx.timetables.move(current.service, NEVER)
    return [run for run in await tx.runs.open(current.service) if run.awaited_by != current.id]


@in_transaction
async def _cancel(ledger: Ledger, tx: Tx, current: DeploymentRow, runs: list[RunRow], reason: str) -> None:
    for run in runs:
        now = await tx.runs.get(run.id)
        if now is not None and now.status in OPEN_RUNS and not run_details(now).is_cancelled:
            await cancel_run(tx, now, reason)


async def _await_run(ledger: Ledger, version: str, plan: JobPlan, event: RunEvent) -> RunRow:
    """Returns the run of this deployment once it has ended. Raises RetryLater before that."""
    run = await _find_or_add(ledger, version, plan, event)
    if run is None or run.status in OPEN_RUNS:
        await ledger.ctx.point("run awaited")
        raise RetryLater(_POLL_INTERVAL_MS, f"A run of {ledger.service.id} has not ended")
    return run


@in_transaction
async def _find_or_add(
    ledger: Ledger, tx: Tx, current: DeploymentRow, version: str, plan: JobPlan, event: RunEvent
) -> RunRow | None:
    """Returns the last run of this deployment, and adds a run if there is none. Returns None while another
    run of the job is in progress, because runs of a job are never concurrent."""
    if (run := await tx.runs.awaited_by(current.id)) is not None:
        return run
    if await tx.runs.open(current.service):
        return None
    details = particulars(current)
    return await add_run(
        tx,
        NewRun(
            job=current.service,
            org=current.org,
            deployment=version,
            cause=Cause.FORCED if details.event else Cause.EVENT,
            event=event,
            command=plan.commands[event],
            retries=plan.retries,
            actor=details.actor,
            awaited_by=current.id,
        ),
    )


@in_transaction
async def _finish(
    ledger: Ledger, tx: Tx, current: DeploymentRow, plan: JobPlan, report: RunReport | None
) -> None:
    """Records the success of a job's deployment. Future runs use the deployed version."""
    reported = await with_report(tx, current, report) if report else current
    service = await write_deployed(ledger.ctx, tx, reported)
    await finish(tx, service, reported, Progress.SUCCEEDED)
    status = await status_of(tx, service)
    await tx.statuses.change(replace(status, digest=particulars(reported).digest, deployed_at=tx.now))
    await arm(tx, service.id, service.org, current.id, plan)
    await ledger.settle(tx, service, STATES_OF_ACTIONS[Do(current.action)].done)


async def _fail(ledger: Ledger, run: RunRow, event: RunEvent) -> None:
    report = report_of_run(run)
    failure = f"Look at the log of run {run.number}, which failed at {event.lower()}: {report.reason}"
    await ledger.fail(failure, report=report, output="\n".join(report.output))
