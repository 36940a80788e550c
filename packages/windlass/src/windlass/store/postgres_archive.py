"""Snapshots and replacement of a PostgreSQL database, for backups."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import asyncpg

from windlass.store.archive import ArchiveTable, Rows
from windlass.store.postgres import LISTEN, MIGRATION_LOCK, WRITER_LOCK, PostgresSession
from windlass.store.postgres_clock import NOW
from windlass.store.postgres_limits import first_connection
from windlass.store.sqlite import InUse

_ROWS_AT_ONCE = 32
_MAX_CHECKS = 20


class PostgresArchive(PostgresSession):
    def __init__(self, connection: asyncpg.Connection[Any], transaction: Any) -> None:
        super().__init__(connection)
        self._transaction = transaction
        version = connection.get_server_version()
        self.database = f"PostgreSQL {version.major}.{version.minor}"

    async def stream(self, statement: str) -> AsyncIterator[Any]:
        async for row in self._connection.cursor(statement, prefetch=_ROWS_AT_ONCE):
            yield row

    async def run(self, statement: str) -> None:
        await self._connection.execute(statement)

    async def fill(self, table: ArchiveTable, rows: Rows) -> None:
        await self._connection.copy_records_to_table(table.name, records=rows, columns=table.columns)

    async def has(self, table: str) -> bool:
        row = await self.one(
            "SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = $1", table
        )
        return row is not None

    async def now(self) -> int:
        now: int = await self._connection.fetchval(NOW)
        return now

    async def commit(self) -> None:
        await self._transaction.commit()


@contextlib.asynccontextmanager
async def reading_snapshot(url: str) -> AsyncIterator[PostgresArchive]:
    """Opens a read-only snapshot. All replicas may continue to write."""
    async with _open_connection(url) as connection:
        transaction = connection.transaction(isolation="repeatable_read", readonly=True)
        await transaction.start()
        yield PostgresArchive(connection, transaction)


@contextlib.asynccontextmanager
async def replacing(url: str) -> AsyncIterator[PostgresArchive]:
    """Opens a transaction that replaces the whole content. No replica may run or start meanwhile.

    Nothing changes without a commit.
    """
    async with _open_connection(url) as connection:
        await connection.execute(f"SELECT pg_advisory_lock({MIGRATION_LOCK})")
        await _check_alone(connection)
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(f"SELECT pg_advisory_xact_lock({WRITER_LOCK})")
        yield PostgresArchive(connection, transaction)


@contextlib.asynccontextmanager
async def _open_connection(url: str) -> AsyncIterator[asyncpg.Connection[Any]]:
    connection = await first_connection(url)
    try:
        yield connection
    finally:
        await connection.close()


async def _check_alone(connection: asyncpg.Connection[Any]) -> None:
    """Raises InUse if a replica is running, which has a connection whose last query is LISTEN or the time
    query.

    Retries for a moment, because the connections of a replica that has just stopped may still be listed.
    """
    for _ in range(_MAX_CHECKS):
        listening = await connection.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query IN ($1, $2)",
            LISTEN,
            NOW,
        )
        if not listening:
            return
        await asyncio.sleep(0.1)
    raise InUse("another Windlass runs on this database: stop every replica first")
