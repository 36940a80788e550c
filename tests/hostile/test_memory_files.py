"""Memory in files counts as memory of an instance or of build steps, where no control group counts it."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.engines.processes import ProcessRig
from tests.engines.stations import Station, wanted
from tests.needs import needs_root
from windlass.base import process_memory
from windlass.base.guests import Guests
from windlass.base.isolation import calls
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


@needs_root
@pytest.mark.parametrize("name", [b"plain", b"\xff", "\u00e9 \\ \n".encode()])
def test_a_file_system_in_memory_counts_whatever_the_bytes_of_its_path_are(tmp_path, name):
    hear, tell = os.pipe()

    def hold() -> None:
        calls.unshare(calls.CLONE_NEWNS)
        calls.set_attributes("/", 0, private=True)
        place = tmp_path / os.fsdecode(name)
        place.mkdir()
        calls.mount("tmpfs", str(place), 0)
        (place / "x").write_bytes(bytes(8 << 20))
        os.write(tell, b"+")
        signal.pause()

    child = os.fork()
    if not child:
        calls.run_to_exit(hold, lambda error: os.write(tell, repr(error).encode()), 0)
    assert os.read(hear, 100) == b"+"
    try:
        assert process_memory.are_above({child: 0}, 7 << 20)
        assert not process_memory.are_above({child: 0}, 40 << 20)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
