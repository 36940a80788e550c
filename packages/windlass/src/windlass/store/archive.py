"""A whole database, read in one moment or filled in one transaction, whatever the other database was.

The list of tables comes from the migrations, which are run once more, in memory. So an archive of an older
Windlass is filled into tables of its own time, and the later migrations bring it up to date.
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
_INDEX_MADE: Final = re.compile(r"\s*CREATE (?:UNIQUE )?INDEX (\w+)")
_INDEX_DROPPED: Final = re.compile(r"\s*DROP INDEX (\w+)")


class ArchiveTable(Struct, frozen=True):
    name: str
    columns: tuple[str, ...]
    binary: tuple[int, ...] = ()
    """Positions of the columns that contain bytes."""


class ArchiveConnection(DatabaseSession, Protocol):
    """A connection of its own, inside one transaction."""

    database: str
    """The name and version of the database, such as `SQLite 3.51.3`."""

    def stream(self, statement: str) -> AsyncIterator[Sequence[Any]]:
        """Row by row, so that a table of any size fits into memory."""
        ...

    async def run(self, statement: str) -> None: ...

    async def fill(self, table: ArchiveTable, rows: Rows) -> None: ...

    async def has(self, table: str) -> bool: ...

    async def now(self) -> int:
        """Returns the time by the clock that the servers of the database follow."""
        ...

    async def commit(self) -> None:
        """Commits the transaction. If the connection is closed before, nothing is changed."""
        ...


@cache
def tables(level: int) -> tuple[ArchiveTable, ...]:
    """The tables after that many migrations."""
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
    """The whole database as it was when reading began."""

    def __init__(self, line: ArchiveConnection) -> None:
        self._line = line
        self.database = line.database
        self.now = line.now

    async def applied(self) -> dict[int, str]:
        """Migrations by number, with their checksums; none if nothing was ever kept here."""
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
        """Services that this database deleted."""
        if not await self._line.has("tombstone"):
            return set()
        return {row[0] for row in await self._line.all(deletions.TOMBSTONES)}

    async def volumes(self) -> dict[str, set[str]]:
        """Returns the names of all volumes that hold data, by service."""
        names: dict[str, set[str]] = {}
        rows = await self._line.all(volumes.ALL) if await self._line.has("volume") else ()
        for service, name in rows:
            names.setdefault(service, set()).add(name)
        return names

    def events(self) -> AsyncIterator[Sequence[Any]]:
        """Yields all events in order, each as an `EventRow`."""
        return self._line.stream(events.ALL)

    def rows(self, table: ArchiveTable) -> AsyncIterator[Sequence[Any]]:
        return self._line.stream(f"SELECT {', '.join(table.columns)} FROM {table.name}")


class Refill:
    """Replaces the whole contents of a database. Indexes are made after the rows: in the order of an index,
    instead of at random places of each index for each row."""

    def __init__(self, line: ArchiveConnection) -> None:
        self._line = line
        self._indexes: dict[str, str] = {}
        """The statements that make indexes, by the name of the index."""

    async def occupied(self) -> bool:
        """Returns whether there is data that a refill would destroy."""
        return await self._line.has("resource") and await self._line.one("SELECT 1 FROM resource") is not None

    async def clear(self, applied: Mapping[int, str]) -> tuple[ArchiveTable, ...]:
        """Creates empty tables as they were after these migrations."""
        for table in await Snapshot(self._line).tables() if await self._line.has("migration") else ():
            await self._line.run(f"DROP TABLE {table.name}")
        await self._line.run(RECORDS)
        for migration in migrations()[: level(applied)]:
            for statement in migration.statements:
                await self._run_or_put_off(statement)
        emptied = tables(level(applied))
        for table in emptied:
            await self._line.run(f"DELETE FROM {table.name}")  # migrations may put rows there
        return emptied

    async def _run_or_put_off(self, statement: str) -> None:
        if index := _INDEX_MADE.match(statement):
            self._indexes[index[1]] = statement
        elif index := _INDEX_DROPPED.match(statement):
            del self._indexes[index[1]]
        else:
            await self._line.run(statement)

    async def fill(self, table: ArchiveTable, rows: Rows) -> None:
        await self._line.fill(table, rows)

    async def finish(self, applied: Mapping[int, str]) -> None:
        """Creates the indexes, applies the later migrations, and commits."""
        for statement in self._indexes.values():
            await self._line.run(statement)
        for migration in find_missing(migrations(), applied):
            for statement in migration.statements:
                await self._line.run(statement)
        await self._line.run("DELETE FROM migration")
        for migration in migrations():
            await self._line.one(RECORD, *migration.record)
        await self._line.run("DELETE FROM place_owner")  # the server that starts with it owns its place
        await self._line.run("DELETE FROM key_holder")
        # A session that was ended after the backup, or a link that was used, would be valid again.
        await self._line.run("DELETE FROM browser_session")
        await self._line.commit()


def level(applied: Mapping[int, str]) -> int:
    """Returns the number of applied migrations; refuses unknown ones."""
    return len(migrations()) - len(find_missing(migrations(), applied))
