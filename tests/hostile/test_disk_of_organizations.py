"""Services of one organization that fill the disk together are ended before a larger one of a neighbour."""

from __future__ import annotations

import pytest

from tests.engines.processes import ProcessRig
from tests.engines.stations import Station, until, wanted
from windlass.base.disk_reserve import DiskWatch, Room

MIB = 1 << 20
FILLS = """
import os, signal
with open(os.environ["HOME"] + "/zeros", "wb") as file:
    file.write(bytes(int(os.environ["MIB"]) << 20))
print("has written", flush=True)
signal.pause()
"""
CROWD = {f"{number}1111111-aaaa-4aaa-8aaa-000000000001": 24 for number in range(3)}
OTHER = "91111111-aaaa-4aaa-8aaa-000000000001"


@pytest.fixture
async def station(tmp_path):
    async with Station(ProcessRig(tmp_path)) as made:
        yield made
        await made.engine.sweep(await made.engine.services())


async def ended(station: Station, monkeypatch: pytest.MonkeyPatch, crowd: dict[str, str]) -> str:
    """Starts services that write, with the organizations of some. Returns the one that is ended when the disk
    is short."""
    made = await station.rig.artifact(FILLS)
    for service, size in {**CROWD, OTHER: 40}.items():
        org = crowd.get(service, service)
        await station.apply(wanted(made, service=service, org=org, variables={"MIB": str(size)}))
    await station.hears("has written", 4)
    short = [Room("bytes", 64 * MIB, whole=10_000 * MIB, reserve=150 * MIB)]
    monkeypatch.setattr(DiskWatch, "shortage", lambda watch: short.pop() if short else None)

    async def found():
        return [s for s in (*CROWD, OTHER) for seen in await station.seen(s) if seen.reason]

    return str((await until(found))[0])


async def test_the_organization_that_holds_most_of_the_disk_pays_first(station, monkeypatch):
    assert await ended(station, monkeypatch, dict.fromkeys(CROWD, "crowd")) in CROWD


async def test_each_alone_the_service_that_holds_most_is_ended(station, monkeypatch):
    assert await ended(station, monkeypatch, {}) == OTHER
