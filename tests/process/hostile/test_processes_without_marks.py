"""All processes of a cell end with its instance, also if none of them has a mark of Windlass any more."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

import pytest

from tests.engines.processes import ProcessRig
from tests.engines.stations import Station, until, wanted
from tests.marks import nightly
from tests.process.helpers import KEY, SERVICE
from windlass.base import kernel
from windlass.process import process_table, spawn
from windlass.process.engine import ProcessEngine

LEAVES_A_PROCESS = """
import os, signal
if not os.fork():
    os.setsid()
    os.execve("/bin/sleep", ["sleep", "1000"], {})
print("has started", flush=True)
{}
"""
ENDS, FORGETS = "", 'os.execve("/bin/sleep", ["sleep", "1000"], {})'


@pytest.fixture
def rig(tmp_path, monkeypatch):
    # As if a program had taken over the first process of its cell and executed something else there.
    monkeypatch.setattr(spawn, "MARK_VARIABLES", ())
    return ProcessRig(tmp_path, has_groups=False)


async def namespace_of(station, program):
    """Starts a program. Returns the number of its process namespace."""
    await station.apply(wanted(station.rig.made(LEAVES_A_PROCESS.replace("{}", program))))
    await station.hears("has started")
    record = station.engine._records.read(KEY)
    assert record is not None
    if not record.space:
        pytest.skip("needs a kernel that gives process namespaces")
    return record.space


def inside(space: int) -> list[int]:
    return [
        stat.pid
        for stat in kernel.all_processes()
        if not stat.dead and kernel.process_namespace(stat.pid) == space
    ]


async def end_all(space: int) -> None:
    for pid in inside(space):
        with suppress(ProcessLookupError):  # the first one ends the others
            os.kill(pid, signal.SIGKILL)


async def has_ended(space: int) -> bool:
    return not inside(space)


async def ends_by_a_removal(rig) -> bool:
    async with Station(rig) as station:
        space, engine = await namespace_of(station, ENDS), station.engine
        assert isinstance(engine, ProcessEngine)
        await engine.end(SERVICE)
        await engine.sweep(await engine.services())
        ended = await has_ended(space)
        await end_all(space)
        return ended


async def test_a_removal_ends_processes_without_marks(rig):
    assert await ends_by_a_removal(rig)


@pytest.mark.nightly
async def test_without_the_search_in_cells_processes_without_marks_survive_a_removal(
    rig, tmp_path, monkeypatch
):
    monkeypatch.setattr(process_table, "_is_inside", lambda table, process, space: False)
    monkeypatch.setattr(kernel, "mount_points", lambda pid: ())
    for attempt in ("first", "second", "third"):  # the cell may end by itself on a busy machine
        if not await ends_by_a_removal(ProcessRig(tmp_path / attempt, has_groups=False)):
            return
    assert False, "each of three cells has ended"  # noqa: B011, PT015


@pytest.mark.parametrize("is_mounted", [True, *nightly(False)])
async def test_a_server_start_kills_unmarked_processes_whose_instance_record_is_gone(
    rig, monkeypatch, is_mounted
):
    if not is_mounted:
        monkeypatch.setattr(kernel, "mount_points", lambda pid: ())
    async with Station(rig) as station:
        space = await namespace_of(station, FORGETS)
    (rig.folder / "services").rename(rig.folder / "elsewhere")  # as if an operator had moved it
    async with Station(rig):
        if is_mounted:
            await until(lambda: has_ended(space))
        else:
            assert not await has_ended(space)
        await end_all(space)
