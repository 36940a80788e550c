"""Opens the database of the settings for commands that run beside the server or without it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from windlass.config import DATABASE, Settings
from windlass.store.archive import ArchiveConnection
from windlass.terminal.command_errors import CommandRefused


@contextlib.asynccontextmanager
async def reading_snapshot(settings: Settings) -> AsyncIterator[ArchiveConnection]:
    """Opens a read-only snapshot of the database. The server may be running and writing."""
    if settings.database_url:
        from windlass.store import postgres_archive  # noqa: PLC0415 (asyncpg is heavy, and often not needed)

        async with postgres_archive.reading_snapshot(settings.database_url) as line:
            yield line
    else:
        from windlass.store import sqlite_archive  # noqa: PLC0415 (only one database is used)

        if not file_of(settings).exists():
            raise CommandRefused(
                f"there is no database in {settings.data_dir} yet: `windlass serve` makes it"
            )
        with sqlite_archive.reading_snapshot(file_of(settings)) as line:
            yield line


@contextlib.asynccontextmanager
async def replacing(settings: Settings) -> AsyncIterator[ArchiveConnection]:
    """Opens the database to replace its whole content in one transaction. No server may be running."""
    if settings.database_url:
        from windlass.store import postgres_archive  # noqa: PLC0415 (asyncpg is heavy, and often not needed)

        async with postgres_archive.replacing(settings.database_url) as line:
            yield line
    else:
        from windlass.store import sqlite_archive  # noqa: PLC0415 (only one database is used)

        with sqlite_archive.replacing(file_of(settings)) as line:
            yield line


def file_of(settings: Settings) -> Path:
    return Path(settings.data_dir) / DATABASE
