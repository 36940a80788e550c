"""The grace period of an instance, which the owner of its service chooses, delays nothing of others."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from tests.engines import programs
from tests.engines.stations import wanted
from windlass.process import instances

LONG = 1000.0


@asynccontextmanager
async def ending(rig, station):
    """An instance whose program ignores the signal to end. Yields its key, its process and the removal."""
    await station.apply(wanted(rig.made(programs.STAYS)))
    await station.hears("here")
    [key] = station.engine._records.find()
    removal = asyncio.create_task(station.engine.remove(key.service, grace=LONG))
    async with asyncio.timeout(20):
        while not station.engine._instances._graces:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert not removal.done()
    yield key, station.engine._records.read(key).process, removal
    async with asyncio.timeout(20):
        await removal
    assert not station.engine._records.find()


async def test_an_instance_that_uses_too_much_is_ended_in_its_grace_period(rig, station):
    async with ending(rig, station) as (key, process, _), asyncio.timeout(20):
        await station.engine._instances.end_for(key, process, "used too much memory")


async def test_an_instance_that_fills_the_disk_is_ended_in_its_grace_period(rig, station):
    async with ending(rig, station) as (key, process, _), asyncio.timeout(20):
        await station.engine._instances.end_and_empty(key, process, "filled the disk")


async def test_a_server_stops_although_an_instance_has_a_long_grace_period(rig, station, monkeypatch):
    monkeypatch.setattr(instances, "_END_TIMEOUT", 0.1)
    async with ending(rig, station), asyncio.timeout(20):
        await station.engine.stop()
    await station.__aenter__()


@pytest.mark.nightly
async def test_without_an_early_end_the_grace_period_of_one_instance_would_delay_the_patrol(
    rig, station, monkeypatch
):
    async with ending(rig, station) as (key, process, _):
        with monkeypatch.context() as changed:
            changed.setattr(instances.Instances, "_end_grace", lambda *_: None)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    await station.engine._instances.end_for(key, process, "used too much memory")
        await station.engine._instances.end_for(key, process, "used too much memory")
