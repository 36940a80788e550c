"""Memory in files counts as memory of an instance or of build steps, where no control group counts it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.engines.processes import ProcessRig
from tests.engines.stations import Station, wanted
from windlass.base import process_memory
from windlass.base.guests import Guests
from windlass.base.isolation.isolation import Isolation
from windlass.builders.builder import BuildError
from windlass.builders.native.cells import BuildStep, Cells
from windlass.engines.process import patrol

LIMIT = 100
WAYS = {
    "memfd": "place = os.memfd_create('x')",
    "shared memory": "place = os.open('/dev/shm/x', os.O_RDWR | os.O_CREAT)",
    "without a name": "place = os.open('/dev/shm', os.O_RDWR | os.O_TMPFILE)",
}
FILLS = """
import os, time
{way}
block, size = b"x" * (1 << 20), 0
try:
    for _ in range(150):
        size += os.write(place, block)
except OSError as error:
    print("refused: no room", flush=True)
print("has written", flush=True)
time.sleep({time})
"""


@pytest.fixture(params=WAYS)
def way(request) -> str:
    return WAYS[request.param]


@pytest.fixture
def uncounted(monkeypatch):
    monkeypatch.setattr(process_memory, "_files_held", lambda pids: 0)
    for module in (process_memory, patrol):
        monkeypatch.setattr(module, "hidden_files", lambda: 0)


def has_mounts() -> bool:
    return "mounts" not in {one.part for one in Isolation("auto", Path("/nowhere")).missing()}


async def fill(folder: Path, way: str, seconds: float) -> tuple[int | None, list[str]]:
    rig = ProcessRig(folder)
    async with Station(rig) as station:
        ended = await station.engine.once(wanted(rig.made(FILLS.format(way=way, time=seconds)), memory=LIMIT))
        return ended.exit_code, station.said


async def test_an_instance_holds_no_more_memory_in_files_than_its_limit(tmp_path, way):
    code, said = await fill(tmp_path, way, 100 if "memfd" in way else 3)
    assert code == 137 or "refused: no room" in said


async def test_without_that_count_it_would_hold_more(tmp_path, uncounted):
    code, said = await fill(tmp_path, WAYS["memfd"], 3)
    assert (code, said) == (0, ["has written"])


async def step(folder: Path, memory: int) -> int:
    home = folder / "home"
    home.mkdir()
    cells = Cells(
        Isolation("auto", folder), "org", home, home, guests=Guests(folder, memory, has_groups=False)
    )
    program = [sys.base_prefix + "/bin/python3", "-c", FILLS.format(way=WAYS["memfd"], time=4)]
    async with cells.running(BuildStep(program, home, {"PATH": "/usr/bin:/bin"}, {})) as (process, _):
        return await process.wait()


async def test_build_steps_hold_no_more_than_theirs(tmp_path):
    with pytest.raises(BuildError, match="build_memory"):
        await step(tmp_path, LIMIT)


async def test_without_that_count_they_would(tmp_path, uncounted):
    assert await step(tmp_path, LIMIT) == 0
