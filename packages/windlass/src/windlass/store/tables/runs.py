"""Runs: each execution of a job, numbered per job."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from windlass.store.tables.deployments import OPEN_STATES as OPEN_DEPLOYMENTS
from windlass.store.tables.table import NEVER, ChangeSession, Table, columns, places


class RunRow(Struct, frozen=True, gc=False):
    id: str
    org: str
    job: str
    number: int
    generation: int
    """The generation by which engines identify the run. It is unique, and greater than those of all
    deployments."""
    deployment: str
    """The deployment whose version of the job is run."""
    cause: str
    status: str
    due: int
    """The scheduled time of the run; 0 for unscheduled runs."""
    created: int
    awaited_by: str
    """The deployment that waits for the end of the run; empty if there is none."""
    body: bytes


# In the same notation as the condition of the index `run_open`, because SQLite compares the texts.
OPEN_STATES: Final = "'QUEUED', 'RUNNING'"
_COLUMNS: Final = columns(RunRow)
GET: Final = f"SELECT {_COLUMNS} FROM run WHERE id = $1"
OPEN: Final = f"SELECT {_COLUMNS} FROM run WHERE job = $1 AND status IN ({OPEN_STATES}) ORDER BY number"
VERSIONS: Final = f"SELECT DISTINCT deployment FROM run WHERE job = $1 AND status IN ({OPEN_STATES})"
LATEST_UP_TO_NUMBER: Final = f"""
SELECT {_COLUMNS} FROM run WHERE job = $1 AND number <= $2 ORDER BY number DESC LIMIT $3"""
AWAITED: Final = f"""
SELECT {_COLUMNS} FROM run WHERE awaited_by = $1 AND awaited_by <> '' ORDER BY number DESC LIMIT 1"""
COUNT: Final = "SELECT count(*) FROM run WHERE job = $1"
PAGE: Final = f"SELECT {_COLUMNS} FROM run WHERE job = $1 ORDER BY number DESC LIMIT $2 OFFSET $3"
NEXT_NUMBER: Final = """
INSERT INTO run_count (job, runs) VALUES ($1, 1) ON CONFLICT (job) DO UPDATE SET runs = run_count.runs + 1
RETURNING runs"""
ADD: Final = f"""
INSERT INTO run ({_COLUMNS}) VALUES ({places(len(RunRow.__struct_fields__))})
ON CONFLICT DO NOTHING RETURNING id"""
CHANGE: Final = "UPDATE run SET status = $1, deployment = $2, body = $3 WHERE id = $4"
# A deployment that has not read the end of its run yet would start another run.
PURGE_FAILED: Final = f"""
DELETE FROM run WHERE job = $1 AND status = 'FAILED' AND NOT EXISTS (
    SELECT 1 FROM deployment WHERE id = run.awaited_by AND status IN ({OPEN_DEPLOYMENTS})
) RETURNING id"""
# The newest runs of a state, but for those whose end a deployment has not read yet.
_ENDED_AND_READ: Final = f"""NOT EXISTS (
    SELECT 1 FROM deployment WHERE id = run.awaited_by AND status IN ({OPEN_DEPLOYMENTS})
)"""
KEEP_NEWEST: Final = f"""
DELETE FROM run WHERE job = $1 AND status = $2 AND {_ENDED_AND_READ} AND number <= (
    SELECT number FROM run WHERE job = $1 AND status = $2 ORDER BY number DESC LIMIT 1 OFFSET $3
)"""
DELETE_ENDED: Final = f"DELETE FROM run WHERE id = $1 AND status NOT IN ({OPEN_STATES}) AND {_ENDED_AND_READ}"
DELETE_ENDED_UP_TO: Final = (
    f"DELETE FROM run WHERE job = $1 AND number <= $2 AND status NOT IN ({OPEN_STATES})"
)
DELETE_OF_JOB: Final = "DELETE FROM run WHERE job = $1"
DELETE_COUNT: Final = "DELETE FROM run_count WHERE job = $1"


class RunTable(Table):
    __slots__ = ()

    async def get(self, id: str) -> RunRow | None:
        row = await self._session.one(GET, id)
        return RunRow(*row) if row else None

    async def open(self, job: str) -> list[RunRow]:
        """Returns the waiting and running runs of a job, the oldest first."""
        return [RunRow(*row) for row in await self._session.all(OPEN, job)]

    async def versions(self, job: str) -> list[str]:
        """Returns the deployments whose builds the open runs of a job need."""
        return [row[0] for row in await self._session.all(VERSIONS, job)]

    async def latest(self, job: str, limit: int, newest_number: int = NEVER) -> list[RunRow]:
        return [
            RunRow(*row) for row in await self._session.all(LATEST_UP_TO_NUMBER, job, newest_number, limit)
        ]

    async def awaited_by(self, deployment: str) -> RunRow | None:
        """Returns the last run that a deployment waits for."""
        row = await self._session.one(AWAITED, deployment)
        return RunRow(*row) if row else None

    async def count(self, job: str) -> int:
        row = await self._session.one(COUNT, job)
        return int(row[0]) if row else 0

    async def page(self, job: str, skip: int, limit: int) -> list[RunRow]:
        """Returns a page of runs, the newest first. An offset is cheap, because few runs of a job are
        kept."""
        return [RunRow(*row) for row in await self._session.all(PAGE, job, limit, skip)]


class RunChanges(RunTable):
    __slots__ = ()
    _session: ChangeSession

    async def next_number(self, job: str) -> int:
        row = await self._session.one(NEXT_NUMBER, job)
        assert row is not None
        return int(row[0])

    async def add(self, row: RunRow) -> bool:
        """Adds a run. Returns False if the job already has a run for this scheduled time."""
        return bool(await self._session.all(ADD, *msgspec.structs.astuple(row)))

    async def change(self, row: RunRow) -> None:
        await self._session.all(CHANGE, row.status, row.deployment, row.body, row.id)

    async def purge_failed(self, job: str) -> list[str]:
        """Deletes failed runs, unless an open deployment waits for them. Returns their ids."""
        return [row[0] for row in await self._session.all(PURGE_FAILED, job)]

    async def keep_newest(self, job: str, status: str, count: int) -> None:
        """Deletes the runs of a final state except the newest `count`, and those that a deployment awaits."""
        await self._session.all(KEEP_NEWEST, job, status, count)

    async def expire(self, id: str) -> None:
        """Deletes a finished run, unless an open deployment waits for it."""
        await self._session.all(DELETE_ENDED, id)

    async def trim(self, job: str, newest_number: int) -> None:
        """Deletes finished runs up to number `newest_number`."""
        await self._session.all(DELETE_ENDED_UP_TO, job, newest_number)

    async def delete_of(self, job: str) -> None:
        await self._session.all(DELETE_OF_JOB, job)
        await self._session.all(DELETE_COUNT, job)
