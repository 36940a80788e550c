"""The processor time and the memory of a build are those of all its steps."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.process.builds.test_build_memory import run
from windlass.base.isolation.isolation import Isolation, Mode
from windlass.base.step_limits import StepLimits
from windlass.builders.usage import BuildUsage
from windlass.process.builds import cells as cells_of_builds
from windlass.process.builds.cells import Cells

BURN = """
import os, time
child = os.fork()
end = time.process_time() + 0.5
while time.process_time() < end:
    pass
if not child:
    os._exit(0)
os.wait()
"""
"""Half a second of processor time in each of two processes."""
HOLD = """
import os, time
children = []
for _ in range(3):
    child = os.fork()
    if not child:
        taken = b"x" * (60 << 20)
        time.sleep(2)
        os._exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
"""
"""60 MiB in each of three processes at the same time."""
MIB = 1 << 20


def cells(top: Path, mode: Mode, usage: BuildUsage) -> Cells:
    home = top / "home"
    home.mkdir()
    return Cells(Isolation(mode, top), "service", home, home, step_limits=StepLimits(top), usage=usage)


@pytest.mark.parametrize("mode", ["auto", "off"])
async def test_the_processor_time_of_all_processes_of_all_steps_is_added(tmp_path, mode):
    usage = BuildUsage()
    steps = cells(tmp_path, mode, usage)
    assert await run(steps, BURN) == 0
    first = usage.cpu_ms or 0
    assert 900 <= first < 10_000
    assert await run(steps, BURN) == 0
    assert (usage.cpu_ms or 0) >= first + 900


@pytest.mark.parametrize("mode", ["auto", "off"])
async def test_the_memory_of_processes_that_run_at_the_same_time_is_added(tmp_path, monkeypatch, mode):
    monkeypatch.setattr(cells_of_builds, "_MEASURE_INTERVAL", 0.1)
    usage = BuildUsage()
    assert await run(cells(tmp_path, mode, usage), HOLD) == 0
    assert 180 * MIB <= (usage.peak_memory or 0) < 600 * MIB


async def test_a_step_that_ends_before_it_is_looked_at_counts_with_its_largest_process(tmp_path, monkeypatch):
    monkeypatch.setattr(cells_of_builds, "_MEASURE_INTERVAL", 60)
    usage = BuildUsage()
    assert await run(cells(tmp_path, "auto", usage), "taken = b'x' * (100 << 20)") == 0
    assert 100 * MIB <= (usage.peak_memory or 0) < 300 * MIB


async def test_what_a_killed_step_used_counts(tmp_path, monkeypatch):
    """The kernel does not count processes that nobody has waited for."""
    monkeypatch.setattr(cells_of_builds, "_MEASURE_INTERVAL", 0.1)
    usage = BuildUsage()
    steps = cells(tmp_path, "auto", usage)
    step = asyncio.create_task(run(steps, f"{BURN}\ntime.sleep(60)"))
    while sum(steps._cpu_so_far.values()) < 900:
        assert not step.done()
        await asyncio.sleep(0.05)
    step.cancel()
    await asyncio.gather(step, return_exceptions=True)
    assert (usage.cpu_ms or 0) >= 900


def test_nothing_is_known_of_a_build_without_steps():
    assert not BuildUsage().is_known
