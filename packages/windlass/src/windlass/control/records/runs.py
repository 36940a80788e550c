"""Records of job runs (add, retry, cancel, end and show), and the timetables that start them.

All functions that write do so in the transaction of their caller. A run and the work that executes it are
stored together.
"""

from __future__ import annotations

import shlex
from typing import Final

import msgspec
from msgspec.structs import replace

from windlass.base import ids
from windlass.base.clock import MINUTE, SECOND, stamp
from windlass.base.errors import Conflict
from windlass.control.context.call import encode
from windlass.control.context.context import Context
from windlass.control.records.deployments import RECONCILE, cancel_word
from windlass.control.records.run_outcomes import report_outcome
from windlass.control.records.run_results import measure_run_of_job
from windlass.core.declare.document import Document
from windlass.core.deploy.progress import Initiator, RunReport
from windlass.core.settings.values import AdvancedValues
from windlass.core.words.cron import parse
from windlass.core.words.due_times import next_due, zone
from windlass.engines.job_plans import (
    OPEN_RUNS,
    Cause,
    JobPlan,
    RunCommand,
    RunDetails,
    RunEvent,
    RunState,
    pause_before,
)
from windlass.families.job import job
from windlass.store import NEVER, Claim, RunRow, TimetableRow, Tx

RUN_WORK: Final = "run"
"""The kind of work that executes a run. The id of the work is the id of the run."""
TIMETABLES_WORK: Final = "timetables"
"""The kind and the id of the work that starts scheduled runs."""
EXPIRY_WORK: Final = "expire"
"""The kind of work that deletes a run some time after its end."""
_HISTORY_LIMITS: Final = {
    RunState.FAILED: "cronjob.failed_jobs_history_limit",
    RunState.SUCCEEDED: "cronjob.success_jobs_history_limit",
}
MAX_KEPT_RUNS: Final = 1000
"""The number of runs of a job that are kept."""
NO_INITIATOR: Final = Initiator("", "")
ABANDONED_REASON: Final = "Ended, because the deployment that waited for it was cancelled"
_RUNS_BETWEEN_TRIMS: Final = 16
"""The number of runs between two deletions of older runs."""
_PER_MILLISECOND: Final = 1000
"""The number of generations of one job in each millisecond."""

_details = msgspec.json.Decoder(RunDetails).decode
_plan = msgspec.json.Decoder(JobPlan).decode


def run_details(run: RunRow) -> RunDetails:
    return _details(run.body)


def plan_of(timetable: TimetableRow) -> JobPlan:
    return _plan(timetable.body)


class NewRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is about to be stored."""

    job: str
    org: str
    deployment: str
    """The deployment whose version the run starts."""
    cause: Cause
    event: RunEvent
    command: RunCommand
    retries: int = 0
    actor: Initiator = NO_INITIATOR
    due: int = 0
    missed: int = 0
    awaited_by: str = ""


async def add_run(tx: Tx, new_run: NewRun) -> RunRow | None:
    """Stores a run with the work that executes it. Returns None if this due time has a run already."""
    details = RunDetails(
        event=new_run.event,
        command=new_run.command,
        actor_id=new_run.actor.id,
        actor_name=new_run.actor.name,
        retries=new_run.retries,
        is_scheduled=new_run.cause is Cause.SCHEDULE,
        missed=new_run.missed,
    )
    return await _store(tx, new_run, RunState.QUEUED, details, work_due=tx.now)


async def skip_run(tx: Tx, new_run: NewRun, reason: str) -> None:
    """Records that no run was started at a due time."""
    details = RunDetails(
        event=new_run.event, command=new_run.command, missed=new_run.missed, message=reason, ended=tx.now
    )
    await _store(tx, new_run, RunState.SKIPPED, details)
    measure_run_of_job(tx, job.name, RunState.SKIPPED, details)


async def _store(
    tx: Tx, new_run: NewRun, state: RunState, details: RunDetails, *, work_due: int | None = None
) -> RunRow | None:
    """Stores a run. With `work_due`, also schedules the work that executes it."""
    number = await tx.runs.next_number(new_run.job)
    run = RunRow(
        ids.new_id(), new_run.org, new_run.job, number, _generation(tx.now, number), new_run.deployment,
        new_run.cause, state, new_run.due, tx.now, new_run.awaited_by, encode(details),
    )  # fmt: skip
    if not await tx.runs.add(run):
        return None
    if number > MAX_KEPT_RUNS and number % _RUNS_BETWEEN_TRIMS == 0:
        await tx.runs.trim(new_run.job, number - MAX_KEPT_RUNS)
    if work_due is not None:
        queue = await tx.work.queue_of_runs(new_run.job)
        await tx.work.schedule(RUN_WORK, run.id, work_due, org=new_run.org, queue=queue)
    return run


def _generation(now: int, number: int) -> int:
    """Returns a generation that is new to every engine. It includes the time, because a restored database may
    repeat run numbers."""
    return now * _PER_MILLISECOND + number % _PER_MILLISECOND


async def refuse_while_open(tx: Tx, job: str, name: str) -> None:
    if going := await tx.runs.open(job):
        raise Conflict(f"Wait for run {going[0].number} of {name}, or cancel it: a job has one run at a time")


async def change_run(tx: Tx, run: RunRow, state: RunState, details: RunDetails) -> RunRow:
    new = replace(run, status=state, body=encode(details))
    await tx.runs.change(new)
    return new


async def cancel_run(tx: Tx, run: RunRow, reason: str) -> RunRow:
    """Requests the cancellation of a run."""
    details = run_details(run)
    details.is_cancelled = True
    details.message = reason
    changed = await change_run(tx, run, RunState(run.status), details)
    tx.nudge(cancel_word(run.id))
    await tx.work.schedule(RUN_WORK, run.id, org=run.org, queue=await tx.work.queue_of_runs(run.job))
    return changed


async def end_run(tx: Tx, run: RunRow, state: RunState, details: RunDetails) -> None:
    """Writes the final state of a run. Schedules a retry of a failed run if its job allows more retries."""
    details.ended, details.waits = tx.now, ""
    ended = await change_run(tx, run, state, details)
    measure_run_of_job(tx, job.name, state, details)
    may_retry = not (details.is_cancelled or details.is_given_up)
    if state is RunState.FAILED and may_retry and details.retries > 0:
        await _retry(tx, ended, details)
        return
    if not run.awaited_by:
        await report_outcome(tx, ended, details)
    await _limit_history(tx, ended)
    if run.awaited_by or await tx.deployments.open(run.job):  # a deployment may wait for the end of this run
        await tx.work.schedule(RECONCILE, run.job, org=run.org)


async def settings_of_job(tx: Tx, id: str) -> AdvancedValues:
    row = await tx.resources.get(id)
    return AdvancedValues(row.body if row else b"")


async def _limit_history(tx: Tx, ended_run: RunRow) -> None:
    """Deletes the runs that the job's advanced settings do not keep, when a run has ended."""
    settings = await settings_of_job(tx, ended_run.job)
    for state, name in _HISTORY_LIMITS.items():
        if (most := settings.changed(name)) is not None:
            await tx.runs.keep_newest(ended_run.job, state, most)
    lifetime = settings.changed("job.delete_ttl_seconds_after_finished")
    if lifetime is not None:
        await tx.work.schedule(
            EXPIRY_WORK, f"{EXPIRY_WORK}:{ended_run.id}", tx.now + lifetime * SECOND, org=ended_run.org
        )


