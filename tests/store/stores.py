"""A store alone, without HTTP, and a look past it into the tables."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import apsw
import asyncpg

from tests.world import HandClock
from windlass.base import ids
from windlass.base.clock import Clock
from windlass.config import DATABASE, Settings
from windlass.install.composition import open_store
from windlass.store import Row, Store, Tx

ORG = "00000000-0000-4000-8000-00000000000a"
TABLES = (
    "resource",
    "tally",
    "hole",
    "link",
    "status",
    "deployment",
    "host",
    "event",
    "work",
    "token",
    "identity",
    "idempotency",
    "budget",
    "counter",
    "fact",
)


class Place:
    """The place of a database: a folder, and the address of PostgreSQL if it is one."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder

    @property
    def file(self) -> Path:
        return self.folder / DATABASE

    @contextlib.asynccontextmanager
    async def opened(self, clock: Clock | None = None) -> AsyncIterator[Store]:
        settings = Settings(data_dir=str(self.folder), database_url=self.url)
        store = await open_store(settings, clock or HandClock())
        try:
            yield store
        finally:
            await store.close()

    async def sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Asks the database itself, over a connection of its own."""
        if not self.url:
            await asyncio.sleep(0)  # as long as it takes any other process to get a word in
            with contextlib.closing(apsw.Connection(str(self.file))) as file:
                file.set_busy_timeout(5_000)
                return [tuple(row) for row in file.execute(statement, values)]
        connection = await asyncpg.connect(self.url)
        try:
            return [tuple(row) for row in await connection.fetch(statement, *values)]
        finally:
            await connection.close()

    async def everything(self) -> dict[str, list[tuple[Any, ...]]]:
        return {table: sorted(await self.sql(f"SELECT * FROM {table}"), key=repr) for table in TABLES}


async def add(tx: Tx, name: str, parent: str = ORG, family: str = "project", body: bytes = b"") -> Row:
    """A resource with its event, as the product makes them."""
    place, created = await tx.lists.place(parent, family)
    row = Row(
        ids.new_id(), family, ORG, parent, place, name, created, ids.new_tag(), body or name.encode(), None
    )
    await tx.resources.add(row)
    tx.emit("CREATE", ORG, row.id, name.encode())
    return row


async def execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


async def until(holds: Callable[[], Any]) -> None:
    """Waits for what will come, however long it takes; the test's own limit ends it."""
    while True:
        found = holds()
        if await found if asyncio.iscoroutine(found) else found:
            return
        await asyncio.sleep(0.01)


async def names(store: Store, parent: str = ORG, family: str = "project") -> list[str]:
    """Returns the names of the list, which also says how long it is."""
    bodies, total = await store.reads.lists.page(parent, family, 0, 2**31 - 1)
    assert total == len(bodies)
    return [body.decode() for body in bodies]
