"""Services of one organization that fill the disk together are ended before a larger one of a neighbour."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engines.processes import ProcessRig
from tests.engines.stations import Station, until, wanted
from windlass.base.disk_reserve import DiskSpace, DiskWatch
from windlass.engines.engine import DiskMeasurement, EngineUnavailable
from windlass.engines.workload import Volume
from windlass.process import starting

MIB = 1 << 20
FILLS = """
import os, signal
folder = "data" if os.path.isdir("data") else os.environ["HOME"]
with open(folder + "/zeros", "wb") as file:
    file.write(bytes(int(os.environ["MIB"]) << 20))
print("has written", flush=True)
signal.pause()
"""
CROWD = {f"{number}1111111-aaaa-4aaa-8aaa-000000000001": 24 for number in range(3)}
STORES = next(iter(CROWD))
DATA = (Volume(name="data", mount="/app/data"),)
OTHER = "91111111-aaaa-4aaa-8aaa-000000000001"


@pytest.fixture
async def station(tmp_path):
    async with Station(ProcessRig(tmp_path)) as made:
        yield made
        await made.engine.sweep(await made.engine.services())


def let_free(monkeypatch: pytest.MonkeyPatch, free: int, lost: int = 0) -> None:
    """Sets the room of the disk, whose reserve is 150 MiB."""
    room = DiskSpace("bytes", free, whole=10_000 * MIB, reserve=150 * MIB, lost=lost, hour_lost=lost)
    monkeypatch.setattr(
        DiskWatch, "shortage", lambda watch, times=1: room if free < room.reserve * times else None
    )
    monkeypatch.setattr(DiskWatch, "is_due", lambda watch, seen: True)


async def first_ended(station: Station) -> str:
    async def found():
        return [s for s in (*CROWD, OTHER) for seen in await station.seen(s) if seen.reason]

    return str((await until(found))[0])


async def ended(
    station: Station,
    monkeypatch: pytest.MonkeyPatch,
    crowd: dict[str, str],
    environments: dict[str, str] | None = None,
) -> str:
    """Starts services that write, with the organizations, and the environments, of some. Returns the one that
    is ended first when the disk is short."""
    made = await station.rig.artifact(FILLS)
    for service, size in {**CROWD, OTHER: 40}.items():
        owner: dict[str, Any] = {"org": crowd.get(service, service)}
        if environments:
            owner["environment"] = environments[service]
        await station.apply(wanted(made, service=service, variables={"MIB": str(size)}, **owner))
    await station.hears("has written", 4)
    let_free(monkeypatch, 64 * MIB)
    return await first_ended(station)


@pytest.mark.slow
async def test_a_service_of_the_organization_that_uses_most_disk_is_ended_first(station, monkeypatch):
    assert await ended(station, monkeypatch, dict.fromkeys(CROWD, "crowd")) in CROWD


@pytest.mark.nightly
async def test_among_different_organizations_the_service_that_uses_most_disk_is_ended(station, monkeypatch):
    assert await ended(station, monkeypatch, {}) == OTHER


ONE = dict.fromkeys((*CROWD, OTHER), "one")


@pytest.mark.nightly
async def test_the_environment_that_holds_most_of_the_disk_pays_first_in_an_organization(
    station, monkeypatch
):
    play = dict.fromkeys(CROWD, STORES)
    assert await ended(station, monkeypatch, ONE, {**play, OTHER: OTHER}) in CROWD


@pytest.mark.nightly
async def test_in_one_environment_the_service_that_holds_most_is_ended(station, monkeypatch):
    assert await ended(station, monkeypatch, ONE) == OTHER


async def two_that_write(station: Station) -> None:
    """One stores 40 MiB in its volume; another, of another organization, writes 60 MiB elsewhere."""
    made = await station.rig.artifact(FILLS)
    stores = wanted(made, service=STORES, org="stores", variables={"MIB": "40"}, volumes=DATA)
    await station.apply(stores)
    await station.apply(wanted(made, service=OTHER, org="other", variables={"MIB": "60"}))
    await station.hears("has written", 2)


@pytest.mark.slow
async def test_an_organization_whose_volumes_fill_the_disk_pays_before_one_with_larger_files(
    station, monkeypatch
):
    await two_that_write(station)
    held = {"stores": 5000 * MIB, "other": 60 * MIB}
    station.engine.note_disk_use(DiskMeasurement(6000 * MIB, held))
    let_free(monkeypatch, 64 * MIB, lost=100 * MIB)
    assert await first_ended(station) == STORES


@pytest.mark.slow
async def test_a_service_whose_volume_did_not_grow_is_not_ended_first(station, monkeypatch):
    await two_that_write(station)
    held = {"stores": 5000 * MIB, "other": 60 * MIB}
    station.engine.note_disk_use(DiskMeasurement(6000 * MIB, held, {STORES: 41 * MIB}))
    let_free(monkeypatch, 64 * MIB, lost=100 * MIB)
    assert await first_ended(station) == OTHER


async def test_near_the_reserve_a_service_of_an_organization_above_its_share_is_ended(station, monkeypatch):
    await two_that_write(station)
    station.engine.note_disk_use(DiskMeasurement(20 * MIB, {"stores": 5000 * MIB, "other": 10 * MIB}))
    let_free(monkeypatch, 200 * MIB, lost=100 * MIB)
    assert await first_ended(station) == STORES
    assert "its organization holds more than its share" in (await station.one(STORES)).reason


async def test_near_the_reserve_organizations_within_their_share_go_on(station, monkeypatch, caplog):
    await two_that_write(station)
    station.engine.note_disk_use(DiskMeasurement(6000 * MIB, {"stores": 5000 * MIB, "other": 10 * MIB}))
    let_free(monkeypatch, 200 * MIB, lost=100 * MIB)
    await station.engine._resource_monitor._keep_reserve()
    assert not caplog.records


async def test_near_the_reserve_no_service_with_volumes_of_an_organization_above_its_share_starts(
    station, monkeypatch
):
    made = await station.rig.artifact(FILLS)
    station.engine.note_disk_use(DiskMeasurement(20 * MIB, {"stores": 5000 * MIB}))
    monkeypatch.setattr(starting, "is_short", lambda *_: True)
    with pytest.raises(EngineUnavailable, match="Delete data of the organization"):
        await station.apply(wanted(made, service=STORES, org="stores", volumes=DATA))
    await station.apply(wanted(made, service=OTHER, org="other", volumes=DATA, variables={"MIB": "1"}))
    await station.hears("has written", 1)
