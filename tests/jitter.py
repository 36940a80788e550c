"""Makes races wider, to find tests that fail now and then (`make test-jitter`). A pytest plugin.

Random pauses stand wherever the order of things is open: around statements and commits of the store, before
notifications of PostgreSQL are heard, in threads, at programs and their output, after pauses of the code
itself, around answers of fakes and of worlds. `JITTER=2` chooses others; each test has its own.

A failure is a race of the test, or a fault of the product, with one exception: tests of the store that count
or order what happens at once, and limits of time in tests that are shorter than the pauses (`MOST`).
"""

from __future__ import annotations

import asyncio
import asyncio.subprocess
import functools
import os
import random
import time
from collections.abc import Callable
from typing import Any

import asyncpg
import pytest

from tests import world
from tests.fakes.builder import FakeBuilder, FakeRepositories
from tests.fakes.engine import FakeEngine
from tests.fakes.router import FakeRouter
from windlass.base.child_process import ChildProcess
from windlass.base.commit_thread import CommitThread
from windlass.store.postgres import PostgresSession, PostgresStore
from windlass.store.sqlite import SqliteStore

SEED = os.environ.get("JITTER", "1")
MOST = 0.05
"""Seconds of the longest pause."""
OFTEN = 0.2
"""The share of the places that pause."""
PAUSING: dict[Any, str] = {
    PostgresSession: "one all many",
    PostgresStore: "_commit",
    SqliteStore: "_commit",
    FakeBuilder: "build find discard prune",
    FakeRepositories: "head commits fetch",
    FakeEngine: "prepare run all end discard probe usage",
    FakeRouter: "reserve set drain forget complete",
    asyncio: "create_subprocess_exec",
    asyncio.subprocess.Process: "wait communicate",
    ChildProcess: "wait",
    asyncio.StreamReader: "read readline",
    world: "_asked",
}
"""Coroutines that pause before and after."""
LISTEN = "add_listener"
_chance = random.Random(SEED)
_sleep = asyncio.sleep


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    _chance.seed(SEED + item.nodeid)


def pytest_configure() -> None:
    for owner, names in PAUSING.items():
        for name in names.split():
            setattr(owner, name, around(getattr(owner, name)))
    asyncio.sleep = longer_sleep
    run, to_thread = CommitThread.run, asyncio.to_thread
    CommitThread.run = lambda self, call, *args: run(self, in_thread(call), *args)  # type: ignore[method-assign]
    asyncio.to_thread = lambda call, *args, **named: to_thread(in_thread(call), *args, **named)  # type: ignore[assignment]
    setattr(asyncpg.Connection, LISTEN, hear_late(getattr(asyncpg.Connection, LISTEN)))


def pause() -> float:
    return _chance.random() * MOST if _chance.random() < OFTEN else 0.0


async def rest() -> None:
    if seconds := pause():
        await _sleep(seconds)


async def longer_sleep(delay: float, result: Any = None) -> Any:
    """A pause of 0 only lets others run, in an order that does not depend on the machine."""
    return await _sleep(delay + pause() if delay > 0 else delay, result)


def around(real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    async def pausing(*args: Any, **named: Any) -> Any:
        await rest()
        answer = await real(*args, **named)
        await rest()
        return answer

    return pausing


def in_thread(real: Callable[..., Any]) -> Callable[..., Any]:
    def pausing(*args: Any, **named: Any) -> Any:
        time.sleep(pause())
        answer = real(*args, **named)
        time.sleep(pause())
        return answer

    return pausing


def hear_late(real: Callable[..., Any]) -> Callable[..., Any]:
    """Notifications come late, and in their order."""

    async def add_listener(self: Any, channel: str, callback: Callable[..., None]) -> None:
        loop, last = asyncio.get_running_loop(), 0.0

        def heard(*args: Any) -> None:
            nonlocal last
            last = max(last, loop.time() + pause())
            loop.call_at(last, callback, *args)

        await real(self, channel, heard)

    return add_listener
