"""Killed at any moment, in the middle of anything: what was acknowledged is there, and nothing by half."""

from __future__ import annotations

import asyncio
import itertools
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from tests.forks import Brood, breeding
from tests.marks import either
from tests.store.integrity import whole
from tests.store.ledger import AUTHORIZED, CLIENTS, WRITES, Client, Ledger
from tests.store.processes import PROGRAM, Server
from tests.store.stores import Place

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def brood() -> Iterator[Brood]:
    with breeding(PROGRAM) as made:
        yield made


async def lives(brood: Brood, place: Place, ledger: Ledger, kills: int, seed: int) -> None:
    """Starts, checks, works and is killed, over and over, until it has done enough. A life lasts for some
    writes and not for some time, in which a starved machine would do nothing."""
    chance, least = random.Random(seed), 2 * kills
    for life in itertools.count():
        if life >= kills and ledger.deleted and len(ledger.projects) > least:
            return
        server = Server(brood, place)
        if chance.random() < 0.2:
            await asyncio.sleep(chance.random() * 0.1)
            assert server.end() == -signal.SIGKILL
            continue
        async with aiohttp.ClientSession(headers=AUTHORIZED) as session:
            client = Client(session, await server.listening())
            await ledger.check(client)
            working = [asyncio.create_task(ledger.work(client)) for _ in range(CLIENTS)]
            await ledger.grown(chance.randint(0, WRITES), working)
            await asyncio.sleep(chance.random() * 0.005)
            assert server.end() == -signal.SIGKILL
            for task in working:  # the gateway keeps the port, and lets requests wait for the next server
                task.cancel()
            ended = await asyncio.gather(*working, return_exceptions=True)
            assert [each for each in ended if isinstance(each, Exception)] == []


async def at_last(brood: Brood, place: Place, ledger: Ledger) -> None:
    server = Server(brood, place)
    async with aiohttp.ClientSession(headers=AUTHORIZED) as session:
        await ledger.check(Client(session, await server.listening()))
    assert server.end(signal.SIGTERM) == 0
    assert "Traceback" not in server.said
    await whole(place)
    created = await place.sql("SELECT target FROM event WHERE kind = 'CREATE'")
    assert ledger.projects.keys() <= {row[0] for row in created}
    deleted = await place.sql("SELECT target FROM event WHERE kind = 'DELETE'")
    assert ledger.deleted == {row[0] for row in deleted}


async def test_a_server_killed_repeatedly_on_sqlite_loses_nothing_and_stores_nothing_by_half(
    brood: Brood, tmp_path: Path
):
    """Every fifth is killed while it starts; at night, two at a time. (The first starts are killed below.)"""
    places = [Place("", tmp_path / name) for name in either("a", "ab")]
    for place in places:
        place.folder.mkdir()
    ledgers = [Ledger() for _ in places]
    await asyncio.gather(
        *(
            lives(brood, place, ledger, kills=either(6, 50), seed=number)
            for number, (place, ledger) in enumerate(zip(places, ledgers, strict=True))
        )
    )
    for place, ledger in zip(places, ledgers, strict=True):
        await at_last(brood, place, ledger)


async def test_a_server_killed_during_its_first_start_starts_the_next_time(brood: Brood, tmp_path: Path):
    for number in range(either(4, 20)):
        place = Place("", tmp_path / str(number))
        place.folder.mkdir()
        server = Server(brood, place)
        await asyncio.sleep(either(0.04, 0.008) * number)
        server.end()
        if number % 4 == 3:  # each of them would take its time
            await at_last(brood, place, Ledger())


async def test_a_server_killed_repeatedly_on_postgresql_loses_nothing_and_stores_nothing_by_half(
    brood: Brood, served: Place
):
    ledger = Ledger()
    await lives(brood, served, ledger, kills=either(3, 30), seed=7)
    await at_last(brood, served, ledger)
    assert len(ledger.projects) > either(6, 50)


async def test_the_integrity_checks_find_each_kind_of_damage(brood: Brood, tmp_path: Path):
    place = Place("", tmp_path)
    ledger = Ledger()
    server = Server(brood, place)
    async with aiohttp.ClientSession(headers=AUTHORIZED) as session:
        client = Client(session, await server.listening())
        await ledger.check(client)
        for _ in range(4):
            await ledger.one_round(client)
    assert server.end(signal.SIGTERM) == 0
    await whole(place)
    for damage in (
        "UPDATE counter SET value = value + 1",
        "DELETE FROM event WHERE seq = 1",
        "DELETE FROM resource WHERE family = 'project' AND pos = 1",
        "UPDATE tally SET live = live + 1 WHERE family = 'project'",
        "DELETE FROM hole",
    ):
        before = place.file.read_bytes()
        await place.sql(damage)
        with pytest.raises(AssertionError):
            await whole(place)
        place.file.write_bytes(before)
    await whole(place)
