"""Reads a snapshot of a whole database, or replaces its content, for backups. Works across both databases.

The tables of a version are determined by running its migrations in memory. The backup of an older Windlass is
therefore restored into tables of the older version, and the later migrations update them.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, Protocol

import apsw
from msgspec import Struct

from windlass.store.migrate import APPLIED, RECORD, RECORDS, find_missing, migrations
from windlass.store.tables import deletions, events, volumes
from windlass.store.tables.table import DatabaseSession
from windlass.store.transaction import Reads

Rows = Sequence[Sequence[Any]]
_INDEX_MADE_PATTERN: Final = re.compile(r"\s*CREATE (?:UNIQUE )?INDEX (\w+)")
_INDEX_DROPPED_PATTERN: Final = re.compile(r"\s*DROP INDEX (\w+)")


class ArchiveTable(Struct, frozen=True):
    name: str
    columns: tuple[str, ...]
    binary: tuple[int, ...] = ()
    """Indexes of the columns that contain bytes."""


class ArchiveConnection(DatabaseSession, Protocol):
    """A separate connection to the database, inside one transaction."""

    database: str
    """The name and version of the database, such as `SQLite 3.51.3`."""

    def stream(self, statement: str) -> AsyncIterator[Sequence[Any]]:
        """Yields the rows of a query one by one, so that a table of any size fits into memory."""
        ...

    async def run(self, statement: str) -> None: ...

    async def fill(self, table: ArchiveTable, rows: Rows) -> None: ...

    async def has(self, table: str) -> bool: ...

    async def now(self) -> int:
        """Returns the time of the clock that the servers of this database follow."""
        ...

    async def commit(self) -> None:
        """Commits the transaction. Closing the connection without a commit discards all changes."""
        ...


@cache
def tables(level: int) -> tuple[ArchiveTable, ...]:
    """Returns the tables after the first `level` migrations."""
    database = apsw.Connection(":memory:")
    database.execute(RECORDS)
    for migration in migrations()[:level]:
        for statement in migration.statements:
            database.execute(statement)
    names = database.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
    ).fetchall()
    return tuple(_table(database, str(name)) for (name,) in names)


def _table(database: apsw.Connection, name: str) -> ArchiveTable:
    facts = "SELECT name, type FROM pragma_table_info($1) ORDER BY cid"
    columns = database.execute(facts, (name,)).fetchall()
    binary = tuple(place for place, (_, kind) in enumerate(columns) if kind == "BYTEA")
    return ArchiveTable(name, tuple(str(column) for column, _ in columns), binary)


class Snapshot:
    """A snapshot of the whole database."""

    def __init__(self, line: ArchiveConnection) -> None:
        self._line = line
        self.database = line.database
        self.now = line.now

    async def applied(self) -> dict[int, str]:
        """Returns the checksums of the applied migrations, by number; empty if the database was never
        used."""
        if not await self._line.has("migration"):
            return {}
        return {row[0]: row[1] for row in await self._line.all(APPLIED)}

    async def tables(self) -> tuple[ArchiveTable, ...]:
        return tables(level(await self.applied()))

    async def fact(self, name: str) -> bytes | None:
        return await Reads(self._line).facts.get(name)

    async def last_change(self) -> int | None:
        """Returns the time of the newest event."""
        return await Reads(self._line).events.last_time()

    @property
    def reads(self) -> Reads:
        return Reads(self._line)

    async def deleted(self) -> set[str]:
        """Returns the services that were deleted in this database."""
        if not await self._line.has("tombstone"):
            return set()
        return {row[0] for row in await self._line.all(deletions.TOMBSTONES)}

    async def volumes(self) -> dict[str, set[str]]:
        """Returns the names of all volumes with data, by service."""
        names: dict[str, set[str]] = {}
        rows = await self._line.all(volumes.ALL) if await self._line.has("volume") else ()
        for service, name in rows:
            names.setdefault(service, set()).add(name)
        return names

    def events(self) -> AsyncIterator[Sequence[Any]]:
        """Yields all events in order. Each row has the fields of an `EventRow`."""
        return self._line.stream(events.ALL)

    def rows(self, table: ArchiveTable) -> AsyncIterator[Sequence[Any]]:
        return self._line.stream(f"SELECT {', '.join(table.columns)} FROM {table.name}")


class Refill:
    """Replaces the whole content of a database.

    Indexes are created after all rows were inserted, which is faster than updating every index for each row.
    """

    def __init__(self, line: ArchiveConnection) -> None:
        self._line = line
        self._indexes: dict[str, str] = {}
        """The statements that create indexes, by index name."""

    async def occupied(self) -> bool:
        """Returns whether the database contains data that a refill would destroy."""
        return await self._line.has("resource") and await self._line.one("SELECT 1 FROM resource") is not None

    async def clear(self, applied_migrations: Mapping[int, str]) -> tuple[ArchiveTable, ...]:
        """Drops all tables, and creates empty tables with the given migrations."""
        for table in await Snapshot(self._line).tables() if await self._line.has("migration") else ():
            await self._line.run(f"DROP TABLE {table.name}")
        await self._line.run(RECORDS)
        for migration in migrations()[: level(applied_migrations)]:
            for statement in migration.statements:
                await self._run_or_put_off(statement)
        emptied = tables(level(applied_migrations))
        for table in emptied:
            await self._line.run(f"DELETE FROM {table.name}")  # migrations may insert rows
        return emptied

    async def _run_or_put_off(self, statement: str) -> None:
        if index := _INDEX_MADE_PATTERN.match(statement):
            self._indexes[index[1]] = statement
        elif index := _INDEX_DROPPED_PATTERN.match(statement):
            del self._indexes[index[1]]
        else:
            await self._line.run(statement)

    async def fill(self, table: ArchiveTable, rows: Rows) -> None:
        await self._line.fill(table, rows)

    async def finish(self, applied_migrations: Mapping[int, str]) -> None:
        """Creates the indexes, applies the later migrations, and commits."""
        for statement in self._indexes.values():
            await self._line.run(statement)
        for migration in find_missing(migrations(), applied_migrations):
            for statement in migration.statements:
                await self._line.run(statement)
        await self._line.run("DELETE FROM migration")
        for migration in migrations():
            await self._line.one(RECORD, *migration.record)
        await self._line.run("DELETE FROM place_owner")  # the next server owns its place
        await self._line.run("DELETE FROM key_holder")
        # A restored session or link may have been ended or used after the backup, and must not become valid
        # again.
        await self._line.run("DELETE FROM browser_session")
        await self._line.run("DELETE FROM password_link")
        await self._line.commit()


def level(applied_migrations: Mapping[int, str]) -> int:
    """Returns the number of applied migrations. Raises Changed for migrations that this version does not
    have."""
    return len(migrations()) - len(find_missing(migrations(), applied_migrations))
