"""Moves the due times of work and timetables to earlier times if the clock was set back while no server ran.

Due times are stored as absolute times. If the clock was ahead, work that should be due soon would wait for
days.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from windlass.base.clock import HOUR, MINUTE
from windlass.control.records.runs import TIMETABLES_WORK, due_after, plan_of
from windlass.core.words.due_times import UnknownZone
from windlass.store import TimetableRow, Tx

MAX_WAIT: Final = HOUR
"""The longest wait that is kept. Work with a later due time may have been scheduled while the clock was
ahead. An early check is harmless."""


async def follow_earlier_clock(tx: Tx) -> None:
    """Moves due times to earlier times if the current clock requires it. A due time whose run was started is
    not repeated."""
    await tx.work.bring_nearer(tx.now + MAX_WAIT)
    for timetable in await tx.timetables.after(tx.now):
        with suppress(UnknownZone):  # the hourly check handles unknown time zones
            await _move_earlier(tx, timetable)


async def _move_earlier(tx: Tx, timetable: TimetableRow) -> None:
    plan = plan_of(timetable)
    due = due_after(plan, tx.now)
    if due >= timetable.due:  # the usual case
        return
    # A timetable that waits for its time zone data has a due time that is only a check, with missed due times
    # before it. It is not moved.
    if due_after(plan, timetable.due - MINUTE) == timetable.due:
        await tx.timetables.move(timetable.job, due)
        await tx.work.schedule(TIMETABLES_WORK, TIMETABLES_WORK, due)
