"""Moves due times of work and timetables earlier if the clock was set back while no server ran.

Due times are stored: by a clock that was ahead, work that was due soon would wait for days.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from windlass.base.clock import HOUR, MINUTE
from windlass.control.records.runs import TIMETABLES, due_after, plan_of
from windlass.core.words.due_times import UnknownZone
from windlass.store import TimetableRow, Tx

LONGEST_WAIT: Final = HOUR
"""Work that is due later may have been asked for by a clock that was ahead. An early check is harmless."""


async def follow_earlier_clock(tx: Tx) -> None:
    """Moves due times nearer if the present clock reaches them sooner. A due time that already had its run
    gets no second one."""
    await tx.work.bring_nearer(tx.now + LONGEST_WAIT)
    for timetable in await tx.timetables.after(tx.now):
        with suppress(UnknownZone):  # it is looked at once an hour
            await _bring_nearer(tx, timetable)


async def _bring_nearer(tx: Tx, timetable: TimetableRow) -> None:
    plan = plan_of(timetable)
    due = due_after(plan, tx.now)
    if due >= timetable.due:  # as for nearly all of them: a start computes no more than this
        return
    # One that waits for the data of its time zone has a time that is not due, with missed ones before it.
    if due_after(plan, timetable.due - MINUTE) == timetable.due:
        await tx.timetables.move(timetable.job, due)
        await tx.work.schedule(TIMETABLES, TIMETABLES, due)
