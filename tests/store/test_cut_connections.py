"""No acknowledged change is lost, and none is stored in part, when PostgreSQL cuts connections."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import asyncpg
import pytest

from tests.postgres import TENDER
from tests.store.changes import adds, together
from tests.store.stores import ORG, Place, add, names, until
from windlass.base.errors import Unavailable
from windlass.store import Row, Store, Tx

# A server that goes away

CUT_WRITERS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND query NOT LIKE 'LISTEN%'"""
CUT_LISTENERS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE 'LISTEN%'"""


async def cut_off(tx: Tx) -> None:
    """A change whose connection the server closes in the middle."""
    await add(tx, "cut off")
    await tx.session.all("SELECT pg_terminate_backend(pg_backend_pid())")
    await add(tx, "after")


async def test_if_the_server_cuts_the_connection_no_change_of_the_commit_group_is_stored(served: Place):
    async with served.opened() as store:
        before = await served.everything()
        outcomes = await together(*(store.write(change) for change in (adds("a"), cut_off, adds("b"))))
        assert [type(outcome) for outcome in outcomes] == [Unavailable] * 3
        assert all("nothing was changed" in outcome.message for outcome in outcomes)
        assert await served.everything() == before
        await store.write(adds("again"))
        assert await names(store) == ["again"]


async def test_a_connection_cut_during_the_commit_is_reported_as_uncertain(
    empty_database: str, tmp_path: Path
):
    """The result is unknown, and the message says so."""
    served = Place(empty_database, tmp_path)
    async with served.opened():
        pass
    await served.sql(
        "CREATE FUNCTION cut() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$"
    )
    await served.sql(
        "CREATE CONSTRAINT TRIGGER cut AFTER INSERT ON event DEFERRABLE INITIALLY DEFERRED"
        " FOR EACH ROW EXECUTE FUNCTION cut()"
    )
    async with served.opened() as store:
        with pytest.raises(Unavailable, match="perhaps it was") as refusal:
            await store.write(adds("unsure"))
        assert "nothing was changed" not in refusal.value.message
        await served.sql("DROP TRIGGER cut ON event")
        await store.write(adds("again"))


async def test_a_change_after_the_server_has_closed_the_idle_connection_is_stored(served: Place):
    async with served.opened() as store:
        for turn in range(20):
            await served.sql(CUT_WRITERS)
            await store.write(adds(f"after {turn}"))
        assert len(await names(store)) == 20


SET_READ_ONLY = """
DO $$ BEGIN EXECUTE format('ALTER DATABASE %I {}', current_database()); END $$"""


async def test_a_database_that_becomes_read_only_is_reported_until_it_stores_changes_again(served: Place):
    async with served.opened() as store:
        await store.write(adds("before"))
        assert (await store.problem(), store.stores_changes) == ("", True)
        await served.sql(SET_READ_ONLY.format("SET default_transaction_read_only = on"))
        try:
            await served.sql(CUT_WRITERS)
            with pytest.raises(Unavailable, match=r"read-only now.*; nothing was changed"):
                await store.write(adds("refused"))
            assert "read-only" in await store.problem()
            assert not store.stores_changes
            assert await names(store) == ["before"]
        finally:
            may_write = {"default_transaction_read_only": "off"}
            connection = await asyncpg.connect(served.url, server_settings=may_write)
            await connection.execute(SET_READ_ONLY.format("RESET default_transaction_read_only"))
            await connection.close()
        await served.sql(CUT_WRITERS)
        await store.write(adds("after"))
        assert (await store.problem(), store.stores_changes) == ("", True)


async def test_cutting_connections_at_any_moment_loses_no_acknowledged_change(served: Place):
    acknowledged: list[str] = []
    denied: list[str] = []
    over = asyncio.Event()
    chance = random.Random(2)

    async def writer(store: Store, number: int) -> None:
        for turn in range(200):
            name = f"n{number}.{turn}"
            try:
                await store.write(adds(name))
                acknowledged.append(name)
            except Unavailable as refusal:
                if "nothing was changed" in refusal.message:
                    denied.append(name)
            if over.is_set():
                return

    async def cutter() -> None:
        for _ in range(25):
            await asyncio.sleep(chance.random() / 25)
            await served.sql(CUT_WRITERS)
        over.set()

    async with served.opened() as store:
        await asyncio.gather(cutter(), *(writer(store, number) for number in range(8)))
        await store.write(adds("at the end"))
        await until(lambda: can_be_read(store))
        found = set(await names(store))
        assert set(acknowledged) <= found
        assert found.isdisjoint(denied)
        assert denied
        events = await store.reads.events.after(ORG, limit=10_000)
        assert [event.seq for event in events] == [*range(1, len(found) + 1)]


async def test_reads_while_connections_are_cut_are_answered_or_unavailable(served: Place):
    async with served.opened() as store:
        await store.write(adds("here"))
        for _ in range(5):
            readings = [store.reads.resources.named(ORG, "project", "here") for _ in range(8)]
            answers = await together(*readings, served.sql(CUT_WRITERS))
            assert all(isinstance(answer, (Row, Unavailable)) for answer in answers[:8])
        await until(lambda: answers_again(store))


async def can_be_read(store: Store) -> bool:
    """The last cut may come while it is looked."""
    try:
        await names(store)
    except Unavailable:
        return False
    return True


async def answers_again(store: Store) -> bool:
    try:
        return await store.reads.resources.named(ORG, "project", "here") is not None
    except Unavailable:
        return False


async def test_a_replica_whose_listening_was_cut_listens_again(served: Place):
    async with served.opened() as one, served.opened() as other:
        heard: list[str] = []
        other.listen(heard.append)

        async def nudged() -> bool:
            await one.write(lambda tx: _nudge(tx, "hello"))
            await asyncio.sleep(0.02)
            return "hello" in heard

        await until(nudged)
        await served.sql(CUT_LISTENERS)
        heard.clear()
        await until(nudged)
        assert "work" in heard  # looks for missed nudges


async def test_closing_a_store_during_its_start_leaves_no_connection_open(served: Place):
    for turn in range(12):
        async with served.opened() as store:
            for _ in range(turn):
                await asyncio.sleep(0.001)  # at each step on its way to listening
            assert await store.reads.facts.get("nothing") is None
    await until(lambda: alone(served))


async def alone(served: Place) -> bool:
    connections = (
        "SELECT 1 FROM pg_stat_activity WHERE datname = current_database()"
        f" AND application_name <> '{TENDER}'"
    )
    return len(await served.sql(connections)) == 1


async def _nudge(tx: Tx, word: str) -> None:
    tx.nudge(word)
