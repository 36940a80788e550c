"""A database that stalls: each call is refused in bounded time, and all goes on when the database answers."""

from __future__ import annotations

import asyncio

import pytest

from tests.store.changes import adds
from tests.store.held import way_to
from tests.store.stores import Place, names, until
from tests.world import make_world
from windlass.base.errors import Unavailable
from windlass.store import postgres, postgres_limits
from windlass.store.nudges import MAY_HAVE_MISSED

pytestmark = pytest.mark.slow

BOUND = 30.0
"""Seconds after which a call counts as never answered."""
SLEEP = "SELECT pg_sleep(600)"


@pytest.fixture(autouse=True)
def short_limits(monkeypatch):
    """The same limits, only shorter."""
    for module, name in (
        (postgres_limits, "CONNECT_SECONDS"),
        (postgres_limits, "ANSWER_SECONDS"),
        (postgres, "LOOK_SECONDS"),
    ):
        monkeypatch.setattr(module, name, getattr(module, name) / 10)


async def test_reads_and_changes_are_refused_while_the_database_stalls(served: Place):
    async with way_to(served.url) as way, Place(way.url, served.folder).opened() as store:
        await store.write(adds("before"))
        way.free.clear()
        async with asyncio.timeout(BOUND):
            with pytest.raises(Unavailable, match="does not answer"):
                await names(store)
            with pytest.raises(Unavailable, match=r"perhaps|nothing was changed"):
                await store.write(adds("meanwhile"))
            assert await store.problem() == "The database does not answer"
        way.free.set()
        await store.write(adds("after"))
        assert await store.problem() == ""
        assert {"before", "after"} <= set(await names(store))


async def test_reads_that_wait_for_a_connection_of_the_pool_are_refused_while_the_database_stalls(
    served: Place,
):
    async with way_to(served.url) as way, Place(way.url, served.folder).opened() as store:
        way.free.clear()
        async with asyncio.timeout(BOUND):
            outcomes = await asyncio.gather(*(names(store) for _ in range(40)), return_exceptions=True)
        assert all(isinstance(outcome, Unavailable) for outcome in outcomes)
        way.free.set()
        assert await names(store) == []


async def test_without_a_limit_a_read_waits_for_as_long_as_the_database_stalls(served: Place, monkeypatch):
    """The control of the tests above."""
    monkeypatch.setattr(postgres_limits, "ANSWER_SECONDS", None)
    async with way_to(served.url) as way, Place(way.url, served.folder).opened() as store:
        way.free.clear()
        reading = asyncio.create_task(names(store))
        done, _ = await asyncio.wait([reading], timeout=2.0)
        assert not done
        way.free.set()
        assert await reading == []


async def test_a_server_whose_listening_connection_stalls_listens_again(served: Place, monkeypatch, caplog):
    monkeypatch.setattr(postgres, "LISTEN_SECONDS", 0.1)
    async with way_to(served.url) as way, Place(way.url, served.folder).opened() as store:
        begun: list[str] = []
        store.listen(lambda word: begun.append(word) if word == MAY_HAVE_MISSED else None)
        await until(lambda: len(begun) == 1)
        way.free.clear()
        await until(lambda: "not listening to the database" in caplog.text)
        assert len(begun) == 1
        way.free.set()
        await until(lambda: len(begun) == 2)


async def test_a_start_is_refused_while_the_database_stalls(served: Place):
    async with way_to(served.url) as way:
        way.free.clear()
        async with asyncio.timeout(BOUND):
            with pytest.raises(Unavailable, match="does not answer"):
                async with Place(way.url, served.folder).opened():
                    pass


async def test_a_server_whose_database_stalls_answers_503_and_is_not_ready(served: Place):
    async with way_to(served.url) as way, make_world(way.url, folder=served.folder) as world:
        assert (await world.get("/readyz")).status == 200
        way.free.clear()
        async with asyncio.timeout(BOUND):
            for path in ("/readyz", "/organization"):
                answer = await world.get(path)
                assert (answer.status, "does not answer" in answer.message) == (503, True)
            assert (await world.post(f"/organization/{world.org}/project", {"name": "p"})).status == 503
        way.free.set()
        assert (await world.get("/readyz")).status == 200
        assert (await world.get("/organization")).status == 200


async def test_a_server_stops_while_the_database_stalls(served: Place, monkeypatch, caplog):
    monkeypatch.setattr(postgres_limits, "ANSWER_SECONDS", None)  # so that nothing else ends what waits
    async with way_to(served.url) as way, make_world(way.url, folder=served.folder) as world:
        installation = world.installation
        way.free.clear()
        change = asyncio.create_task(installation.ctx.store.write(adds("waits")))
        claim = asyncio.create_task(installation.worker.start_due())
        await asyncio.sleep(0)
        async with asyncio.timeout(BOUND):
            await installation.stop()
            await asyncio.wait([change, claim])
        assert [record.message for record in caplog.records].count("stopping without the database") == 1


async def test_cancelling_a_read_ends_its_statement_on_the_database_server(served: Place, monkeypatch):
    monkeypatch.setattr(postgres_limits, "_SERVER_SETTINGS", "SET statement_timeout = 0")  # as above

    async def sleeps() -> bool:
        active = "SELECT 1 FROM pg_stat_activity WHERE state = 'active' AND query = $1"
        return bool(await served.sql(active, SLEEP))

    async def is_over() -> bool:
        return not await sleeps()

    async with served.opened() as store:
        asking = asyncio.create_task(store.reads.session.all(SLEEP))
        await until(sleeps)
        asking.cancel()
        await until(is_over)
        with pytest.raises(asyncio.CancelledError):
            await asking
