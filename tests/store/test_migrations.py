"""Each migration runs exactly once and as a whole, with any number of servers and after any kill."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest

from tests.world import HandClock
from windlass.store import postgres as on_postgres
from windlass.store import sqlite as on_sqlite
from windlass.store.migrate import Changed, Migration, migrations
from windlass.store.postgres import PostgresStore
from windlass.store.sqlite import InUse, SqliteStore

LAST = max(migration.number for migration in migrations())
# It makes a table, puts something into it and changes something: each of them would be seen.
LATER = Migration(
    LAST + 1,
    f"{LAST + 1:04d}_colours.sql",
    "-- Colours.\nCREATE TABLE colour (id TEXT PRIMARY KEY);\n\n"
    "-- More of them.\nINSERT INTO colour (id) VALUES ('red; green');\n"
    "UPDATE counter SET value = 7 WHERE name = 'event';\n",
)
POISON = "SELECT no_such_column FROM no_such_table"
WRONG = (apsw.Error, asyncpg.PostgresError)


class Blank:
    """A database without a table, on either kind."""

    migrate: Callable[[Sequence[Migration]], Awaitable[None]]
    ask: Callable[[str], Awaitable[list[tuple[Any, ...]]]]
    listing: str

    async def relations(self) -> set[str]:
        """Tables, indexes and columns: whatever a migration could have made, except its own records."""
        return {row[0] for row in await self.ask(self.listing) if "migration" not in row[0]}


class BlankFile(Blank):
    listing = """
        SELECT name FROM sqlite_schema UNION ALL
        SELECT made.name || '.' || part.name
        FROM sqlite_schema AS made, pragma_table_info(made.name) AS part"""

    def __init__(self, file: apsw.Connection) -> None:
        self._file = file

    async def ask(self, statement: str) -> list[tuple[Any, ...]]:
        return self._file.execute(statement).fetchall()

    async def migrate(self, wanted: Sequence[Migration]) -> None:
        on_sqlite.migrate(self._file, wanted)


class BlankServer(Blank):
    listing = """
        SELECT relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE nspname = 'public' UNION ALL
        SELECT table_name || '.' || column_name FROM information_schema.columns
        WHERE table_schema = 'public'"""

    def __init__(self, connection: asyncpg.Connection[Any]) -> None:
        self._connection = connection

    async def ask(self, statement: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in await self._connection.fetch(statement)]

    async def migrate(self, wanted: Sequence[Migration]) -> None:
        await on_postgres.migrate(self._connection, wanted)


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest) -> str:
    return "" if request.param == "sqlite" else str(request.getfixturevalue("empty_database"))


@pytest.fixture
async def blank(address: str, tmp_path: Path) -> AsyncIterator[Blank]:
    if not address:
        with contextlib.closing(on_sqlite.connect(tmp_path / "a.db")) as file:
            yield BlankFile(file)
        return
    connection = await asyncpg.connect(address)
    try:
        yield BlankServer(connection)
    finally:
        await connection.close()


def poisoned(migration: Migration, position: int) -> Migration:
    """The same migration, cut off after `position` statements."""
    text = ";\n".join([*migration.statements[:position], POISON]) + ";\n"
    return Migration(migration.number, migration.name, text)


# Checksums


async def test_an_applied_migration_is_not_applied_again(blank: Blank):
    await blank.migrate(migrations())
    before = await blank.relations()
    await blank.migrate(migrations())
    assert await blank.relations() == before
    assert len(await blank.ask("SELECT * FROM migration")) == len(migrations())


async def test_a_migration_that_was_changed_afterwards_is_refused_by_name(blank: Blank):
    await blank.migrate([*migrations(), LATER])
    changed = Migration(LATER.number, LATER.name, LATER.text.replace("red", "blue"))
    with pytest.raises(Changed, match=LATER.name) as refusal:
        await blank.migrate([*migrations(), changed])
    assert "changed after it had been applied" in str(refusal.value)
    await blank.migrate([*migrations(), LATER])


async def test_a_database_of_a_later_version_is_refused(blank: Blank):
    await blank.migrate([*migrations(), LATER])
    with pytest.raises(Changed, match="by a later version of Windlass"):
        await blank.migrate(migrations())


async def test_a_later_migration_is_applied_and_keeps_existing_rows(blank: Blank):
    await blank.migrate(migrations())
    await blank.ask("INSERT INTO fact (name, value) VALUES ('kept', 'kept')")
    await blank.migrate([*migrations(), LATER])
    assert await blank.ask("SELECT id FROM colour") == [("red; green",)]
    assert len(await blank.ask("SELECT * FROM fact WHERE name = 'kept'")) == 1
    applied = await blank.ask("SELECT number, name, checksum FROM migration ORDER BY number")
    assert applied == [one.record for one in [*migrations(), LATER]]


# Cut off


async def test_a_migration_interrupted_at_any_statement_is_rolled_back_and_completed_at_the_next_start(
    blank: Blank,
):
    for number, migration in enumerate([*migrations(), LATER]):
        done = [*migrations(), LATER][:number]
        before = await blank.relations()
        for position in range(len(migration.statements) + 1):
            with pytest.raises(WRONG):
                await blank.migrate([*done, poisoned(migration, position)])
            assert await blank.relations() == before
            assert len(await blank.ask("SELECT * FROM migration")) == number
        await blank.migrate([*done, migration])
        assert (await blank.relations() != before) == bool(migration.statements)
        assert len(await blank.ask("SELECT * FROM migration")) == number + 1
    assert await blank.ask("SELECT name, value FROM counter WHERE name = 'event'") == [("event", 7)]


def test_a_migration_file_is_split_between_statements_and_not_inside_literals():
    assert LATER.statements[1].strip() == "INSERT INTO colour (id) VALUES ('red; green')"
    assert len(LATER.statements) == 3


# Two at once


async def test_a_second_process_on_the_same_database_file_is_refused(tmp_path: Path):
    first = await SqliteStore.open(tmp_path / "a.db", HandClock())
    with pytest.raises(InUse, match="another Windlass runs on this data directory"):
        await SqliteStore.open(tmp_path / "a.db", HandClock())
    await first.close()
    second = await SqliteStore.open(tmp_path / "a.db", HandClock())
    await second.close()


async def test_a_failed_start_releases_the_database_file(tmp_path: Path):
    path = tmp_path / "a.db"
    path.write_bytes(b"This is no database, and much longer than the hundred bytes of a header. " * 20)
    with pytest.raises(apsw.NotADBError):
        await SqliteStore.open(path, HandClock())
    path.unlink()
    store = await SqliteStore.open(path, HandClock())
    await store.close()


async def test_replicas_that_start_at_once_migrate_once(empty_database: str):
    stores = await asyncio.gather(*(PostgresStore.open(empty_database, HandClock()) for _ in range(5)))
    connection = await asyncpg.connect(empty_database)
    assert await connection.fetchval("SELECT count(*) FROM migration") == len(migrations())
    assert await connection.fetchval("SELECT count(*) FROM counter WHERE name = 'event'") == 1
    await connection.close()
    for store in stores:
        await store.close()
