"""An organization that fills the disk of the Docker engine loses its own container or build."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.docker.watched import FOREVER, Watched, nothing_left, seen, until, wanted
from windlass.base.disk_reserve import DiskSpace, DiskWatch
from windlass.docker import disk_watch
from windlass.docker.client import Docker, EngineRefused, disk_room
from windlass.docker.client.disk_room import keeping_reserve
from windlass.docker.disk_watch import EngineDisk
from windlass.docker.engine import DockerEngine
from windlass.engines.engine import EngineError
from windlass.engines.workload import Phase, Volume, Workload

MIB = 1 << 20
WRITES = "dd if=/dev/zero of={place} bs=1048576 count={size} && echo full; " + FOREVER
DELETED = "exec 3>/zeros; rm /zeros; dd if=/dev/zero bs=1048576 count=80 >&3; echo full; " + FOREVER


class WithReserve(Watched):
    def _made(self) -> DockerEngine:
        return DockerEngine(
            host=self.host, folder=self.folder, installation=self.installation, disk_reserve=150 * MIB
        )


@pytest.fixture
async def watched(host, tmp_path, monkeypatch) -> AsyncIterator[Watched]:
    monkeypatch.setattr(disk_watch, "CHECK_INTERVAL", 0.1)
    monkeypatch.setattr(disk_watch, "FIRST_PAUSE", 0.2)
    made = WithReserve(host, tmp_path / "engine", f"test-{uuid.uuid4()}")
    let_free(monkeypatch, 1000)
    await made.begin()
    yield made
    let_free(monkeypatch, 1000)
    await nothing_left(made)


def let_free(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    """Sets the room of the disk in MiB. Its reserve is 150 MiB."""
    space = DiskSpace(
        "bytes", free * MIB, whole=10_000 * MIB, reserve=150 * MIB, lost=100 * MIB, hour_lost=100 * MIB
    )
    is_short = free < 150
    monkeypatch.setattr(DiskWatch, "shortage", lambda watch, times=1: space if is_short else None)
    monkeypatch.setattr(DiskWatch, "is_due", lambda watch, seen: True)
    monkeypatch.setattr(EngineDisk, "_is_short", lambda disk: is_short)


async def run_both(watched: Watched, script: str, **more: Any) -> tuple[Workload, Workload]:
    """Starts a service that writes 80 MiB, and one of another organization that writes 30 MiB."""
    other = wanted(WRITES.format(place="/zeros", size=30), org="acme")
    hog = wanted(script, org="hogs", **more)
    for each in (other, hog):
        await watched.engine.run(each, 0)
    await until(lambda: watched.said().count("full") == 2)
    return hog, other


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root sees the files of containers")
@pytest.mark.parametrize("script", [WRITES.format(place="/zeros", size=80), DELETED], ids=["kept", "deleted"])
async def test_the_container_that_fills_the_disk_is_removed_with_its_files(watched, monkeypatch, script):
    hog, other = await run_both(watched, script)
    (before,) = await watched.engine.copies(other.service)
    let_free(monkeypatch, 64)

    async def is_gone() -> bool:
        return not await watched.engine.copies(hog.service)

    async with asyncio.timeout(60):
        while not await is_gone():  # noqa: ASYNC110 (the engine removes it)
            await asyncio.sleep(0.1)
    with pytest.raises(EngineError, match="this instance has filled the disk"):
        await watched.engine.run(hog, 0)
    let_free(monkeypatch, 1000)
    await asyncio.sleep(0.3)
    await watched.engine.run(hog, 0)
    copy = await seen(watched.engine, hog.service, lambda copy: copy.phase is Phase.RUNNING)
    assert "the disk of the Docker engine is full" in copy.reason
    (after,) = await watched.engine.copies(other.service)
    assert (after.phase, after.started_at, after.restarts) == (Phase.RUNNING, before.started_at, 0)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root sees the files of containers")
async def test_a_container_whose_volume_fills_the_disk_waits_until_there_is_space(watched, monkeypatch):
    script, volume = WRITES.format(place="/data/zeros", size=80), Volume(name="data", mount="/data")
    space = DiskSpace("bytes", 64 * MIB, 10_000 * MIB, 150 * MIB, lost=200 * MIB, hour_lost=200 * MIB)
    hog, _ = await run_both(watched, script, volumes=(volume,))
    let_free(monkeypatch, 64)
    monkeypatch.setattr(DiskWatch, "shortage", lambda watch, times=1: space)
    async with asyncio.timeout(60):
        while await watched.engine.copies(hog.service):  # noqa: ASYNC110 (the engine removes it)
            await asyncio.sleep(0.1)
    await asyncio.sleep(0.3)
    with pytest.raises(EngineError, match="this instance has filled the disk"):
        await watched.engine.run(hog, 0)


@pytest.mark.slow
async def test_nothing_is_removed_before_the_disk_is_short(watched):
    hog, other = await run_both(watched, WRITES.format(place="/zeros", size=80))
    await asyncio.sleep(1)
    for service in (hog.service, other.service):
        (copy,) = await watched.engine.copies(service)
        assert (copy.phase, copy.restarts) == (Phase.RUNNING, 0)


@pytest.fixture
async def reserving(host) -> AsyncIterator[Docker]:
    docker = Docker(host, disk_reserve=1)
    yield docker
    await docker.close()


async def test_nothing_is_built_or_pulled_on_a_short_disk(reserving, monkeypatch):
    monkeypatch.setattr(disk_room, "is_short", lambda folder, reserve: True)
    with pytest.raises(EngineRefused, match="no space left"):
        async with keeping_reserve(reserving):
            raise AssertionError("the block must not be entered")


async def test_a_build_or_pull_that_fills_the_disk_is_ended(reserving, monkeypatch):
    looks = iter([False, False])
    monkeypatch.setattr(disk_room, "is_short", lambda folder, reserve: next(looks, True))
    monkeypatch.setattr(disk_room, "CHECK_INTERVAL", 0.01)
    with pytest.raises(EngineRefused, match="no space left"):
        async with keeping_reserve(reserving):
            await asyncio.sleep(60)


async def test_with_space_a_build_or_pull_goes_on(reserving):
    done = False
    async with keeping_reserve(reserving):
        await asyncio.sleep(0)
        done = True
    assert done
