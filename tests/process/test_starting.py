"""The engine of processes starts a program with nothing but its own, and records it before it runs."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from tests.base.test_filelock import holder
from tests.engines import programs
from tests.engines.conformance import told_by
from tests.engines.lifecycle import PORT
from tests.engines.stations import Station, until, wanted
from tests.process.helpers import KEY, SERVICE, answer_of
from windlass.base import kernel
from windlass.base.kernel import Process
from windlass.engines.engine import EngineError, EngineUnavailable
from windlass.engines.workload import Artifact
from windlass.process import files, records, run_recorder
from windlass.process.end_recorder import read_result
from windlass.process.output import last_output
from windlass.process.records import Record, RecordStore
from windlass.process.spawn import SpawnedProcess, Spawner, SpawnRequest

RECORD = Record(org="", service=SERVICE, pod="web-1-0", deployment="a deployment", workdir="", memory=128)


ABOUT_ITSELF = """
import json, os, resource, time
status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
print(json.dumps({
    "descriptors": [number for number in range(100) if os.path.exists(f"/proc/self/fd/{number}")],
    "input": os.readlink("/proc/self/fd/0"),
    "privileges": status["NoNewPrivs"].strip(),
    "umask": status["Umask"].strip(),
    "core": resource.getrlimit(resource.RLIMIT_CORE)[1],
    "leads": os.getsid(0) == os.getpid(),
    "folder": os.getcwd(),
    "home": os.path.isdir(os.environ["HOME"]) and os.path.isdir(os.environ["TMPDIR"]),
    "variables": sorted(os.environ),
}), flush=True)
time.sleep(1000)
"""


# How a program is started.


@pytest.mark.parametrize("names", [{}, {"odd.name": "1"}])  # a shell does not hand on the second
async def test_a_program_inherits_no_descriptors_and_variables_of_the_server(rig, station, names):
    ours, theirs = os.pipe()
    os.set_inheritable(theirs, True)
    it = wanted(rig.made(ABOUT_ITSELF), variables=names, ports=[PORT])
    await station.apply(it)
    told = await told_by(station)
    os.close(ours)
    os.close(theirs)
    variables = set(told.pop("variables")) - {"PWD", "LC_CTYPE", *names}
    assert told == {
        "descriptors": [0, 1, 2],
        "input": "/dev/null",
        "privileges": "1",
        "umask": "0022",
        "core": 0,
        "leads": True,
        "folder": str(rig.folder / "services" / SERVICE / "1-0" / "app"),
        "home": True,
    }
    own = {"PATH", "HOME", "TMPDIR", "LANG", "PORT", f"WINDLASS_PORT_{PORT}"}
    assert variables == own | {"WINDLASS_INSTANCE", "WINDLASS_FILES"}


@pytest.mark.parametrize("names", [{}, {"odd.name": "1"}])
def test_a_program_whose_record_cannot_be_written_never_runs(tmp_path, names):
    born = []

    def record(process):
        born.append(process)
        raise OSError("the disk is full")

    request = SpawnRequest((sys.executable, "-c", "print('it ran')"), tmp_path, names, tmp_path / "output")
    spawner = Spawner()
    with pytest.raises(OSError, match="full"):
        spawner.start(request, record)
    assert kernel.stat(born[0].process.pid) is None
    assert last_output(tmp_path).strip(b"\0") == b""
    spawner.start(request, born.append)  # the other side of it: once recorded, it runs
    assert os.waitstatus_to_exitcode(os.waitpid(born[1].process.pid, 0)[1]) == 0
    assert last_output(tmp_path).strip(b"\0") == b"it ran\n"
    spawner.close()


async def test_a_run_whose_server_was_killed_during_its_start_is_started_again(rig, station):
    it = wanted(rig.made("print('it ran')"))
    dead = Process(pid=1 << 22, start=1, boot=kernel.boot())
    RecordStore(rig.folder).home(KEY).mkdir(parents=True)
    RecordStore(rig.folder).write(KEY, structs.replace(RECORD, once=True, process=dead, started_at=1))
    assert (await station.engine.once(it)).exit_code == 0
    assert station.said == ["it ran"]


def folder_of_run(home: Path) -> Path:
    files.make_once(home, None)
    return home / files.RECORDER_FOLDER


def test_a_run_recorder_started_twice_runs_the_program_once(tmp_path):
    command = run_recorder.recording_command(
        [sys.executable, "-c", "print('it ran'); raise SystemExit(7)"], folder_of_run(tmp_path)
    )
    first, second = (subprocess.run(command, capture_output=True, check=False) for _ in range(2))
    assert (first.returncode, first.stdout) == (7, b"it ran\n")
    assert (second.returncode, second.stdout) == (125, b"")
    ended = read_result(tmp_path)
    assert ended is not None
    assert ended.status == 7


@pytest.mark.parametrize("code", ["import os; os.kill(os.getpid(), 11)", "raise SystemExit(0)"])
def test_a_run_recorder_stores_the_signal_that_ended_the_program(tmp_path, code):
    command = run_recorder.recording_command([sys.executable, "-c", code], folder_of_run(tmp_path))
    subprocess.run(command, check=False)
    ended = read_result(tmp_path)
    assert ended is not None
    assert ended.status == (-11 if "kill" in code else 0)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_run_recorder_retries_writing_the_result_while_the_disk_is_full(tmp_path, monkeypatch, code):
    """Only it knows how the program ended: the run would have failed although it had succeeded."""
    write, failures = run_recorder._write, [code] * 3

    def write_or_fail(path: Path, text: str) -> None:
        if failures:
            raise OSError(failures.pop(), os.strerror(code))
        write(path, text)

    monkeypatch.setattr(run_recorder, "_write", write_or_fail)
    monkeypatch.setattr(run_recorder, "_RETRY_PAUSE", 0)
    run_recorder._record_end(folder_of_run(tmp_path), "7 1000 0")
    ended = read_result(tmp_path)
    assert ended is not None
    assert (ended.status, failures) == (7, [])
    failures.append(errno.EACCES)
    with pytest.raises(PermissionError):
        run_recorder._record_end(folder_of_run(tmp_path), "7 1000 0")


def be_killed_at_a_birth(request: SpawnRequest, answer: Any) -> None:
    def be_killed(born: SpawnedProcess) -> None:
        answer.send(born.process.pid)
        os.kill(os.getpid(), signal.SIGKILL)

    Spawner().start(request, be_killed)


@pytest.mark.parametrize("names", [{}, {"odd.name": "1"}])
def test_a_program_whose_server_is_killed_during_its_start_never_runs(tmp_path, names):
    request = SpawnRequest((sys.executable, "-c", "print('it ran')"), tmp_path, names, tmp_path / "output")
    pid = answer_of(be_killed_at_a_birth, request)
    while (found := kernel.stat(pid)) is not None and not found.dead:
        pass
    assert last_output(tmp_path).strip(b"\0") == b""


async def test_a_variable_with_a_nul_byte_fails_the_start_and_leaves_nothing(rig, station):
    with pytest.raises(EngineError, match="null"):
        await station.apply(wanted(rig.made(programs.SLEEPS), variables={"BAD": "a\0b"}))
    assert await rig.traces(SERVICE) == []


async def test_a_service_without_a_command_is_not_started_and_leaves_nothing(rig, station):
    with pytest.raises(EngineError, match="Procfile"):
        await station.apply(wanted(rig.made("", command=())))
    assert await rig.traces(SERVICE) == []


async def test_a_lost_build_is_not_started_and_leaves_nothing(rig, station):
    with pytest.raises(EngineError, match="Deploy again: the build"):
        await station.apply(wanted(Artifact(kind="native", ref="/nowhere", command=("true",))))
    assert not await station.seen(SERVICE)
    assert await rig.traces(SERVICE) == []


async def test_a_missing_start_command_is_reported_as_exit_code_127_and_retried(rig, station):
    await station.apply(wanted(rig.made("", command=("no-such-program",))))
    seen = await station.ended(SERVICE)
    assert seen.reason == "exited with code 127: the command was not found"
    assert any("no-such-program" in line for line in station.said)


async def test_an_engine_that_was_stopped_can_be_started_once_more(rig):
    async with Station(rig) as before:
        engine = before.engine
    said: list[str] = []
    await engine.start(
        lambda service: None, lambda service, lines: said.extend(line.message for line in lines)
    )
    await engine.apply(wanted(rig.made(programs.ENDS)), 1)
    await until(lambda: _twice(said))
    await engine.discard(SERVICE)
    await engine.stop()


async def _twice(said):
    return said.count("ending") > 1


async def test_an_instance_locked_by_a_paused_server_is_reported_with_its_process_id_after_a_timeout(
    rig, station, monkeypatch
):
    monkeypatch.setattr(records, "_LOCK_TIMEOUT", 0.2)
    it = wanted(await rig.artifact(programs.SLEEPS))
    await station.apply(it)
    (home,) = station.engine._records.find(it.service)
    lock = station.engine._records.home(home) / "lock"
    with (
        holder(lock) as process,
        pytest.raises(EngineUnavailable, match=f"resume or end the process {process.pid}"),
    ):
        await station.engine.remove(it.service, grace=0)
    await station.engine.remove(it.service, grace=0)
    assert not await station.seen(it.service)
