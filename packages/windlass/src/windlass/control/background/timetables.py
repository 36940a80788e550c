"""Starts runs of jobs when their timetables are due.

One work item handles all jobs, with many jobs in one transaction. A run and the next due time of its job are
stored in the same transaction, so that a run is neither started twice nor missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from windlass.base.clock import HOUR, MINUTE
from windlass.control.context.context import Context
from windlass.control.deploying.ledger import fence
from windlass.control.records.runs import (
    NewRun,
    add_run,
    cancel_run,
    due_after,
    plan_of,
    run_details,
    settings_of_job,
    skip_run,
)
from windlass.core.words.cron import parse
from windlass.core.words.due_times import UnknownZone, due_times, next_due, zone
from windlass.engines.job_plans import Cause, JobPlan, RunEvent
from windlass.store import NEVER, Claim, RunRow, TimetableRow, Tx

AT_ONCE: Final = 100
"""The largest number of jobs whose runs are started in one transaction. Larger transactions would delay API
requests."""
MAX_OPEN_RUNS: Final = 20
"""The largest number of open runs of one job."""
MISSED_AFTER: Final = MINUTE
"""Milliseconds after which a due time counts as missed."""
UNKNOWN_ZONE_PAUSE: Final = HOUR
"""Milliseconds until a timetable is checked again whose time zone is unknown on this machine. Another server
may have its data."""
MISSED_METRIC: Final = "due time missed"
"""The name of the measurement of missed due times."""
_MAX_COUNTED_DUE_TIMES: Final = 1000
"""The largest number of missed due times that are counted."""
_LOOK_BACK: Final = (60, 24 * 60, 32 * 24 * 60, 366 * 24 * 60)
"""Periods in minutes that are searched for the last due time, shortest first."""


async def start_due_runs(ctx: Context, claim: Claim) -> None:
    """Starts all due runs. Reschedules the work for the next due run."""
    while await ctx.store.write(lambda tx: _start_some(tx, claim)) == AT_ONCE:
        pass
    await ctx.point("due runs started")


async def _start_some(tx: Tx, claim: Claim) -> int:
    await fence(tx, claim)
    due = await tx.timetables.due(tx.now, AT_ONCE)
    for timetable in due:
        await _start(tx, timetable)
    if len(due) < AT_ONCE:
        following = await tx.timetables.next_due()
        if following is None or following == NEVER:
            await tx.work.done(claim)
        else:
            await tx.work.reschedule(claim, following)
    return len(due)


async def _start(tx: Tx, timetable: TimetableRow) -> None:
    plan = plan_of(timetable)
    new = NewRun(
        job=timetable.job,
        org=timetable.org,
        deployment=timetable.deployment,
        cause=Cause.SCHEDULE,
        event=RunEvent.CRON,
        command=plan.commands[RunEvent.CRON],
        retries=plan.retries,
        due=timetable.due,
    )
    try:
        last, following = last_due(plan, timetable.due, tx.now), due_after(plan, tx.now)
    except UnknownZone as error:  # other timetables continue
        await tx.timetables.move(timetable.job, tx.now + UNKNOWN_ZONE_PAUSE)
        await _skip_once(tx, new, f"Not started: {error}")
        return
    await tx.timetables.move(timetable.job, following)
    if last is None:
        return
    new = replace(new, due=last.due, missed=last.before)
    is_late = tx.now - last.due > MISSED_AFTER
    for _ in range(last.before + is_late):
        tx.measure(MISSED_METRIC, 0)
    if is_late and not plan.runs_missed:
        await skip_run(tx, new, f"Missed: no server of Windlass ran when it was due{_and_others(last)}")
    elif going := await tx.runs.open(timetable.job):
        await _start_beside(tx, new, going)
    else:
        await add_run(tx, new)


async def _start_beside(tx: Tx, new_run: NewRun, going: Sequence[RunRow]) -> None:
    """Decides about a due run while other runs of the job are open, as the job's advanced settings say."""
    policy = (await settings_of_job(tx, new_run.job))["cronjob.concurrency_policy"]
    if policy == "Forbid" or len(going) >= MAX_OPEN_RUNS:
        await skip_run(tx, new_run, f"Run {going[0].number} had not ended when this one was due")
        return
    if policy == "Replace":
        for run in going:
            if not run_details(run).is_cancelled:
                await cancel_run(tx, run, "Replaced by the run that was due next")
    await add_run(tx, new_run)


async def _skip_once(tx: Tx, new_run: NewRun, reason: str) -> None:
    """Records why no run is started, unless the last record of the job has the same reason."""
    if not any(run_details(run).message == reason for run in await tx.runs.latest(new_run.job, 1)):
        await skip_run(tx, new_run, reason)


class LastDue(Struct, frozen=True):
    """The last due time that has passed, and the number of due times before it since the last check."""

    due: int
    before: int
    is_more: bool = False


def last_due(plan: JobPlan, first: int, now: int) -> LastDue | None:
    """Returns the last due time between `first` and `now`; None if there is none. If `first` is no longer a
    due time, because time zone data has changed, the search begins at the previous check. After a long
    absence, earlier due times are counted only up to a limit."""
    table, where = parse(plan.scheduled_at), zone(plan.timezone)
    beginning, end = first // MINUTE, now // MINUTE
    is_due = next_due(table, where, beginning - 1) == beginning
    former = beginning - (1 if is_due else UNKNOWN_ZONE_PAUSE // MINUTE)
    due: list[int] = []
    for minutes in _LOOK_BACK:
        after = max(former, end - minutes)
        due = [*due_times(table, where, after, end)]
        if due or after == former:
            break
    if not due:
        return None
    before = 0
    for _ in due_times(table, where, former, due[-1] - 1):
        if before == _MAX_COUNTED_DUE_TIMES:
            break
        before += 1
    return LastDue(due[-1] * MINUTE, before, before == _MAX_COUNTED_DUE_TIMES)


def _and_others(last_due: LastDue) -> str:
    if not last_due.before:
        return ""
    more = "more than " if last_due.is_more else ""
    return f", and {more}{last_due.before} due time{'s' if last_due.before > 1 else ''} before it"
