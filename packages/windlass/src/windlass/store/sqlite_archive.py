"""Snapshots and replacement of an SQLite database, for backups."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import apsw

from windlass.base.clock import SystemClock
from windlass.base.private import private_file
from windlass.store.archive import ArchiveTable, Rows
from windlass.store.sqlite import SqliteSession, check_version, connect, lock_database


class SqliteArchive(SqliteSession):
    def __init__(self, connection: apsw.Connection) -> None:
        super().__init__(connection)
        self._connection = connection
        self.database = f"SQLite {apsw.sqlite_lib_version()}"

    async def stream(self, statement: str) -> AsyncIterator[Any]:
        for row in self._connection.execute(statement):
            yield row

    async def run(self, statement: str) -> None:
        self._connection.execute(statement)

    async def fill(self, table: ArchiveTable, rows: Rows) -> None:
        places = ", ".join("?" for _ in table.columns)
        statement = f"INSERT INTO {table.name} ({', '.join(table.columns)}) VALUES ({places})"
        self._connection.executemany(statement, rows)

    async def has(self, table: str) -> bool:
        rows = self._connection.execute(
            "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = $1", (table,)
        )
        return rows.fetchone() is not None

    async def now(self) -> int:
        return SystemClock().now()

    async def commit(self) -> None:
        self._connection.execute("COMMIT")


@contextlib.contextmanager
def reading_snapshot(path: Path) -> Iterator[SqliteArchive]:
    """Opens a read-only snapshot. The server may continue to write."""
    check_version()
    # Closing a read-only connection never starts a checkpoint, which would delay the server.
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    with contextlib.closing(connection):
        connection.set_busy_timeout(5_000)
        connection.execute("BEGIN; SELECT count(*) FROM sqlite_schema")
        yield SqliteArchive(connection)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[SqliteArchive]:
    """Opens a transaction that replaces the whole content of a database, which no other process may have
    open.

    Nothing changes without a commit.
    """
    check_version()
    with contextlib.closing(lock_database(path)):
        private_file(path)
        with contextlib.closing(connect(path)) as connection:
            # No WAL until the server starts: without it, every page is written once. With it, pages of large
            # indexes are written whenever they leave the cache, and once more at the end.
            connection.pragma("journal_mode", "delete")
            connection.execute("BEGIN IMMEDIATE")
            yield SqliteArchive(connection)