async def expire_run(ctx: Context, claim: Claim) -> None:
    """Deletes a run whose time in the list has passed."""

    async def write(tx: Tx) -> None:
        await tx.runs.expire(claim.id.removeprefix(f"{EXPIRY_WORK}:"))
        await tx.work.done(claim)

    await ctx.store.write(write)


async def _retry(tx: Tx, run: RunRow, details: RunDetails) -> None:
    attempt = details.attempt + 1
    again = RunDetails(
        event=details.event,
        command=details.command,
        actor_id=details.actor_id,
        actor_name=details.actor_name,
        attempt=attempt,
        retries=details.retries - 1,
        retry_of=details.retry_of or run.id,
        is_scheduled=details.is_scheduled,
    )
    new = NewRun(
        job=run.job,
        org=run.org,
        deployment=run.deployment,
        cause=Cause.RETRY,
        event=details.event,
        command=details.command,
        awaited_by=run.awaited_by,
    )
    work_due = tx.now + pause_before(attempt) * SECOND
    await _store(tx, new, RunState.QUEUED, again, work_due=work_due)


async def arm(tx: Tx, job: str, org: str, deployment: str, plan: JobPlan) -> None:
    """Stores the version that the runs of a job start from now on, and schedules the job's timetable if it
    has one."""
    due = due_after(plan, tx.now)
    await tx.timetables.set(TimetableRow(job, org, deployment, due, encode(plan)))
    if due != NEVER:
        await tx.work.schedule(TIMETABLES_WORK, TIMETABLES_WORK, due)


def due_after(plan: JobPlan, timestamp: int) -> int:
    """Returns the next due time of a timetable; `NEVER` if there is none."""
    if not plan.scheduled_at:
        return NEVER
    due = next_due(parse(plan.scheduled_at), zone(plan.timezone), timestamp // MINUTE)
    return NEVER if due is None else due * MINUTE


def shown_run(run: RunRow) -> Document:
    details = run_details(run)
    has_ended = run.status not in OPEN_RUNS
    return {
        "id": run.id,
        "job_id": run.job,
        "number": run.number,
        "status": run.status,
        "cause": run.cause,
        "event": details.event,
        "message": details.message or details.waits,
        "created_at": stamp(run.created),
        "updated_at": stamp(details.ended or details.began or run.created),
        "scheduled_for": stamp(run.due) if run.due else None,
        "missed": details.missed,
        "started_at": stamp(details.began) if details.began else None,
        "ended_at": stamp(details.ended) if has_ended else None,
        "duration_seconds": (details.ended - details.began) / SECOND if has_ended and details.began else None,
        "exit_code": details.exit_code,
        "peak_memory_bytes": details.peak_memory or None,
        "attempt": details.attempt,
        "retry_of": details.retry_of or None,
        "deployment_id": run.deployment,
        "entrypoint": shlex.join(details.command.entrypoint),
        "arguments": details.command.arguments,
        "output": details.output,
        "output_variables": details.outputs,
        "triggered_by": details.actor_name,
    }


def report_of_run(run: RunRow) -> RunReport:
    """Returns the result of a run in the form of a deployment's report."""
    details = run_details(run)
    return RunReport(
        started_at=details.began or run.created,
        ended_at=details.ended,
        exit_code=details.exit_code,
        reason=details.message,
        output=details.output,
        is_listed=True,
    )
