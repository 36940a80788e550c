"""Job runs in the API: listing, reading, starting, cancelling and purging; due times; and deploying new
tags."""

from __future__ import annotations

import hashlib
import shlex
from datetime import UTC, datetime
from functools import partial

from windlass.base.clock import MINUTE, stamp
from windlass.base.errors import Conflict, Invalid, Missing, Unavailable
from windlass.control.context.call import Call, Reply, encode, reads, results, writes
from windlass.control.context.context import Context
from windlass.control.records.deployments import name_of, refuse_below_deleted
from windlass.control.records.recording import emit_asked
from windlass.control.records.runs import (
    NewRun,
    add_run,
    cancel_run,
    plan_of,
    refuse_while_open,
    run_details,
    shown_run,
)
from windlass.control.reporting.logs import log_reply
from windlass.control.request.paths import parent_of, target
from windlass.control.request.reading import paging
from windlass.control.services.new_tags import deploy_new_tag
from windlass.core.declare.job_schedules import CronSchedule
from windlass.core.declare.program import check_command
from windlass.core.deploy.progress import Initiator
from windlass.core.words.cron import parse
from windlass.core.words.due_times import UnknownZone, next_due, zone
from windlass.core.words.events import Event
from windlass.engines.job_plans import OPEN_RUNS, Cause, RunCommand
from windlass.families.environment import JobsToClean
from windlass.families.job import DueTimesQuery, Job, JobRunRequest, job
from windlass.store import NEVER, Reads, Row, RunRow, Tx

# Runs


@reads("jobRun.list")
async def list_runs(ctx: Context, call: Call) -> Reply:
    source = ctx.store.reads
    row = await parent_of(source, call)
    page, size = paging(call)
    runs = await source.runs.page(row.id, (page - 1) * size, size)
    shown = [encode(shown_run(run)) for run in runs]
    return Reply(results(shown, page, size, await source.runs.count(row.id)))


@reads("jobRun.read")
async def read_run(ctx: Context, call: Call) -> Reply:
    row = await parent_of(ctx.store.reads, call)
    body = encode(shown_run(await _find(ctx.store.reads, row, call.id)))
    return Reply(body, hashlib.sha256(body).hexdigest()[:16])


@reads("jobRun.log")
async def read_run_log(ctx: Context, call: Call) -> Reply:
    row = await parent_of(ctx.store.reads, call)
    run = await _find(ctx.store.reads, row, call.id)
    return await log_reply(ctx, call, row, version=run.id, is_over=partial(_is_over, ctx, run.id))


async def _is_over(ctx: Context, id: str) -> bool:
    run = await ctx.store.reads.runs.get(id)
    return run is None or run.status not in OPEN_RUNS


@writes("jobRun.cancel")
async def cancel(ctx: Context, tx: Tx, call: Call) -> Reply:
    row = await parent_of(tx, call)
    run = await _find(tx, row, call.id)
    if run.status not in OPEN_RUNS:
        raise Conflict(f"Choose a run that waits or is under way: run {run.number} is {run.status}")
    if run_details(run).is_cancelled:
        raise Conflict(f"Wait until run {run.number} has ended: it is being cancelled")
    cancelled = await cancel_run(tx, run, f"Cancelled by {call.actor.name}")
    await _record(ctx, tx, Event.CANCEL_ASKED, row, run, call)
    return Reply(encode(shown_run(cancelled)))


async def _record(ctx: Context, tx: Tx, kind: Event, row: Row, run: RunRow, call: Call) -> None:
    """Records the event of a person's action on a run. The event does not contain the command, which the run
    shows."""
    data = {"name": name_of(row), "environment_id": row.parent, "run_id": run.id, "number": run.number}
    await emit_asked(ctx, tx, kind, row, call, data)


async def _find(reads: Reads, row: Row, id: str) -> RunRow:
    run = await reads.runs.get(id)
    if run is None or run.job != row.id:
        raise Missing("List the runs of the job to find the id: no run of it has this id")
    return run


