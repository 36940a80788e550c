"""Two replicas share everything; one is paused past its lease in the middle of an action, and then goes on.

`make test` tries one action and a deletion here, and every action at every step on the engine for tests
(test_overtaken.py).
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import asyncpg
import pytest

from tests.faults.house import House, house_for
from tests.faults.inside import until
from tests.faults.programs import Code
from tests.faults.scenes import HTTP, STORAGE
from tests.forks import Brood
from tests.marks import nightly
from windlass.base.clock import SystemClock
from windlass.store import Tx
from windlass.store.postgres import WRITER_LOCK, PostgresStore

pytestmark = pytest.mark.slow

SOON = {"ready_seconds": 3}


class Pair:
    """The replica that is not paused goes on."""

    def __init__(self, lot: Path, *houses: House) -> None:
        self._lot = lot
        self._houses = houses
        self.awake = self.asleep = houses[0]

    async def doom(self, point: str) -> None:
        """Pauses the first replica that reaches the point; no replica is on the way there yet."""
        await self.awake.converges()
        for house in self._houses:
            await house.rests()
        self._lot.touch()
        for house in self._houses:
            # On a slow machine both come there: a lease may have ended before. Then one goes on all the same.
            house.doom(point, number=signal.SIGSTOP, lot=self._lot)

    async def one_sleeps(self) -> None:
        async def paused() -> bool:
            for one, other in (self._houses, self._houses[::-1]):
                if one.is_paused:
                    self.asleep, self.awake = one, other
                    return True
            return False

        await until(paused)
        assert not self.awake.is_paused

    async def both_are_awake(self) -> None:
        """And what was begun before the pause has come to its end."""
        self.asleep.go_on()
        await self.asleep.call("GET", "/organization")
        await asyncio.sleep(1.0)
        await self.awake.converges()
        await self.awake.check_promises()


@pytest.fixture
async def pair(tmp_path: Path, brood: Brood, code: Code, postgres_url: str) -> AsyncIterator[Pair]:
    given = (tmp_path, brood, code, postgres_url)
    async with house_for(*given, "a", **SOON) as one, house_for(*given, "b", **SOON) as other:
        await one.start()
        await other.start()
        await one.make_environment()
        other.environment = one.environment
        yield Pair(tmp_path / "lot", one, other)


CASES = [
    *nightly(
        ("redeploy", "about to start", "SUCCEEDED"),
        ("uninstall", "about to discard what it stored", "SUCCEEDED"),
        ("redeploy", "about to retire", "SUCCEEDED"),
        ("redeploy", "about to keep", "SUCCEEDED"),
        ("redeploy", "kept", "SUCCEEDED"),
        ("fail", "about to take back", "FAILED"),
        ("stop", "about to retire", "SUCCEEDED"),
    ),
]


@pytest.mark.parametrize(("deed", "point", "end"), CASES, ids=lambda word: word.replace(" ", "_"))
async def test_a_replica_paused_past_its_lease_undoes_no_later_change(pair: Pair, deed, point, end):
    app = await pair.awake.application("frail", ports=[HTTP], storage=[STORAGE])
    await pair.awake.reaches(app, await pair.awake.do(app, "deploy"))
    await pair.doom(point)
    # One that never listens: of one that ends by itself, who is paused would hold the engine's lock.
    deaf = {"git_commit_id": pair.awake.code.deaf} if deed == "fail" else {}
    first = await pair.awake.do(app, "deploy" if deaf else deed, **deaf)
    await pair.one_sleeps()
    assert (await pair.awake.reaches(app, first))["status"] == end
    second = await pair.awake.do(app, "deploy")
    assert (await pair.awake.reaches(app, second))["status"] == "SUCCEEDED"
    await pair.both_are_awake()
    assert (await pair.awake.deployment(app, first))["status"] == end
    assert [generation for _, generation, _ in await pair.awake.living()] == [3]


@pytest.mark.slow
async def test_a_stopped_service_stays_stopped_when_a_paused_start_resumes(pair: Pair):
    app = await pair.awake.application("sleeps", min_running_instances=2, max_running_instances=2)
    await pair.doom("about to start")
    first = await pair.awake.do(app, "deploy")
    await pair.one_sleeps()
    await pair.awake.call("POST", f"/application/{app}/cancelDeployment")
    assert (await pair.awake.reaches(app, first))["status"] == "CANCELED"
    await pair.both_are_awake()
    assert await pair.awake.living() == []


async def test_a_replica_paused_in_a_transaction_is_disconnected(postgres_url: str):
    paused = await asyncpg.connect(postgres_url)
    async with store_at(postgres_url) as store:
        await paused.execute(f"BEGIN; SELECT pg_advisory_xact_lock({WRITER_LOCK})")
        await paused.prepare("SELECT $1::int")  # half a question: the server waits for the other half
        assert await store.write(answered) == "done"
    await until(partial(closed, paused))


async def test_a_write_waits_for_a_long_transaction_of_another_replica(postgres_url: str):
    """Otherwise a slow replica would be cut off."""
    slow = await asyncpg.connect(postgres_url)
    async with store_at(postgres_url) as store:
        await slow.execute(f"BEGIN; SELECT pg_advisory_xact_lock({WRITER_LOCK})")
        takes_long = asyncio.create_task(slow.execute("SELECT pg_sleep(6); COMMIT"))
        assert await store.write(answered) == "done"
        await takes_long
    await slow.close()


async def answered(tx: Tx) -> str:
    return "done"


async def closed(connection: asyncpg.Connection[asyncpg.Record]) -> bool:
    return connection.is_closed()


@asynccontextmanager
async def store_at(url: str) -> AsyncIterator[PostgresStore]:
    store = await PostgresStore.open(url, SystemClock())
    try:
        yield store
    finally:
        await store.close()


@pytest.mark.nightly
async def test_a_deleted_service_stays_deleted_when_a_paused_start_resumes(pair: Pair):
    app = await pair.awake.application("sleeps", storage=[STORAGE])
    await pair.doom("about to start")
    await pair.awake.do(app, "deploy")
    await pair.one_sleeps()
    await pair.awake.delete_everything()
    pair.asleep.go_on()
    await pair.asleep.call("GET", "/organization")
    await asyncio.sleep(1.0)
    await pair.awake.leaves_nothing()
