"""A server of an older version beside one that has brought the database to a newer form."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from tests.store.changes import adds
from tests.store.stores import Place, names, until
from tests.store.test_migrations import LATER
from tests.world import make_world
from windlass.base.errors import Unavailable
from windlass.control.background import worker
from windlass.control.background.worker import Worker
from windlass.install import installation
from windlass.store.migrate import RECORD, migrations
from windlass.store.postgres import OUTDATED_ADVICE, WRITER_LOCK, migrate


@asynccontextmanager
async def connection_to(place: Place) -> AsyncIterator[asyncpg.Connection[Any]]:
    connection = await asyncpg.connect(place.url)
    try:
        yield connection
    finally:
        await connection.close()


async def bring_forward(place: Place) -> None:
    """Applies the migration of a newer version."""
    async with connection_to(place) as connection:
        await migrate(connection, [*migrations(), LATER])


async def test_an_older_server_can_read_but_not_write_after_a_migration(served: Place):
    async with served.opened() as store:
        await store.write(adds("before"))
        assert await store.problem() == ""
        await bring_forward(served)
        with pytest.raises(Unavailable, match="older than the database"):
            await store.write(adds("after"))
        assert await names(store) == ["before"]
        assert await store.problem() == OUTDATED_ADVICE


@pytest.mark.parametrize("applied", [True, False])
async def test_a_change_that_waits_for_a_migration_is_refused_after_it(served: Place, applied):
    """The control: where the migration is undone, the change is stored."""
    async with served.opened() as store, connection_to(served) as connection:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("SELECT pg_advisory_xact_lock($1)", WRITER_LOCK)
        await connection.execute(RECORD, *LATER.record)
        change = asyncio.create_task(store.write(adds("waiting")))
        await until(lambda: waits_for_the_lock(served))
        await (transaction.commit() if applied else transaction.rollback())
        if applied:
            with pytest.raises(Unavailable, match="older than the database"):
                await change
        else:
            await change
        assert await names(store) == ([] if applied else ["waiting"])


async def test_a_migration_waits_for_the_change_under_way(served: Place):
    async with served.opened() as store, connection_to(served) as connection:
        await store.write(adds("first"))
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", WRITER_LOCK)
            migration = asyncio.create_task(bring_forward(served))
            await until(lambda: waits_for_the_lock(served))
            assert not migration.done()
        await migration
        assert await store.problem() == OUTDATED_ADVICE


async def test_an_older_server_is_not_ready_and_answers_503_to_changes(served: Place):
    async with make_world(served.url, folder=served.folder) as world:
        assert (await world.get("/readyz")).status == 200
        before = await world.installation.ctx.store.reads.events.newest()
        await bring_forward(served)
        answer = await world.get("/readyz")
        assert (answer.status, answer.message) == (503, OUTDATED_ADVICE)
        answer = await world.post(f"/organization/{world.org}/project", {"name": "late"})
        assert (answer.status, answer.message) == (503, OUTDATED_ADVICE)
        assert (await world.get("/organization")).status == 200
        assert await world.installation.ctx.store.reads.events.newest() == before


@pytest.mark.parametrize("rest", [3600, 0])
async def test_an_older_server_pauses_before_it_retries_storing_engine_notices(
    served: Place, monkeypatch: pytest.MonkeyPatch, rest: int
):
    """The control: without a rest, it asks the database again at once, and delays newer servers."""
    monkeypatch.setattr(installation, "_DATABASE_RETRY_PAUSE", rest)
    async with make_world(served.url, folder=served.folder) as world:
        store, refusals = world.installation.ctx.store, asyncio.Queue[str]()
        write = store.write

        async def observed(change: Any) -> Any:
            try:
                return await write(change)
            except Unavailable as refusal:
                refusals.put_nowait(str(refusal))
                raise

        await bring_forward(served)
        monkeypatch.setattr(store, "write", observed)
        world.installation.note_change("a service")
        noting = asyncio.create_task(world.installation.note_changes())
        assert await refusals.get() == OUTDATED_ADVICE
        await asyncio.wait([noting], timeout=None if rest == 0 else 0.2)
        assert noting.done() == (rest == 0)
        noting.cancel()


async def test_the_log_of_an_older_server_says_what_to_do(served: Place, caplog: pytest.LogCaptureFixture):
    async with served.opened() as store:
        await bring_forward(served)
        with pytest.raises(Unavailable):
            await store.write(adds("after"))
    assert [vars(record)["error"] for record in caplog.records if "error" in vars(record)] == [
        OUTDATED_ADVICE
    ]


class WatchedWorker(Worker):
    """Tells whether its last look for work was refused."""

    was_refused: bool | None = None

    async def start_due(self) -> int:
        try:
            count = await super().start_due()
        except Unavailable:
            self.was_refused = True
            raise
        self.was_refused = False
        return count

    async def measure_until_stable(self) -> bool:
        """Returns True if the next check is refused."""
        self.was_refused = None
        self._wake.set()
        await until(lambda: self.was_refused is not None)
        return self.was_refused is True


async def test_the_log_of_an_older_server_says_once_that_its_worker_waits(
    served: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """Newer servers do the work, so that sometimes there is none to be refused. Last, the control: the
    migration is undone, and the worker goes on."""
    monkeypatch.setattr(worker, "_ERROR_PAUSE", 0.0)
    async with make_world(served.url, folder=served.folder) as world:
        await world.settle()
        await bring_forward(served)
        watched = WatchedWorker(world.installation.ctx)
        running = asyncio.create_task(watched.run())
        for _ in range(3):
            await served.sql("INSERT INTO work VALUES ('due', 'reconcile', 0, 0, 1, 0, '', 0)")
            assert await watched.measure_until_stable()
            await served.sql("DELETE FROM work WHERE id = 'due'")
            await until(watched_is_accepted(watched))
        lines = [record.message for record in caplog.records]
        assert (lines.count("the worker waits for the database"), "the worker goes on" in lines) == (1, False)
        await served.sql("DELETE FROM migration WHERE number = $1", LATER.record[0])
        watched._wake.set()
        await until(lambda: "the worker goes on" in caplog.text)
        running.cancel()


def watched_is_accepted(watched: WatchedWorker) -> Callable[[], Awaitable[bool]]:
    async def is_accepted() -> bool:
        return not await watched.measure_until_stable()

    return is_accepted


async def waits_for_the_lock(place: Place) -> bool:
    found = await place.sql(
        "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = "
        "(SELECT oid FROM pg_database WHERE datname = current_database())"
    )
    return bool(found)