@writes("job.run")
async def run_job(ctx: Context, tx: Tx, call: Call) -> Reply:
    """Starts a run of the deployed version, with the scheduled command or with the command in the request."""
    row = await target(tx, call)
    await refuse_below_deleted(tx, row)
    timetable = await tx.timetables.get(row.id)
    if timetable is None:
        raise Conflict(f"Deploy {name_of(row)} first: no version of it is ready to run")
    await refuse_while_open(tx, row.id, name_of(row))
    plan = plan_of(timetable)
    event, usual = next(iter(plan.commands.items()))
    run = await add_run(
        tx,
        NewRun(
            job=row.id,
            org=row.org,
            deployment=timetable.deployment,
            cause=Cause.FORCED,
            event=event,
            command=_command_of(usual, call.sent(JobRunRequest)) if call.body else usual,
            retries=plan.retries,
            actor=Initiator(call.actor.id, call.actor.name),
        ),
    )
    assert run is not None
    await _record(ctx, tx, Event.RUN_ASKED, row, run, call)
    return Reply(encode(shown_run(run)))


def _command_of(default_command: RunCommand, request: JobRunRequest) -> RunCommand:
    """Returns the command of a run. Parts that the request leaves out come from the job."""
    entrypoint, arguments = default_command.entrypoint, default_command.arguments
    if request.entrypoint:
        check_command("entrypoint", request.entrypoint)
        entrypoint = tuple(shlex.split(request.entrypoint))
    if isinstance(request.arguments, list):
        arguments = tuple(request.arguments)
    return RunCommand(entrypoint, arguments)


@reads("job.dueTimes")
async def read_due_times(ctx: Context, call: Call) -> Reply:
    row = await target(ctx.store.reads, call)
    timetable = await ctx.store.reads.timetables.get(row.id)
    is_active = timetable is not None and timetable.due != NEVER
    cron = row.read(Job).schedule.cronjob or CronSchedule()
    text, name = cron.scheduled_at or "", cron.timezone
    if timetable is not None and is_active:  # changed settings take effect with the next deployment
        plan = plan_of(timetable)
        text, name = plan.scheduled_at, plan.timezone
    try:
        times = _next_times(text, name, ctx.clock.now() // MINUTE, call.asked(DueTimesQuery).count)
    except UnknownZone as error:
        raise Unavailable(f"timezone: {error}") from error
    local = [datetime.fromtimestamp(time * 60, UTC).astimezone(zone(name)).isoformat() for time in times]
    document = {
        "scheduled_at": text,
        "timezone": name,
        "is_active": is_active,
        "due_at": [stamp(time * MINUTE) for time in times],
        "local_times": local,
    }
    return Reply(encode(document))


def _next_times(text: str, name: str, after_minute: int, count: int) -> list[int]:
    """Returns the next due times of a timetable, in minutes; empty without a timetable."""
    times: list[int] = []
    due = next_due(parse(text), zone(name), after_minute) if text else None
    while due is not None and len(times) < count:
        times.append(due)
        due = next_due(parse(text), zone(name), due)
    return times


# Purging


@writes("job.cleanFailedJob")
async def purge_failed(ctx: Context, tx: Tx, call: Call) -> Reply:
    row = await target(tx, call)
    return Reply(encode({"clean_kubernetes_jobs": await _purge(ctx, tx, row, call)}))


@writes("environment.cleanFailedJobs")
async def purge_failed_of_all(ctx: Context, tx: Tx, call: Call) -> Reply:
    environment = await target(tx, call)
    rows = {row.id: row for row in await tx.resources.of_parent(environment.id, job.name)}
    chosen = call.sent(JobsToClean).job_ids if call.body else []
    for id in chosen:
        if id not in rows:
            raise Invalid(f"job_ids: choose a job of this environment: none has the id {id}")
    purged = {id: runs for id in chosen or rows if (runs := await _purge(ctx, tx, rows[id], call))}
    runs = [run for some in purged.values() for run in some]
    return Reply(encode({"clean_job_ids": [*purged], "clean_kubernetes_jobs": runs}))


async def _purge(ctx: Context, tx: Tx, row: Row, call: Call) -> list[str]:
    """Deletes the failed runs of a job, and records an event if there were any. Returns their ids."""
    runs = await tx.runs.purge_failed(row.id)
    if runs:
        data = {"name": name_of(row), "environment_id": row.parent, "runs": len(runs)}
        await emit_asked(ctx, tx, Event.FAILED_RUNS_DELETED, row, call, data)
    return runs


# New tags


@writes("organization.jobDeploy")
async def deploy_image(ctx: Context, tx: Tx, call: Call) -> Reply:
    return await deploy_new_tag(ctx, tx, call, job)
