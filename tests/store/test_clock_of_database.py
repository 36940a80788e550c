"""Servers on PostgreSQL follow the clock of the database, so that they judge each other's leases alike."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.world import HandClock
from windlass.base.clock import HOUR, MINUTE, SECOND, Clock, SystemClock
from windlass.store.postgres import PostgresStore
from windlass.store.postgres_clock import follow_clock


class WrongClock(SystemClock):
    """The clock of a machine that is fast or slow until it follows another one."""

    def __init__(self, wrong: int) -> None:
        super().__init__()
        self._wrong = wrong

    def now(self) -> int:
        return super().now() + (self._wrong if self._ahead is None else 0)

    def _read(self) -> int:
        return super()._read() + (self._wrong if self._ahead is None else 0)


class ConnectionToClock:
    """A connection to a database whose clock is right."""

    async def fetchval(self, statement: str) -> int:
        return SystemClock().now()


@pytest.fixture
def postgres_url(postgres: Any) -> Iterator[str]:
    with postgres.fresh_database() as url:
        yield url


@asynccontextmanager
async def opened(url: str, clock: Clock) -> AsyncIterator[PostgresStore]:
    store = await PostgresStore.open(url, clock)
    try:
        yield store
    finally:
        await store.close()


async def pieces_taken_over(url: str, clock: Callable[[int], Clock]) -> int:
    """Returns the number of pieces of work that a server with a fast clock takes from one that holds them."""
    async with opened(url, clock(0)) as store, opened(url, clock(HOUR)) as fast:
        await store.write(lambda tx: tx.work.schedule("reconcile", "a", 0))
        assert len(await store.write(lambda tx: tx.work.claim(MINUTE, 1))) == 1
        return len(await fast.write(lambda tx: tx.work.claim(MINUTE, 1)))


async def keys_in_the_way(url: str, clock: Callable[[int], Clock]) -> int:
    """Returns the number of servers with sealing keys that a server with a fast clock sees running."""
    async with opened(url, clock(0)) as store, opened(url, clock(HOUR)) as fast:
        await store.write(lambda tx: tx.key_holders.renew_lease("a", "a", ["key"], MINUTE))
        return len(await fast.write(lambda tx: tx.key_holders.live(tx.now)))


def by_hand(wrong: int) -> HandClock:
    """A clock that follows no other."""
    return HandClock(SystemClock().now() + wrong)


@pytest.mark.parametrize(
    ("clock", "taken"), [(WrongClock, 0), (by_hand, 1)], ids=["clock follows database", "own clock"]
)
async def test_a_server_with_a_fast_clock_takes_over_no_leased_work(postgres_url, clock, taken):
    assert await pieces_taken_over(postgres_url, clock) == taken


@pytest.mark.parametrize(
    ("clock", "seen"), [(WrongClock, 1), (by_hand, 0)], ids=["clock follows database", "own clock"]
)
async def test_a_server_with_a_fast_clock_still_waits_for_keys_of_running_servers(postgres_url, clock, seen):
    assert await keys_in_the_way(postgres_url, clock) == seen


@pytest.mark.parametrize("wrong", [HOUR, -HOUR])
def test_a_clock_following_the_database_shows_the_databases_time(wrong):
    right, clock = SystemClock(), WrongClock(wrong)
    assert abs(clock.now() - right.now()) > MINUTE
    clock.follow(right.now(), 0)
    assert abs(clock.now() - right.now()) < MINUTE


def test_a_clock_following_the_database_is_monotonic():
    clock = SystemClock()
    clock.follow(HOUR, 0)
    before = clock.now()
    clock.follow(MINUTE, 0)
    assert before <= clock.now() < before + MINUTE


def test_a_clock_following_the_database_ignores_changes_of_the_machines_clock(monkeypatch):
    alone, follower, right = SystemClock(), SystemClock(), SystemClock().now()
    follower.follow(right, 0)
    monkeypatch.setattr(time, "time_ns", lambda: (right + HOUR) * 1_000_000)
    assert alone.now() == right + HOUR
    assert follower.now() < right + MINUTE


@pytest.mark.parametrize(("took", "followed"), [(0, True), (MINUTE, False)])
def test_a_slow_database_answer_corrects_the_clock_only_for_large_differences(took, followed):
    clock = SystemClock()
    clock.follow(HOUR, 0)
    assert (clock.follow(HOUR + 10 * SECOND - took // 2, took) != 0) is followed


@pytest.mark.parametrize(("apart", "is_told"), [(0, False), (2 * SECOND, False), (HOUR, True), (-HOUR, True)])
async def test_a_clock_that_differs_from_the_database_clock_is_logged(caplog, apart, is_told):
    await follow_clock(ConnectionToClock(), WrongClock(apart))  # type: ignore[arg-type]
    assert ("set the clock of this machine" in caplog.text) is is_told
