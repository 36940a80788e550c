"""A program that hinders the next start of its own container hinders nobody else.

At each start, the engine reads `/etc/group` of the container. If a program has put a FIFO there, the start
hangs, and the engine describes that container no more.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

import windlass.docker.engine
from tests.docker.watched import SECONDS, wanted
from tests.engines.dockers import own_engine
from windlass.docker.client import Docker
from windlass.engines.workload import Phase

pytestmark = pytest.mark.slow

HINDERING = "mkdir -p /etc; rm -f /etc/group; mkfifo /etc/group; sleep 1; exit 1"


@pytest.fixture(scope="module")
def host():
    with own_engine() as made:
        yield made.host


@pytest.fixture
async def hindered(watched, raw):
    """An engine with an instance whose start hangs, and one of another service; the first service."""
    engine, hostile = watched.engine, wanted(HINDERING)
    await engine.run(wanted(), 0)
    found = await engine.run(hostile, 0)
    detail = await raw.json("GET", f"/containers/{found.id}/json")
    files = Path(detail["GraphDriver"]["Data"]["MergedDir"])
    async with _released_at_the_end(files, engine, hostile.service):
        async with asyncio.timeout(SECONDS):
            while not await _hangs(raw, found.id):  # noqa: ASYNC110 (the engine says nothing of it)
                await asyncio.sleep(0.1)
        yield engine, hostile.service


async def test_instances_of_others_are_seen_while_the_start_of_one_hangs(hindered):
    engine, hostile = hindered
    async with asyncio.timeout(20):
        found = {each.service == hostile: each for each in await engine.all()}
        again = await engine.all()
    assert found[False].phase is Phase.RUNNING
    assert found[True].phase is Phase.WAITING
    assert "its start or its end hangs" in found[True].reason
    assert len(again) == 2


async def test_without_the_limit_for_one_description_nothing_is_seen(hindered, monkeypatch):
    engine, _ = hindered
    monkeypatch.setattr(windlass.docker.engine, "DESCRIBING", 100.0)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(5):
            await engine.all()


async def _hangs(raw: Docker, container: str) -> bool:
    try:
        async with asyncio.timeout(1):
            await raw.json("GET", f"/containers/{container}/json")
    except TimeoutError:
        return True
    return False


@asynccontextmanager
async def _released_at_the_end(files, engine, service):
    """A writer that comes and goes lets the engine read on."""
    try:
        yield
    finally:
        leaving = asyncio.create_task(engine.discard(service))
        while not leaving.done():
            with suppress(OSError):
                os.close(os.open(files / "etc/group", os.O_WRONLY | os.O_NONBLOCK))
            await asyncio.sleep(0.1)
        await leaving
