"""A later Windlass adopts, finishes or ends the processes of an earlier one."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Collection
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from tests.engines import programs
from tests.engines.processes import ProcessRig
from tests.engines.stations import Station, until, wanted
from tests.process.helpers import KEY, SERVICE
from windlass.base import kernel
from windlass.base.kernel import Process
from windlass.engines.engine import EngineError, EngineUnavailable, NotReady
from windlass.engines.workload import Phase
from windlass.process.process_table import OwnedProcess, ProcessTable, _ProcessNamespaces, count
from windlass.process.records import RecordStore, UnknownRecord

pytestmark = pytest.mark.slow


@pytest.fixture
def stranger():
    """A process of another user."""
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(1000)"]) as made:
        yield made
        made.kill()


# What was left by a Windlass that is gone.


async def test_a_reused_pid_is_not_taken_for_an_instance(rig, stranger):
    it = wanted(rig.made(programs.SLEEPS))
    async with Station(rig) as before:
        await before.apply(it)
        shelf = RecordStore(rig.folder)
        record = shelf.read(KEY)
        assert record is not None
        assert record.process is not None
    os.kill(record.process.pid, signal.SIGKILL)
    now = identity(stranger.pid)
    shelf.write(KEY, structs.replace(record, process=structs.replace(now, start=now.start - 1)))
    async with Station(rig) as after:
        assert (await after.one(SERVICE)).phase is not Phase.RUNNING
        await after.engine.sweep(await after.engine.services())
        assert stranger.poll() is None


def identity(pid: int) -> Process:
    found = kernel.identify(pid)
    assert found is not None
    return found


async def test_a_process_recorded_before_a_reboot_does_not_count_as_running(stranger):
    now = identity(stranger.pid)
    assert kernel.is_running(now)
    assert not kernel.is_running(structs.replace(now, boot="another"))
    assert not kernel.is_running(structs.replace(now, start=now.start + 1))


@pytest.mark.parametrize("has_rebooted", [True, False])
async def test_an_instance_that_ended_with_the_machine_says_so(rig, has_rebooted):
    it = wanted(rig.made(programs.SLEEPS))
    async with Station(rig) as before:
        await before.apply(it)
    shelf = RecordStore(rig.folder)
    record = shelf.read(KEY)
    assert record is not None
    assert record.process is not None
    os.kill(record.process.pid, signal.SIGKILL)
    boot = "another" if has_rebooted else record.process.boot
    shelf.write(KEY, structs.replace(record, process=structs.replace(record.process, boot=boot)))
    async with Station(rig) as after:
        said = (await after.apply(it)).reason
        await after.engine.remove(SERVICE, grace=1)
    assert said == ("ended when the machine was restarted" if has_rebooted else "was killed by SIGKILL")


@pytest.mark.parametrize("has_rebooted", [True, False])
async def test_a_version_does_not_fail_because_the_machine_was_restarted_while_it_started(rig, has_rebooted):
    """The control is an instance that something killed: its version fails, as with any other end."""
    it = wanted(rig.made(programs.SLEEPS), settle=0.1)
    async with Station(rig) as before:
        await before.apply(it)
    shelf = RecordStore(rig.folder)
    record = shelf.read(KEY)
    assert record is not None
    assert record.process is not None
    os.kill(record.process.pid, signal.SIGKILL)
    boot = "another" if has_rebooted else record.process.boot
    shelf.write(KEY, structs.replace(record, process=structs.replace(record.process, boot=boot)))
    async with Station(rig) as after:
        await after.apply(it)
        with nullcontext() if has_rebooted else pytest.raises(NotReady, match="was killed by SIGKILL"):
            await after.engine.wait_until_ready(it, 1)
        await after.engine.remove(SERVICE, grace=1)


async def test_a_truncated_instance_record_is_treated_as_missing(rig):
    home = RecordStore(rig.folder).home(KEY)
    home.mkdir(parents=True)
    (home / "record.json").write_bytes(b"\0" * 40)
    async with Station(rig) as station:
        assert not await station.seen(SERVICE)
        assert (await station.apply(wanted(rig.made(programs.SLEEPS)))).phase is Phase.RUNNING
        await station.engine.sweep(await station.engine.services())


OF_ANOTHER_VERSION = [b'{"form": 2, "instance": {}}', b'{"service": 1}', b"[]"]


@pytest.mark.parametrize("record", OF_ANOTHER_VERSION)
async def test_an_instance_with_a_record_of_another_version_is_neither_started_again_nor_erased(
    rig, record, caplog
):
    it = wanted(rig.made(programs.SLEEPS))
    async with Station(rig) as before:
        await before.apply(it)
    file = RecordStore(rig.folder).home(KEY) / "record.json"
    readable = file.read_bytes()
    file.write_bytes(record)
    async with Station(rig) as after:
        engine = after.engine
        [instance] = await after.seen(SERVICE)
        assert instance.phase is Phase.EXITED
        for deed in (
            engine.apply(it, 1),
            engine.apply(structs.replace(it, generation=2), 1),
            engine.apply(it, 0),
            engine.remove(SERVICE, generation=1),
            engine.set_aside(SERVICE, rig.folder / "aside"),
            engine.discard(SERVICE),
        ):
            with pytest.raises(EngineError, match="another version of Windlass"):
                await deed
        await engine.sweep([SERVICE])
        assert (await engine.services())[SERVICE].instances == 1
        assert (await rig.copies(SERVICE), file.read_bytes()) == ([(1, 0)], record)
        assert sum("of another version" in said.message for said in caplog.records) == 1
        file.write_bytes(readable)
        await engine.discard(SERVICE)
        assert await rig.traces(SERVICE) == []


async def _is_another(rig, first: Collection[str]) -> bool:
    running = {trace for trace in await rig.traces(SERVICE) if trace.startswith("process ")}
    return not running <= set(first)


@pytest.mark.nightly
async def test_if_a_record_of_another_version_counted_as_missing_a_second_copy_would_start(rig, monkeypatch):
    """It runs beside the first one, or instead of it where that was ended as one without a record."""
    it = wanted(rig.made(programs.SLEEPS))
    async with Station(rig) as before:
        await before.apply(it)
    first = await rig.traces(SERVICE)
    (RecordStore(rig.folder).home(KEY) / "record.json").write_bytes(OF_ANOTHER_VERSION[0])
    real = RecordStore.read_in

    def as_if_torn(shelf, home):
        with suppress(UnknownRecord):
            return real(shelf, home)

    monkeypatch.setattr(RecordStore, "read_in", as_if_torn)
    async with Station(rig) as after:
        await after.apply(it)
        await until(partial(_is_another, rig, first))
        await after.engine.discard(SERVICE)
        await after.engine.sweep([])  # the copy without a record is found by its folder, which is gone
        assert await rig.copies(SERVICE) == []


RECORD_OF_0_1_0 = {
    "service", "pod", "deployment", "org", "workdir", "memory",
    "ports", "made", "made_at", "process", "first", "space",
    "engine", "last", "cell", "cgroup", "started_at", "restarts",
    "exit_code", "reason", "verdict", "pause", "resume_at", "once",
    "ended_at", "peak_memory", "removing",
}  # fmt: skip
CELL_OF_0_1_0 = {
    "identity", "uid", "inner", "name", "mounts", "processes",
    "landlock", "readable", "writable", "temporary", "hidden", "private",
    "settings", "most_processes", "most_memory", "largest_file", "shared_memory", "families",
    "refuses_ports", "network",
}  # fmt: skip


async def test_an_instance_that_an_earlier_version_recorded_is_adopted_and_not_started_again(rig):
    async with Station(rig) as before:
        started = await before.apply(wanted(rig.made(programs.SLEEPS)))
    file = RecordStore(rig.folder).home(KEY) / "record.json"
    record = json.loads(file.read_bytes())
    process = record["process"]
    kept = {name: record[name] for name in RECORD_OF_0_1_0 if name in record}
    assert record["cell"]  # rigs keep services apart as far as this machine allows
    kept["cell"] = {name: record["cell"][name] for name in CELL_OF_0_1_0 if name in record["cell"]}
    file.write_text(json.dumps(kept))
    async with Station(rig) as after:
        [instance] = await after.seen(SERVICE)
        assert instance.ports == started.ports
        assert instance.restarts == 0
        assert json.loads(file.read_bytes())["process"] == process
        await after.engine.discard(SERVICE)


async def test_an_interrupted_removal_is_completed_at_the_next_start(rig):
    it = wanted(rig.made(programs.SLEEPS))
    async with Station(rig) as before:
        await before.apply(it)
        await before.engine.apply(it, 2)
    shelf = RecordStore(rig.folder)
    shelf.removed.note(SERVICE, [1])  # as far as it came
    async with Station(rig) as after:
        await until(lambda: _nothing(after))
        assert await rig.copies(SERVICE) == []
        await until(lambda: _no_traces(rig))


async def _nothing(station):
    return not await station.seen(SERVICE)


async def _no_traces(rig):
    return await rig.traces(SERVICE) == []


async def test_processes_without_an_instance_folder_and_orphaned_commands_are_killed(rig):
    def start(**variables: str) -> subprocess.Popen[Any]:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", "import time; time.sleep(1000)"],
            env={"WINDLASS_INSTANCE": "x", **variables},
            start_new_session=True,
        )

    it = wanted(rig.made(programs.SLEEPS))
    async with Station(rig) as before:
        await before.apply(it)
    home = RecordStore(rig.folder).home(KEY)
    gone = identity(os.getpid())
    with (
        start(WINDLASS_FILES=f"{rig.folder}/services/gone/1-0/files") as without_folder,
        start(
            WINDLASS_FILES=f"{home}/files", WINDLASS_EXECUTED_BY=f"{gone.pid}.{gone.start - 1}.{gone.boot}"
        ) as without_windlass,
        start(WINDLASS_FILES="/somewhere/else/services/gone/1-0/files") as of_another,
    ):
        async with Station(rig) as after:
            for each in (without_folder, without_windlass):
                await asyncio.to_thread(each.wait)
            assert of_another.poll() is None
            assert (await after.one(SERVICE)).phase is Phase.RUNNING
            await after.engine.sweep(await after.engine.services())
        of_another.kill()


async def test_an_engine_reports_an_unusable_folder_and_continues_once_it_is_usable(tmp_path):
    (tmp_path / "engine").write_text("in the way")
    rig = ProcessRig(tmp_path)
    async with Station(rig) as station:
        assert "cannot be used" in await station.engine.problem()
        with pytest.raises(EngineUnavailable):
            await station.apply(wanted(rig.made(programs.SLEEPS)))
        (tmp_path / "engine").unlink()
        assert await station.engine.problem() == ""
        assert (await station.apply(wanted(rig.made(programs.SLEEPS)))).phase is Phase.RUNNING
        await station.engine.sweep(await station.engine.services())


def test_the_process_table_keeps_known_processes_and_not_reused_process_ids(tmp_path: Path):
    me = kernel.stat(os.getpid())
    assert me is not None
    known = OwnedProcess(me, str(tmp_path / "home"), is_told=True)
    assert count(tmp_path, ProcessTable([known])).by_pid[me.pid].home == known.home
    another = structs.replace(known, stat=structs.replace(me, start=me.start - 1))
    assert count(tmp_path, ProcessTable([another])).by_pid[me.pid].home == ""


def test_a_process_seen_during_exec_is_identified_at_the_next_scan(tmp_path: Path, monkeypatch):
    """The kernel shows no environment of it for a moment. It is in a cell, so that it would stay unknown."""
    me = kernel.stat(os.getpid())
    assert me is not None
    unknown = OwnedProcess(me, "", space=7)
    marks = {"WINDLASS_INSTANCE": b"web-1", "WINDLASS_FILES": os.fsencode(tmp_path / "home" / "files")}
    monkeypatch.setattr(kernel, "marks", lambda pid, names: marks if pid == me.pid else None)
    assert count(tmp_path, ProcessTable([unknown])).by_pid[me.pid].home == str(tmp_path / "home")


@pytest.mark.parametrize("space", [7, 0])
def test_environments_of_processes_in_a_known_process_namespace_are_not_read(tmp_path, monkeypatch, space):
    """It is known by its oldest process, and by none that has ended meanwhile."""
    me, parent = kernel.stat(os.getpid()), kernel.stat(os.getppid())
    assert me is not None
    assert parent is not None
    read: list[int] = []
    monkeypatch.setattr(kernel, "marks", lambda pid, names: read.append(pid))
    monkeypatch.setattr(
        _ProcessNamespaces, "of", lambda self, pid: space if pid in (me.pid, parent.pid) else 0
    )
    first = OwnedProcess(parent, str(tmp_path / "home"), space=space, is_told=True)
    ended = OwnedProcess(structs.replace(parent, pid=1 << 22, start=0), "other", space=space, is_told=True)
    found = count(tmp_path, ProcessTable([first, ended])).by_pid[me.pid]
    assert (found.home, me.pid in read) == ((first.home, False) if space else ("", True))


@pytest.mark.parametrize(("before", "found"), [(60 << 10, {"MARK": b"x"}), (70 << 10, {})])
async def test_instance_marks_are_read_only_from_the_beginning_of_an_environment(
    before: int, found: dict[str, bytes]
):
    environ = {"A": "", "B": "=MARK=y", "FILL": "x" * before, "MARK": "x"}
    pipe = subprocess.PIPE
    with subprocess.Popen(["/bin/cat"], env=environ, stdin=pipe, stdout=pipe, bufsize=0) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        other.stdin.write(b"+")
        assert other.stdout.read(1) == b"+"  # it has its environment
        try:

            async def has_begun() -> bool:
                return kernel.marks(other.pid, []) is not None

            await until(has_begun)
            assert kernel.marks(other.pid, ["MARK", "OTHER"]) == found
        finally:
            other.kill()
