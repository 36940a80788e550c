"""System V semaphores, messages and memory of a service stay small: the kernel keeps them for no process, so
no limit of memory counts them. Without the limits, a service holds hundreds of megabytes in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engines.processes import ProcessRig
from tests.engines.stations import Station, until, wanted
from windlass.base.isolation import isolation
from windlass.base.isolation.isolation import Isolation

TAKES = """
import ctypes, json
libc = ctypes.CDLL(None)
def made(most, make):
    ids = []
    while len(ids) < most and (number := make()) >= 0:
        ids.append(number)
    return ids
sets = made(40, lambda: libc.semget(0, 32000, 0o1600))
small_sets = made(40, lambda: libc.semget(0, 17, 0o1600))
queues = made(64, lambda: libc.msgget(0, 0o1600))
small_segments = made(10, lambda: libc.shmget(0, 56, 0o1600))
segments = made(10, lambda: libc.shmget(0, 32 << 20, 0o1600))
print("found " + json.dumps([*map(len, (sets, small_sets, queues, segments, small_segments))]), flush=True)
for number in sets + small_sets:
    libc.semctl(number, 0, 0)
for number in queues:
    libc.msgctl(number, 0, 0)
for number in segments + small_segments:
    libc.shmctl(number, 0, 0)
"""
MEMORY = 128
"""MiB of an instance of these tests."""


@pytest.fixture(params=["user", "namespace", "none"])
def found(request, monkeypatch):
    """What is found for the cells of root, of an ordinary user, and of one without namespaces."""
    real = Isolation("auto", Path("/nowhere"))._findings()
    if not real["socket_filter"]:
        pytest.skip("needs a kernel with seccomp filters")
    if real["identity"] == "none" != request.param or (request.param == "user" != real["identity"]):
        pytest.skip("needs a kernel and a user that can make such cells")
    bare = {"mounts": False, "processes": False} if request.param == "none" else {}
    found = {**real, "identity": request.param, "network": False, **bare}
    found["why"] = {**real["why"], "network": "none"}
    monkeypatch.setattr(isolation, "findings", lambda *numbers: found)
    return found


async def taken(tmp_path: Path) -> list[int]:
    rig = ProcessRig(tmp_path)
    async with Station(rig) as station:
        await station.engine.once(wanted(rig.made(TAKES), memory=MEMORY))

        async def has_said() -> bool:
            return bool(station.said)

        await until(has_said)
    said: list[int] = json.loads(station.said[0].partition("found ")[2])
    return said


async def test_a_service_can_create_only_few_system_v_objects(tmp_path, found):
    sets, small_sets, queues, segments, small_segments = await taken(tmp_path)
    assert sets == 0
    assert (small_sets, small_segments) == (40, 10), "databases need some"
    if found["identity"] == "user":
        assert queues == 32
        assert segments <= 4
    else:
        assert (queues, segments) == (0, 0)


@pytest.mark.nightly
async def test_without_limits_a_service_creates_any_number_of_system_v_objects(tmp_path, found, monkeypatch):
    found["socket_filter"] = False  # the limits of an ordinary user; root sets those of shared_memory
    made = Isolation.cell
    monkeypatch.setattr(
        Isolation,
        "cell",
        lambda *given, shared_memory, **more: made(*given, **more),
    )
    assert await taken(tmp_path) == [40, 40, 64, 10, 10]
