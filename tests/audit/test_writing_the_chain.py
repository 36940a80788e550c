"""The chain holds over failures, replicas, kills, backups, migrations and retention."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.audit.chains import adding, settings_of, verdict
from tests.forks import Brood, breeding
from tests.store.processes import PROGRAM, Server
from tests.store.stores import ORG, Place, add, until
from tests.world import ADMIN, HandClock, make_world
from windlass.base.clock import DAY
from windlass.config import Settings
from windlass.operate.audit import verify
from windlass.operate.backup import backup, restore
from windlass.store import Tx


async def test_a_change_that_fails_stores_no_event(place: Place):
    async with place.opened() as store:

        async def fails(tx: Tx) -> None:
            await add(tx, "never")
            raise ValueError("no")

        for number in range(4):
            one, other = f"{number}-a", f"{number}-b"
            outcomes = await asyncio.gather(
                store.write(adding(one)),
                store.write(fails),
                store.write(adding(other)),
                return_exceptions=True,
            )
            assert isinstance(outcomes[1], ValueError)
    found = await verdict(place)
    assert (found.events, found.faults) == (8, [])


async def test_a_failed_transaction_does_not_advance_the_chain(tmp_path: Path):
    """On SQLite another program holds the file for a moment."""
    place = Place("", tmp_path)
    async with place.opened() as store:
        await store.write(adding("first"))

        async def breaks(tx: Tx) -> None:
            tx.emit("CREATE", ORG, "x", b"{}")
            await tx.session.all("INSERT INTO event VALUES (2,'','','','',0,'','','','','','','','','')")

        with pytest.raises(Exception, match="stored"):
            await store.write(breaks)
        await store.write(adding("second"))
    found = await verdict(place)
    assert (found.events, found.faults) == (2, [])


@pytest.fixture
def postgres_url(postgres: Any) -> Iterator[str]:
    with postgres.fresh_database() as url:
        yield url


async def test_two_replicas_that_write_at_once_make_one_chain(postgres_url: str, tmp_path: Path):
    place = Place(postgres_url, tmp_path)
    async with place.opened() as one, place.opened() as two:
        await asyncio.gather(
            *(
                store.write(adding(f"{who}-{number}"))
                for number in range(60)
                for who, store in (("one", one), ("two", two))
            )
        )
        for number in range(5):
            for who, store in (("one", one), ("two", two)):
                await store.write(adding(f"{who}-later-{number}"))
    found = await verdict(place)
    assert (found.events, found.faults) == (130, [])


async def test_the_chain_can_be_verified_while_the_server_writes(place: Place):
    async with place.opened() as store:
        writing = asyncio.gather(*(store.write(adding(str(n))) for n in range(200)))
        seen = [await asyncio.to_thread(asyncio.run, verify(settings_of(place))) for _ in range(3)]
        await writing
    assert [found.faults for found in seen] == [[], [], []]
    for found in seen:
        if found.head:
            assert (await verdict(place, found.head)).faults == []


@pytest.fixture(scope="module")
def brood() -> Iterator[Brood]:
    with breeding(PROGRAM) as made:
        yield made


@pytest.mark.slow
async def test_the_chain_is_valid_after_the_server_was_killed_during_writes(brood: Brood, tmp_path: Path):
    place, head = Place("", tmp_path), ""
    for round in range(2):
        server = Server(brood, place)
        address = await server.listening()
        async with aiohttp.ClientSession(address, headers={"Authorization": f"Token {ADMIN}"}) as session:
            creating = asyncio.create_task(create_many(session, f"{round}"))
            await until(partial(has_some, place, f"{round}"))
            server.end()
            creating.cancel()  # the gateway keeps the port, and lets requests wait for the next server
            with contextlib.suppress(asyncio.CancelledError):
                await creating
        found = await verdict(place, head)
        assert found.faults == []
        head = found.head


async def create_many(session: aiohttp.ClientSession, name: str) -> None:
    async with session.get("/organization") as answer:
        org = (await answer.json())["id"]

    async def create(number: int) -> None:
        with contextlib.suppress(aiohttp.ClientError):
            await session.post(f"/organization/{org}/project", json={"name": f"{name}-{number}"})

    await asyncio.gather(*(create(number) for number in range(100)))


async def has_some(place: Place, name: str) -> bool:
    (row,) = await place.sql("SELECT count(*) FROM resource WHERE name LIKE $1", f"{name}-%")
    return int(row[0]) > 3


async def test_a_backup_keeps_the_chain_on_the_other_database(
    database_url: str, postgres_url: str, tmp_path: Path
):
    async with make_world(database_url, folder=tmp_path / "one") as world:
        for _ in range(3):
            await world.project()
        settings = world.installation.ctx.settings
        await asyncio.to_thread(asyncio.run, backup(settings, tmp_path / "it.zip"))
        head = (await asyncio.to_thread(asyncio.run, verify(settings))).head
        key = (tmp_path / "one" / "key").read_bytes()
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "key").write_bytes(key)
    url = "" if database_url else postgres_url
    other = Settings(data_dir=str(tmp_path / "two"), database_url=url)
    await asyncio.to_thread(asyncio.run, restore(other, tmp_path / "it.zip", force=False))
    assert (await verify(other, head)).faults == []
    async with make_world(url, folder=tmp_path / "two") as world:
        await world.project(name="later")
    found = await verify(other, head)
    assert found.faults == []
    assert found.head != head


@contextlib.asynccontextmanager
async def aged(place: Place) -> AsyncIterator[Callable[..., Awaitable[int]]]:
    """Events of ten days, two a day; answers what lets go of them."""
    clock = HandClock()
    async with place.opened(clock) as store:
        for number in range(20):
            await store.write(adding(str(number)))
            if number % 2:
                clock.turn(DAY / 1000)

        async def let_go(days: int, most: int = 500) -> int:
            return await store.write(lambda tx: tx.events.delete_older(tx.now - days * DAY, most))

        yield let_go


async def test_a_chain_stays_valid_after_retention(place: Place):
    async with aged(place) as let_go:
        head = (await asyncio.to_thread(asyncio.run, verify(settings_of(place)))).head
        assert await let_go(4) == 12
        assert await let_go(4) == 0
        found = await asyncio.to_thread(asyncio.run, verify(settings_of(place), head))
        assert (found.events, found.first, found.let_go, found.faults) == (8, 13, 12, [])
        assert await let_go(2, most=3) == 3, "a part at a time"
        assert (await verdict(place)).faults == []


async def test_retention_never_deletes_the_newest_event(place: Place):
    async with aged(place) as let_go:
        assert await let_go(-1) == 19
        assert await let_go(-1) == 0
    async with place.opened() as store:
        await store.write(adding("later"))
    found = await verdict(place)
    assert (found.events, found.faults) == (2, [])


async def test_an_event_of_the_future_keeps_no_later_events(place: Place):
    """It was recorded while the clock was ahead."""
    clock, ahead = HandClock(), 3 * 365 * 86_400
    async with place.opened(clock) as store:
        clock.turn(ahead)
        await store.write(adding("ahead"))
        clock.turn(-ahead)
        for number in range(10):
            await store.write(adding(str(number)))
            clock.turn(DAY / 1000)
        assert await store.write(lambda tx: tx.events.delete_older(tx.now - 20 * DAY, 500)) == 0
        assert await store.write(lambda tx: tx.events.delete_older(tx.now - 4 * DAY, 500)) == 7
    assert (await verdict(place)).faults == []


async def test_retention_hides_no_further_deletion(place: Place):
    async with aged(place) as let_go:
        await let_go(4)
    await place.sql("DELETE FROM event WHERE seq = 13")
    assert (await verdict(place)).faults == ["Event 13: removed."]


async def test_a_recorded_head_older_than_retention_asks_for_a_newer_one(place: Place):
    async with aged(place) as let_go:
        (row,) = await place.sql("SELECT hash FROM event WHERE seq = 3")
        (last,) = await place.sql("SELECT hash FROM event WHERE seq = 12")
        await let_go(4)
    assert "compare with a newer note" in (await verdict(place, f"3:{row[0].hex()}")).faults[0]
    assert (await verdict(place, f"12:{last[0].hex()}")).faults == [], "the last that went is still known"


async def test_the_hourly_sweep_deletes_events_past_their_retention(database_url: str):
    async with make_world(database_url, audit_retention_days=30) as world:
        await world.project()
        world.clock.turn(31 * 86_400)
        kept = await world.project()
        await world.settle()
        answer = await world.get(f"/organization/{world.org}/events")
        assert [one["target_id"] for one in answer["events"]] == [kept]
        assert answer["organization_max_limit_reached"] is True
        (org,) = (await world.get("/organization"))["results"]
        assert org["organization_plan"]["audit_logs_retention_in_days"] == 30


async def test_without_audit_retention_old_events_are_kept(tmp_path: Path):
    async with make_world(audit_retention_days=0) as world:
        project = await world.project()
        world.clock.turn(20 * 365 * 86_400)
        await world.settle()
        answer = await world.get(f"/organization/{world.org}/events?targetId={project}")
        assert len(answer["events"]) == 1
