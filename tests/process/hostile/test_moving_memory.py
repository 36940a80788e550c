"""Memory counts that a program hands on from process to process: to a child every few milliseconds, while the
parent ends."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engines.processes import ProcessRig
from tests.engines.stations import Station, wanted
from tests.marks import nightly
from windlass.base import kernel, process_memory, repeated_measurement
from windlass.base.isolation.isolation import Isolation
from windlass.base.kernel import Stat
from windlass.base.step_limits import StepLimits
from windlass.builders.builder import BuildError
from windlass.process.builds.cells import BuildStep, Cells
from windlass.process.process_table import InstanceProcesses, OwnedProcess

LIMIT = 100
MOVES = """
import os, time
if os.fork():
    time.sleep({time})
    os._exit(0)
parts, file = [], os.memfd_create("x")
print("moves", flush=True)
ends, left = time.monotonic() + {time}, 30
while time.monotonic() < ends:
    if left:
        {holds}
        left -= 1
    if os.fork():
        os._exit(0)
    time.sleep(0.003)
"""
HOLDS = {
    "in memory": "parts.append(b'x' * (5 << 20))",
    "in a file": "os.write(file, bytes(5 << 20))",
}


@pytest.fixture(params=["in a file", *nightly("in memory")])
def holds(request) -> str:
    return HOLDS[request.param]


async def move(folder: Path, holds: str, seconds: float) -> int | None:
    rig = ProcessRig(folder, has_groups=False)
    async with Station(rig) as station:
        program = rig.made(MOVES.format(holds=holds, time=seconds))
        ended = await station.engine.once(wanted(program, memory=LIMIT))
        assert "moves" in station.said
        return ended.exit_code


async def test_memory_passed_from_parent_to_child_processes_counts_for_the_service_limit(tmp_path, holds):
    assert await move(tmp_path, holds, 100) == 137


@pytest.mark.nightly
async def test_with_an_outdated_process_list_a_program_could_hide_memory_in_its_children(
    tmp_path, holds, monkeypatch
):
    new_processes: Any = kernel.new_processes

    def read_before(seen: set[int]) -> Iterator[Stat]:
        found = [*new_processes(seen)]
        time.sleep(0.3)  # as if there were a thousand processes
        return iter(found)

    def listed(processes: InstanceProcesses) -> dict[int, OwnedProcess]:
        return {process.stat.pid: process for process in processes._known}

    monkeypatch.setattr(kernel, "new_processes", read_before)
    monkeypatch.setattr(InstanceProcesses, "find", listed)
    assert await move(tmp_path, holds, 4) == 0


async def move_in_build(folder: Path, holds: str, seconds: float) -> int:
    home = folder / "home"
    home.mkdir()
    step_limits = StepLimits(folder, LIMIT, has_groups=False)
    cells = Cells(Isolation("auto", folder), "org", home, home, step_limits=step_limits)
    program = [sys.base_prefix + "/bin/python3", "-c", MOVES.format(holds=holds, time=seconds)]
    async with cells.running(BuildStep(program, home, {"PATH": "/usr/bin:/bin"}, {})) as (process, _):
        return await process.wait()


async def test_memory_passed_from_parent_to_child_processes_counts_for_the_build_limit(tmp_path, holds):
    with pytest.raises(BuildError, match="build_memory"):
        await move_in_build(tmp_path, holds, 100)


@pytest.mark.nightly
async def test_with_an_outdated_process_list_a_build_step_could_hide_memory_in_its_children(
    tmp_path, holds, monkeypatch
):
    sizes_below = process_memory._resident_bytes_by_pid

    def list_slowly(roots: Collection[int]) -> dict[int, int]:
        found = sizes_below(roots)
        time.sleep(0.3)
        return found

    monkeypatch.setattr(process_memory, "_resident_bytes_by_pid", list_slowly)
    assert await move_in_build(tmp_path, holds, 4) == 0


def test_processes_are_listed_newest_first_even_after_process_ids_wrapped_around(monkeypatch):
    monkeypatch.setattr(os, "listdir", lambda path: ["1", "5", "net", "300", "400"])
    monkeypatch.setattr(repeated_measurement, "newest_number", lambda: 7)
    assert repeated_measurement.newest_first() == [5, 1, 400, 300]
