"""Memory in files counts as memory of an instance or of build steps, where no control group counts it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.engines.processes import ProcessRig
from tests.engines.stations import Station, wanted
from tests.marks import nightly
from tests.needs import needs_root
from windlass.base import process_memory
from windlass.base.isolation import calls, isolation
from windlass.base.isolation.isolation import Isolation
from windlass.base.step_limits import StepLimits
from windlass.builders.builder import BuildError
from windlass.process import resource_monitor
from windlass.process.builds.cells import BuildStep, Cells

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
    monkeypatch.setattr(process_memory, "_measure_memory_files", lambda pids: 0)
    monkeypatch.setattr(process_memory, "hidden_memory", lambda: 0)
    monkeypatch.setattr(resource_monitor, "hidden_memory", lambda: 0)


def has_mounts() -> bool:
    return "mounts" not in {one.part for one in Isolation("auto", Path("/nowhere")).missing()}


async def fill(folder: Path, way: str, seconds: float) -> tuple[int | None, list[str]]:
    rig = ProcessRig(folder, has_groups=False)
    async with Station(rig) as station:
        ended = await station.engine.once(wanted(rig.made(FILLS.format(way=way, time=seconds)), memory=LIMIT))
        return ended.exit_code, station.said


async def test_memory_in_files_of_an_instance_counts_against_its_limit(tmp_path, way):
    code, said = await fill(tmp_path, way, 100 if "memfd" in way else 3)
    assert code == 137 or "refused: no room" in said


@pytest.mark.nightly
async def test_without_counting_memory_in_files_an_instance_exceeds_its_limit(tmp_path, uncounted):
    code, said = await fill(tmp_path, WAYS["memfd"], 3)
    assert (code, said) == (0, ["has written"])


async def step(folder: Path, memory: int) -> int:
    home = folder / "home"
    home.mkdir()
    cells = Cells(
        Isolation("auto", folder), "org", home, home, step_limits=StepLimits(folder, memory, has_groups=False)
    )
    program = [sys.base_prefix + "/bin/python3", "-c", FILLS.format(way=WAYS["memfd"], time=4)]
    async with cells.running(BuildStep(program, home, {"PATH": "/usr/bin:/bin"}, {})) as (process, _):
        return await process.wait()


async def test_memory_in_files_of_build_steps_counts_against_their_limit(tmp_path):
    with pytest.raises(BuildError, match="build_memory"):
        await step(tmp_path, LIMIT)


@pytest.mark.nightly
async def test_without_counting_memory_in_files_build_steps_exceed_their_limit(tmp_path, uncounted):
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
        assert process_memory.are_above(lambda: {child: 0}, 7 << 20)
        assert not process_memory.are_above(lambda: {child: 0}, 40 << 20)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


MOUNTS = """
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
libc.unshare(0x10000000 | 0x20000)
made = sum(not libc.mount(b"none", b"/tmp", b"tmpfs", 0, b"size=4k") for _ in range(1000))
print(f"has mounted {made}", flush=True)
signal.pause()
"""


@pytest.fixture
def many_mounts(monkeypatch, tmp_path):
    """A machine whose cells let programs mount, without a filter and Landlock. Others have files in memory,
    so that each instance has to be looked through."""
    real: Any = Isolation("auto", tmp_path / "engine")._findings()
    monkeypatch.setattr(
        isolation, "findings", lambda *numbers: {**real, "landlock": 0, "socket_filter": False}
    )
    others_have_much(monkeypatch)
    return 64 << 10


def others_have_much(monkeypatch):
    monkeypatch.setattr(resource_monitor, "hidden_memory", lambda: 1 << 40)
    monkeypatch.setattr(process_memory, "hidden_files", lambda: 1 << 40)


OPENS_300 = """
import os, signal
files = [open(os.devnull) for _ in range(300)]
print("has opened 300", flush=True)
signal.pause()
"""


@needs_root
async def test_an_instance_with_too_many_mounts_to_check_is_ended(tmp_path, monkeypatch, many_mounts):
    monkeypatch.setattr(process_memory, "_MAX_MOUNTINFO_BYTES", many_mounts)
    rig = ProcessRig(tmp_path, has_groups=False)
    async with Station(rig) as station:
        it = wanted(rig.made(MOUNTS))
        await station.apply(it)
        assert "too many mounts" in (await station.ended(it.service)).reason
        await station.engine.sweep(await station.engine.services())


@needs_root
@pytest.mark.usefixtures("many_mounts")
async def test_an_instance_with_fewer_mounts_is_not_ended(tmp_path):
    rig = ProcessRig(tmp_path, has_groups=False)
    async with Station(rig) as station:
        it = wanted(rig.made(MOUNTS))
        await station.apply(it)
        await station.hears("has mounted 1000")
        engine: Any = station.engine
        await engine._resource_monitor._check_memory()
        assert not (await station.one(it.service)).reason
        await station.engine.sweep(await station.engine.services())


@pytest.mark.parametrize(("most", "is_ended"), [(200, True), *nightly((500, False))])
async def test_an_instance_with_more_open_files_than_can_be_scanned_is_ended(
    tmp_path, monkeypatch, most, is_ended
):
    monkeypatch.setattr(process_memory, "MAX_OPEN_FILES", most)
    others_have_much(monkeypatch)
    async with Station(ProcessRig(tmp_path, has_groups=False)) as station:
        it = wanted(await station.rig.artifact(OPENS_300))
        await station.apply(it)
        await station.hears("has opened 300")
        engine: Any = station.engine
        await engine._resource_monitor._check_memory()
        if is_ended:
            assert "too many open files" in (await station.ended(it.service)).reason
        else:
            assert not (await station.one(it.service)).reason
        await station.engine.sweep(await station.engine.services())


def test_the_mount_table_shared_by_several_processes_is_read_once(monkeypatch):
    read: list[str] = []

    def mounts(process: str) -> list[bytes]:
        read.append(process)
        return []

    monkeypatch.setattr(process_memory, "_read_mountinfo", mounts)
    with subprocess.Popen(["/bin/sleep", "100"]) as other:
        process_memory.are_above(lambda: {os.getpid(): 1, other.pid: 1}, 1)
        other.kill()
    assert len([process for process in read if process != "self"]) == 1, "once for both"
