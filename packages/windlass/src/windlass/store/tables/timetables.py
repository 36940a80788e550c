"""Timetables: for each job, the version that its runs start, and the time of its next scheduled run."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from windlass.store.tables.table import NEVER, ChangeSession, Table, columns, places


class TimetableRow(Struct, frozen=True, gc=False):
    job: str
    org: str
    deployment: str
    due: int
    """The time of the next run; `NEVER` for a stopped job, and for a job that waits for events."""
    body: bytes


_COLUMNS: Final = columns(TimetableRow)
GET: Final = f"SELECT {_COLUMNS} FROM timetable WHERE job = $1"
DUE: Final = f"SELECT {_COLUMNS} FROM timetable WHERE due <= $1 ORDER BY due, job LIMIT $2"
AFTER: Final = f"SELECT {_COLUMNS} FROM timetable WHERE due > $1 AND due < $2"
NEXT_DUE: Final = "SELECT min(due) FROM timetable"
SET: Final = f"""
INSERT INTO timetable ({_COLUMNS}) VALUES ({places(len(TimetableRow.__struct_fields__))})
ON CONFLICT (job) DO UPDATE SET deployment = excluded.deployment, due = excluded.due, body = excluded.body"""
SET_DUE: Final = "UPDATE timetable SET due = $1 WHERE job = $2"
DELETE_OF_JOB: Final = "DELETE FROM timetable WHERE job = $1"


class TimetableTable(Table):
    __slots__ = ()

    async def get(self, job: str) -> TimetableRow | None:
        row = await self._session.one(GET, job)
        return TimetableRow(*row) if row else None

    async def due(self, until: int, limit: int) -> list[TimetableRow]:
        """Returns the due timetables, the longest overdue first."""
        return [TimetableRow(*row) for row in await self._session.all(DUE, until, limit)]

    async def after(self, timestamp: int) -> list[TimetableRow]:
        """Returns the timetables that are due later."""
        return [TimetableRow(*row) for row in await self._session.all(AFTER, timestamp, NEVER)]

    async def next_due(self) -> int | None:
        """Returns the time when the next timetable is due; None if there are none."""
        row = await self._session.one(NEXT_DUE)
        return None if row is None or row[0] is None else int(row[0])


class TimetableChanges(TimetableTable):
    __slots__ = ()
    _session: ChangeSession

    async def set(self, row: TimetableRow) -> None:
        await self._session.all(SET, *msgspec.structs.astuple(row))

    async def move(self, job: str, due_at: int) -> None:
        await self._session.all(SET_DUE, due_at, job)

    async def delete_of(self, job: str) -> None:
        await self._session.all(DELETE_OF_JOB, job)
