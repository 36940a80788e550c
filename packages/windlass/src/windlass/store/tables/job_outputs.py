"""Job outputs: the sealed content of each job's last output file."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from windlass.store.tables.table import ChangeSession, Table, columns, places


class JobOutputRow(Struct, frozen=True, gc=False):
    job: str
    org: str
    sealed: bytes


_COLUMNS: Final = columns(JobOutputRow)
GET: Final = f"SELECT {_COLUMNS} FROM job_output WHERE job = $1"
# Databases return the length of a long value without reading the value.
SIZE_BESIDE: Final = """
SELECT SUM(LENGTH(job_output.sealed)) FROM resource CROSS JOIN job_output
WHERE resource.parent = $1 AND job_output.job = resource.id AND resource.id <> $2"""
SET: Final = f"""
INSERT INTO job_output ({_COLUMNS}) VALUES ({places(len(JobOutputRow.__struct_fields__))})
ON CONFLICT (job) DO UPDATE SET sealed = excluded.sealed"""
DELETE_OF_JOB: Final = "DELETE FROM job_output WHERE job = $1"


class JobOutputTable(Table):
    __slots__ = ()

    async def get(self, job: str) -> JobOutputRow | None:
        row = await self._session.one(GET, job)
        return JobOutputRow(row[0], row[1], bytes(row[2])) if row else None

    async def size_beside(self, environment: str, job: str) -> int:
        """Returns the bytes of the outputs of the other jobs of an environment."""
        row = await self._session.one(SIZE_BESIDE, environment, job)
        return int((row and row[0]) or 0)


class JobOutputChanges(JobOutputTable):
    __slots__ = ()
    _session: ChangeSession

    async def set(self, row: JobOutputRow) -> None:
        await self._session.all(SET, *msgspec.structs.astuple(row))

    async def delete_of(self, job: str) -> None:
        await self._session.all(DELETE_OF_JOB, job)
