"""Reads beside changes are fresh, consistent, and never block changes."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import apsw
import pytest

from tests.store.changes import Mishap
from tests.store.stores import ORG, Place, add, names
from tests.world import HandClock
from windlass.config import Settings
from windlass.install.composition import open_store
from windlass.store import Row, Store, Tx
from windlass.store.sqlite import SqliteStore

BULKY = b"x" * 100_000
CHANGES = 300


@pytest.fixture
async def embedded(tmp_path: Path) -> AsyncIterator[Store]:
    store = await open_store(Settings(data_dir=str(tmp_path)), HandClock())
    yield store
    await store.close()


async def turn() -> None:
    await asyncio.sleep(0)


async def test_a_change_is_read_as_soon_as_its_write_has_returned(store: Store):
    async def change_and_read(number: int) -> None:
        await store.reads.lists.page(ORG, "project", 0, 1)
        row = await store.write(lambda tx: add(tx, f"n{number}"))
        assert await store.reads.resources.get(row.id) == row

    await asyncio.gather(*(change_and_read(number) for number in range(50)))


async def test_reads_in_one_event_loop_turn_see_the_same_snapshot(embedded: Store, tmp_path: Path):
    with contextlib.closing(apsw.Connection(str(tmp_path / "windlass.db"))) as other:
        assert await embedded.reads.facts.get("colour") is None
        other.execute("INSERT INTO fact (name, value) VALUES ('colour', 'red')")
        assert await embedded.reads.facts.get("colour") is None
        await turn()
        assert await embedded.reads.facts.get("colour") is not None


async def test_the_wal_does_not_grow_while_there_are_always_readers(embedded: Store, tmp_path: Path):
    reading = [asyncio.create_task(read_for_ever(embedded)) for _ in range(8)]
    await change(embedded)
    for one in reading:
        one.cancel()
    await asyncio.gather(*reading, return_exceptions=True)
    assert len(await names(embedded)) == CHANGES
    # SQLite copies a log of 4 MB into the file and starts it again: later on a busy machine.
    assert log_of(tmp_path) < CHANGES * len(BULKY) / 2


async def test_the_wal_grows_if_a_reader_keeps_its_transaction_open(embedded: Store, tmp_path: Path):
    with contextlib.closing(apsw.Connection(str(tmp_path / "windlass.db"))) as other:
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM resource").fetchall()
        await change(embedded)
    assert log_of(tmp_path) > CHANGES * len(BULKY)


async def change(store: Store) -> None:
    for number in range(CHANGES):
        await store.write(partial(add, name=f"n{number}", body=BULKY))


async def read_for_ever(store: Store) -> None:
    while True:
        await store.reads.lists.page(ORG, "project", 0, 3)
        await turn()


def log_of(folder: Path) -> int:
    return (folder / "windlass.db-wal").stat().st_size


async def test_a_store_can_be_closed_in_the_same_turn_as_a_read(place: Place):
    async with place.opened() as store:
        assert await store.reads.facts.get("colour") is None
    await turn()


async def test_a_snapshot_is_opened_while_a_change_is_under_way(tmp_path: Path):
    """Metrics and the audit's export read one, in a thread of their own."""
    store = await SqliteStore.open(tmp_path / "a.db", HandClock())
    slow = "WITH RECURSIVE n (x) AS (SELECT 1 UNION SELECT x + 1 FROM n LIMIT 2000000) SELECT max(x) FROM n"
    changing = asyncio.create_task(asyncio.to_thread(lambda: list(store._writer.execute(slow))))
    snapshots = 0
    while not changing.done():
        (await asyncio.to_thread(store.snapshot)).close()
        snapshots += 1
    await changing
    await store.close()
    assert snapshots > 1


async def test_a_page_is_correct_after_each_deletion_and_after_a_rolled_back_one(embedded: Store):
    """Sums that are remembered do not outlive a removal. The page lies behind 4096 places,
    which are a block of the second level."""
    chance, size, skip = random.Random(5), 5_200, 4_600

    async def fill(tx: Tx) -> list[Row]:
        rows = [await add(tx, str(number)) for number in range(size)]
        for number in range(0, size, 50):
            await tx.remove(rows[number])
        return [row for number, row in enumerate(rows) if number % 50]

    async def give_up(row: Row, tx: Tx) -> None:
        await tx.remove(row)
        await tx.lists.page(ORG, "project", skip, 3)
        raise Mishap

    left = await embedded.write(fill)
    for _ in range(20):
        other, before = chance.sample(left[:4_000], 2)
        gone = chance.choice([before, left[-1]])
        with pytest.raises(Mishap):
            await embedded.write(partial(give_up, other))
        await embedded.write(lambda tx, gone=gone: tx.remove(gone))  # type: ignore[misc]
        left.remove(gone)
        assert (await embedded.reads.lists.page(ORG, "project", skip, 3))[0] == [
            row.body for row in left[skip : skip + 3]
        ]
        page, _ = await embedded.write(lambda tx: tx.lists.page(ORG, "project", skip, 3))
        assert page == [row.body for row in left[skip : skip + 3]]
