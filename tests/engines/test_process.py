"""The engine of processes: what every engine promises, and what only this one does."""

from __future__ import annotations

import asyncio
import inspect
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from tests.engines import programs
from tests.engines.conformance import PORT, Conformance, told_by
from tests.engines.processes import ProcessRig, open_engine
from tests.engines.stations import CAPABILITIES, Station, ask, free_port, until, wanted
from windlass.base.erasing import erase
from windlass.core.deploy.workload import Artifact, Phase, Volume
from windlass.engines.engine import Engine, EngineAway, EngineError
from windlass.engines.process import Pauses, cgroups, kernel, recorder
from windlass.engines.process.environment import by_this_python
from windlass.engines.process.kernel import Process
from windlass.engines.process.output import OutputFile, last_words, prepare
from windlass.engines.process.process_table import OwnedProcess, ProcessTable, count
from windlass.engines.process.records import InstanceKey, Record, RecordStore, UnknownRecord
from windlass.engines.process.spawn import Birth, Born, Spawner

SERVICE = wanted(Artifact(kind="native", ref="")).service
KEY = InstanceKey(SERVICE, 1, 0)
RECORD = Record(service=SERVICE, pod="web-1-0", deployment="a deployment", workdir="", memory=128)

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

READS = """
import os, time
for path in os.environ["READ"].split():
    print(path, open(os.path.expandvars(path)).read(), flush=True)
time.sleep(1000)
"""


@pytest.fixture
def rig(tmp_path):
    return ProcessRig(tmp_path)


@pytest.fixture
async def station(rig):
    async with Station(rig) as made:
        yield made
        await made.engine.sweep(await made.engine.services())


@pytest.fixture
def stranger():
    """A process of somebody else."""
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(1000)"]) as made:
        yield made
        made.kill()


class TestConformance(Conformance):
    """See there."""


# How a program is started.


@pytest.mark.parametrize("names", [{}, {"odd.name": "1"}])  # a shell does not hand on the second
async def test_a_program_is_given_nothing_that_is_not_its_own(rig, station, names):
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
def test_a_program_that_could_not_be_recorded_has_never_run(tmp_path, names):
    born = []

    def record(process):
        born.append(process)
        raise OSError("the disk is full")

    what = Birth((sys.executable, "-c", "print('it ran')"), tmp_path, names, tmp_path / "output")
    nursery = Spawner()
    with pytest.raises(OSError, match="full"):
        nursery.start(what, record)
    assert kernel.stat(born[0].process.pid) is None
    assert last_words(tmp_path).strip(b"\0") == b""
    nursery.start(what, born.append)  # the other side of it: once recorded, it runs
    assert os.waitstatus_to_exitcode(os.waitpid(born[1].process.pid, 0)[1]) == 0
    assert last_words(tmp_path).strip(b"\0") == b"it ran\n"
    nursery.close()


async def test_a_run_whose_windlass_was_killed_at_its_birth_runs(rig, station):
    it = wanted(rig.made("print('it ran')"))
    dead = Process(pid=1 << 22, start=1, boot=kernel.boot())
    RecordStore(rig.folder).home(KEY).mkdir(parents=True)
    RecordStore(rig.folder).write(KEY, structs.replace(RECORD, once=True, process=dead, started_at=1))
    assert (await station.engine.once(it)).exit_code == 0
    assert station.said == ["it ran"]


def test_a_recorder_that_is_started_twice_runs_the_program_once(tmp_path):
    command = recorder.recorded([sys.executable, "-c", "print('it ran'); raise SystemExit(7)"], tmp_path)
    first, second = (subprocess.run(command, capture_output=True, check=False) for _ in range(2))
    assert (first.returncode, first.stdout) == (7, b"it ran\n")
    assert (second.returncode, second.stdout) == (125, b"")
    ended = recorder.result(tmp_path)
    assert ended is not None
    assert ended.status == 7


@pytest.mark.parametrize("code", ["import os; os.kill(os.getpid(), 11)", "raise SystemExit(0)"])
def test_a_recorder_knows_the_signal_that_ended_a_program(tmp_path, code):
    subprocess.run(recorder.recorded([sys.executable, "-c", code], tmp_path), check=False)
    ended = recorder.result(tmp_path)
    assert ended is not None
    assert ended.status == (-11 if "kill" in code else 0)


def be_killed_at_a_birth(what: Birth, answer: Any) -> None:
    def be_killed(born: Born) -> None:
        answer.send(born.process.pid)
        os.kill(os.getpid(), signal.SIGKILL)

    Spawner().start(what, be_killed)


@pytest.mark.parametrize("names", [{}, {"odd.name": "1"}])
def test_a_program_whose_windlass_is_killed_at_its_birth_never_runs(tmp_path, names):
    what = Birth((sys.executable, "-c", "print('it ran')"), tmp_path, names, tmp_path / "output")
    pid = answer_of(be_killed_at_a_birth, what)
    while (found := kernel.stat(pid)) is not None and not found.dead:
        pass
    assert last_words(tmp_path).strip(b"\0") == b""


def answer_of(deed: Callable[..., None], *given: Any) -> Any:
    """What it sends from a process of its own."""
    processes = multiprocessing.get_context("forkserver")
    ours, theirs = processes.Pipe()
    living = processes.Process(target=deed, args=(*given, theirs))
    living.start()
    theirs.close()
    answer = ours.recv()
    living.join()
    living.close()
    ours.close()
    return answer


async def test_a_variable_that_no_program_can_have_is_an_error_and_leaves_nothing(rig, station):
    with pytest.raises(EngineError, match="null"):
        await station.apply(wanted(rig.made(programs.SLEEPS), variables={"BAD": "a\0b"}))
    assert await rig.traces(SERVICE) == []


async def test_without_a_command_it_is_not_started_and_leaves_nothing(rig, station):
    with pytest.raises(EngineError, match="Procfile"):
        await station.apply(wanted(rig.made("", command=())))
    assert await rig.traces(SERVICE) == []


async def test_what_was_built_and_is_gone_is_not_started_and_leaves_nothing(rig, station):
    with pytest.raises(EngineError, match="deploy again"):
        await station.apply(wanted(Artifact(kind="native", ref="/nowhere", command=("true",))))
    assert not await station.seen(SERVICE)
    assert await rig.traces(SERVICE) == []


async def test_a_command_that_is_not_there_says_so_and_is_tried_again(rig, station):
    await station.apply(wanted(rig.made("", command=("no-such-program",))))
    seen = await station.ended(SERVICE)
    assert seen.reason == "exited with code 127: the command was not found"
    assert any("no-such-program" in line for line in station.said)


@pytest.mark.parametrize(
    ("before", "ran", "pause"),
    [(0, 0, 0.5), (0.5, 1, 1), (1, 59, 2), (32, 0, 60), (60, 0, 60), (60, 60, 0.5), (4, 3600, 0.5)],
)
def test_pauses_grow_until_it_has_run_well(before, ran, pause):
    assert Pauses().after(before, ran) == pause


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


# Its folder.


async def test_each_instance_has_a_copy_of_its_own_and_shares_what_lies_beside(rig, station):
    art = rig.made(READS.replace("print", "open('mine', 'w').write(os.environ['HOME']); print"))
    app = rig.artifact_folder(art) / "app"
    (rig.artifact_folder(art) / "venv").mkdir()
    (rig.artifact_folder(art) / "venv" / "shared").write_text("is shared")
    (app / "sub").mkdir()
    (app / "sub" / "own").write_text("is own")
    (app / "absolute").symlink_to(rig.artifact_folder(art) / "venv")
    (app / "relative").symlink_to("../venv")
    (app / "sub" / "up").symlink_to("../sub/own")
    (app / "itself").symlink_to(app / "sub")
    read = "absolute/shared relative/shared sub/up itself/own"
    await station.apply(wanted(art, variables={"READ": read}))
    await station.hears("itself/own is own")
    assert station.said == [
        "absolute/shared is shared",
        "relative/shared is shared",
        "sub/up is own",
        "itself/own is own",
    ]
    copy = rig.folder / "services" / SERVICE / "1-0" / "app"
    assert (copy / "itself").resolve() == copy / "sub"
    assert (copy / "mine").exists()
    assert not (app / "mine").exists()
    assert (copy / "main.py").stat().st_mtime_ns == (app / "main.py").stat().st_mtime_ns


async def test_caches_of_tools_last_until_the_service_is_discarded(rig, station):
    program = """
import os, pathlib, time
for name in (".cache", ".m2", ".gradle", ".npm", "go"):
    (pathlib.Path(os.environ["HOME"]) / name / "fetched").open("a").write("x")
    print(len((pathlib.Path(os.environ["HOME"]) / name / "fetched").read_text()), flush=True)
time.sleep(1000)
"""
    it = wanted(rig.made(program))
    await station.apply(it)
    await station.hears("1", times=5)
    await station.engine.remove(SERVICE)
    await station.apply(structs.replace(it, generation=2))
    await station.hears("2", times=5)
    await station.engine.discard(SERVICE)
    assert list((rig.folder / "caches").iterdir()) == []


async def test_files_and_volumes_elsewhere_are_told_by_variables(rig, station):
    it = wanted(
        rig.made(READS),
        files={"/etc/app/config.yml": b"a secret"},
        volumes=(Volume(name="my-data", mount="/var/lib/data"),),
        variables={"READ": "$WINDLASS_FILES/etc/app/config.yml $WINDLASS_VOLUME_MY_DATA/first"},
    )
    volume = rig.folder / "volumes" / SERVICE / "my-data"
    volume.mkdir(parents=True)
    (volume / "first").write_text("was kept")
    await station.apply(it)
    await station.hears("$WINDLASS_FILES/etc/app/config.yml a secret")
    await station.hears("$WINDLASS_VOLUME_MY_DATA/first was kept")
    written = rig.folder / "services" / SERVICE / "1-0" / "files" / "etc" / "app" / "config.yml"
    assert written.stat().st_mode & 0o777 == 0o600


async def test_an_empty_volume_begins_with_what_the_application_has_there(rig, station):
    art = rig.made(programs.SLEEPS)
    (rig.artifact_folder(art) / "app" / "data").mkdir()
    (rig.artifact_folder(art) / "app" / "data" / "seed").write_text("first")
    it = wanted(art, volumes=(Volume(name="data", mount="/app/data"),))
    await station.apply(it)
    seed = rig.folder / "volumes" / SERVICE / "data" / "seed"
    assert seed.read_text() == "first"
    seed.write_text("changed")
    await station.apply(structs.replace(it, generation=2))
    assert seed.read_text() == "changed"


@pytest.mark.parametrize("path", ["/app/conf/passwd", "/app/deep/conf/passwd"])
async def test_a_link_of_the_application_does_not_lead_us_to_write_elsewhere(rig, station, tmp_path, path):
    (tmp_path / "etc").mkdir()
    art = rig.made(programs.SLEEPS)
    (rig.artifact_folder(art) / "app" / "conf").symlink_to(tmp_path / "etc")
    (rig.artifact_folder(art) / "app" / "deep").symlink_to(".")
    with pytest.raises(EngineError, match="leads elsewhere"):
        await station.apply(wanted(art, files={path: b"root::0:0"}))
    assert list((tmp_path / "etc").iterdir()) == []
    assert await rig.traces(SERVICE) == []


async def test_a_path_cannot_climb_out_of_the_folder_of_its_instance(rig, station):
    it = wanted(rig.made(programs.SLEEPS), files={"/app/../../../climbed": b"", "../../../climbed": b""})
    await station.apply(it)
    found = {str(path.relative_to(rig.folder)) for path in rig.folder.rglob("climbed")}
    assert found == {f"services/{SERVICE}/1-0/files/climbed"}


# Ports.


async def test_who_finds_its_port_taken_is_told_of_the_variable(rig, station):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        it = wanted(rig.made(programs.SERVES_ELSEWHERE), ports=[port], variables={"OWN_CHOICE": str(port)})
        await station.apply(it)
        seen = await station.ended(SERVICE)
    assert "PORT" in seen.reason
    assert f"port {port} of this machine is taken" in seen.reason


async def test_who_ends_for_another_reason_is_not_told_of_ports(rig, station):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        await station.apply(wanted(rig.made(programs.ENDS), ports=[taken.getsockname()[1]]))
        assert (await station.ended(SERVICE)).reason == "exited with code 3"


async def test_a_variable_that_names_the_port_inside_becomes_the_one_that_stands_for_it(rig, station):
    port = free_port()
    for generation in (1, 2):
        variables = {"PORT": str(port), "WHO": str(generation)}
        it = wanted(rig.made(programs.SERVES), ports=[port], generation=generation, variables=variables)
        await station.apply(it)
    await station.hears("listening", times=2)
    seen = await station.seen(SERVICE)
    assert [await ask(each, port) for each in seen] == ["hello from 1", "hello from 2"]
    assert port not in {each.ports[port] for each in seen}


async def test_a_program_keeps_its_port_when_it_is_begun_anew(rig, station):
    it = wanted(rig.made(programs.ENDS), ports=[80])
    made = await station.apply(it)
    assert (await station.running(SERVICE, restarts=1)).ports == made.ports


async def test_ports_of_instances_that_are_gone_are_free_again(rig, station):
    claims = rig.folder / "ports"
    it = wanted(rig.made(programs.SLEEPS), ports=[80, 81])
    await station.apply(it)
    assert len(list(claims.iterdir())) == 2
    (claims / "10000").symlink_to("somebody/1-0")  # of a Windlass that was killed in between
    await station.engine.remove(SERVICE)
    await station.engine.sweep(await station.engine.services())
    assert list(claims.iterdir()) == []


async def test_two_windlasses_never_give_the_same_whereabouts(rig, station):
    async with Station(rig) as other:
        asked = [(each, f"service-{number}") for number in range(20) for each in (station, other)]
        found = await asyncio.gather(
            *(each.engine.neighbour_address("environment", name, "", 80) for each, name in asked)
        )
    assert found[::2] == found[1::2]
    assert len(set(found)) == 20


# Output.


@pytest.mark.parametrize(
    ("written", "lines"),
    [
        (b"one\ntwo\n", ["one", "two"]),
        (b"\n\n", ["", ""]),
        (b"windows\r\nand not\n", ["windows", "and not"]),
        (b"caf\xe9 \xff\n", ["caf\ufffd \ufffd"]),
        (b"n\0ul\n", ["nul"]),
        (b"a" * 40_000 + b"\nb\n", ["a" * 16_384, "a" * 16_384, "a" * 7_232, "b"]),
        (b"x" + "€".encode() * 6_000 + b"\n", ["x" + "€" * 5_461, "€" * 539]),
        (b"without an end", ["without an end"]),
        (b"y" * 300_000, ["y" * 16_384] * 18 + ["y" * 5_088]),
    ],
)
def test_output_becomes_lines(tmp_path, written, lines):
    with (tmp_path / "output").open("wb") as file:
        prepare(file.fileno())
        file.seek(0, os.SEEK_END)
        file.write(written)
    tail = OutputFile(tmp_path, SERVICE, Record(service=SERVICE, pod="", deployment="", workdir="", memory=1))
    found: list[str] = []
    while new := tail.lines(unfinished=True):
        tail.taken()
        found += new
    tail.close()
    assert found == lines
    again = OutputFile(
        tmp_path, SERVICE, Record(service=SERVICE, pod="", deployment="", workdir="", memory=1)
    )
    assert again.lines(unfinished=True) == []
    again.close()


async def test_what_a_program_writes_takes_no_room_once_it_is_read(rig, station):
    it = wanted(rig.made(programs.WRITES), variables={"LINES": "600000"})
    await station.apply(it)
    await station.hears("done, without an end")
    about = (rig.folder / "services" / SERVICE / "1-0" / "output").stat()
    assert about.st_size > 6_000_000
    assert about.st_blocks * 512 < 2_500_000


async def test_of_a_backlog_that_is_too_long_the_oldest_is_lost_and_that_is_said(tmp_path):
    rig = ProcessRig(tmp_path, backlog=100_000)
    it = wanted(rig.made(programs.WRITES), variables={"LINES": "100000"})
    async with Station(rig) as before:
        await before.apply(it)
    output = rig.folder / "services" / SERVICE / "1-0" / "output"
    await until(lambda: _ends_with(output, b"without an end"))
    async with Station(rig) as after:
        await after.hears("done, without an end")
        heard = [line for line in after.said if line.startswith("[windlass] ")]
        assert len(heard) == 1
        assert "bytes of output are lost" in heard[0]
        numbers = [int(line.split()[1]) for line in after.said if line.startswith("line ")]
        assert numbers == list(range(numbers[0], 100_000))
        await after.engine.sweep(await after.engine.services())


async def _ends_with(path, words):
    return path.read_bytes().endswith(words)


async def test_lines_that_could_not_be_kept_are_handed_over_again(rig):
    it = wanted(rig.made(programs.WRITES), variables={"LINES": "100"})
    refusals = [OSError("the disk is full")] * 2
    lines: list[str] = []

    def sink(service, said):
        if refusals:
            raise refusals.pop()
        lines.extend(line.message for line in said)

    engine = rig.opener()()
    await engine.start(lambda service: None, sink)
    await engine.apply(it, 1)
    await until(lambda: _has(lines, "done, without an end"))
    assert lines == [*(f"line {number}" for number in range(100)), "done, without an end"]
    await engine.sweep(await engine.services())
    await engine.stop()


async def _has(lines, line):
    return line in lines


async def test_one_of_two_windlasses_reads_and_the_other_goes_on_when_it_ends(rig):
    it = wanted(rig.made(programs.WRITES_ALWAYS))
    async with Station(rig) as second, Station(rig) as first:
        await second.apply(it)
        await second.hears("line 20")
        assert first.said == []
        await second.engine.stop()
        await first.hears(f"line {len(second.said) + 20}")
        both = second.said + first.said
        assert both == [f"line {number}" for number in range(len(both))]
        await first.engine.sweep(await first.engine.services())


async def test_a_program_that_truncates_its_own_output_is_read_on(rig, station):
    program = (
        "import os, time\nfor n in range(5):\n    os.system(f'echo {n} > /dev/stderr')\n    time.sleep(0.3)\n"
    )
    await station.apply(wanted(rig.made(program + "time.sleep(1000)")))
    await station.hears("4")
    assert station.said == ["0", "1", "2", "3", "4"]


# What was left by a Windlass that is gone.


async def test_a_pid_that_is_somebody_elses_by_now_is_not_taken_for_ours(rig, stranger):
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


async def test_a_process_of_another_boot_is_none(stranger):
    now = identity(stranger.pid)
    assert kernel.lives(now)
    assert not kernel.lives(structs.replace(now, boot="another"))
    assert not kernel.lives(structs.replace(now, start=now.start + 1))


async def test_a_record_torn_by_a_power_cut_is_like_none(rig):
    home = RecordStore(rig.folder).home(KEY)
    home.mkdir(parents=True)
    (home / "record.json").write_bytes(b"\0" * 40)
    async with Station(rig) as station:
        assert not await station.seen(SERVICE)
        assert (await station.apply(wanted(rig.made(programs.SLEEPS)))).phase is Phase.RUNNING
        await station.engine.sweep(await station.engine.services())


OF_ANOTHER_VERSION = [b'{"form": 2, "instance": {}}', b'{"service": 1}', b"[]"]


@pytest.mark.parametrize("record", OF_ANOTHER_VERSION)
async def test_nothing_is_started_or_erased_over_a_record_of_another_version(rig, record, caplog):
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


async def _are_twins(rig) -> bool:
    return bool(await rig.copies(SERVICE) == [(1, 0), (1, 0)])


async def test_a_record_of_another_version_that_counts_as_none_starts_a_second_copy(rig, monkeypatch):
    it = wanted(rig.made(programs.SLEEPS))
    async with Station(rig) as before:
        await before.apply(it)
    (RecordStore(rig.folder).home(KEY) / "record.json").write_bytes(OF_ANOTHER_VERSION[0])
    real = RecordStore.read_in

    def as_if_torn(shelf, home):
        with suppress(UnknownRecord):
            return real(shelf, home)

    monkeypatch.setattr(RecordStore, "read_in", as_if_torn)
    async with Station(rig) as after:
        await after.apply(it)
        await until(partial(_are_twins, rig))
        await after.engine.discard(SERVICE)
        await after.engine.sweep([])  # the copy without a record is found by its folder, which is gone
        assert await rig.copies(SERVICE) == []


RECORD_OF_THE_FIRST_VERSION = {
    "service",
    "pod",
    "deployment",
    "workdir",
    "memory",
    "ports",
    "made",
    "process",
}
CELL_OF_THE_FIRST_VERSION = {
    "identity", "uid", "inner", "name", "mounts", "processes", "landlock",
    "readable", "writable", "temporary", "hidden", "most_processes",
}  # fmt: skip


async def test_an_instance_that_an_earlier_version_recorded_is_adopted_and_not_started_again(rig):
    async with Station(rig) as before:
        started = await before.apply(wanted(rig.made(programs.SLEEPS)))
    file = RecordStore(rig.folder).home(KEY) / "record.json"
    record = json.loads(file.read_bytes())
    process = record["process"]
    kept = {name: record[name] for name in RECORD_OF_THE_FIRST_VERSION}
    assert record["cell"]  # rigs keep services apart as far as this machine allows
    kept["cell"] = {name: record["cell"][name] for name in CELL_OF_THE_FIRST_VERSION}
    file.write_text(json.dumps(kept))
    async with Station(rig) as after:
        [instance] = await after.seen(SERVICE)
        assert instance.ports == started.ports
        assert instance.restarts == 0
        assert json.loads(file.read_bytes())["process"] == process
        await after.engine.discard(SERVICE)


async def test_a_removal_that_was_interrupted_is_finished(rig):
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


async def test_processes_without_a_folder_and_commands_without_a_windlass_are_ended(rig):
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


async def test_it_says_when_its_folder_cannot_be_used_and_goes_on_once_it_can(tmp_path):
    (tmp_path / "engine").write_text("in the way")
    rig = ProcessRig(tmp_path)
    async with Station(rig) as station:
        assert "cannot be used" in await station.engine.trouble()
        with pytest.raises(EngineAway):
            await station.apply(wanted(rig.made(programs.SLEEPS)))
        (tmp_path / "engine").unlink()
        assert await station.engine.trouble() == ""
        assert (await station.apply(wanted(rig.made(programs.SLEEPS)))).phase is Phase.RUNNING
        await station.engine.sweep(await station.engine.services())


def test_it_says_what_it_does_not_enforce(tmp_path):
    assert any("volumes" in each for each in open_engine(tmp_path).unenforced)


# Control groups, where there are some.

HIDES = """
import os, time
if os.fork() == 0:
    os.setsid()
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.execve("/bin/sleep", ["sleep", "1000"], {})
print("here", flush=True)
time.sleep(1000)
"""


@pytest.fixture
def delegated():
    """A control group that is given to us, as systemd does."""
    mount = cgroups.mount()
    group = (mount or Path("/nowhere")) / f"windlass-test-{os.getpid()}"
    try:
        group.mkdir()
        os.setxattr(group, "trusted.delegate", b"1")
    except OSError as error:
        pytest.xfail(f"no control group can be made on this machine: {error.strerror}")
    yield group
    for each in sorted(group.rglob("*/"), reverse=True):
        each.rmdir()
    group.rmdir()


def live_in(group: Path, rig: ProcessRig, answer: Any) -> None:
    (group / "cgroup.procs").write_text(str(os.getpid()))
    answer.send(asyncio.run(_live(rig)))


async def _live(rig: ProcessRig) -> tuple[str, list[str], list[str]]:
    async with Station(rig) as station:
        it = wanted(rig.made(HIDES))
        await station.apply(it)
        await station.hears("here")
        record = RecordStore(rig.folder).read(KEY)
        assert record is not None
        there = cgroups.members(record.cgroup)
        inside = [str(kernel.stat(pid)) for pid in there if not kernel.leads_namespace(pid)]
        await station.engine.remove(it.service, grace=1)
        return record.cgroup, inside, [str(pid) for pid in cgroups.members(record.cgroup)]


def test_in_a_control_group_not_even_a_child_that_hides_is_left(tmp_path, delegated):
    group, inside, after = answer_of(live_in, delegated, ProcessRig(tmp_path))
    assert Path(group).is_relative_to(delegated)
    assert len(inside) == 2
    assert after == []
    assert not Path(group).exists()


@pytest.mark.parametrize(
    ("controllers", "limits"),
    [
        ("cpu memory pids", {"cpu.max": "50000 100000", "memory.max": str(64 << 20), "pids.max": "4096"}),
        ("cpuset io", {}),
    ],
)
def test_a_control_group_holds_what_its_controllers_can(tmp_path, controllers, limits):
    base = tmp_path / "given"
    base.mkdir()
    (base / "cgroup.controllers").write_text(controllers)
    (base / "cgroup.procs").touch()
    groups = cgroups.Cgroups(base, tmp_path)
    groups.prepare()
    made = Path(groups.make("x", cpu=500, memory=64))
    assert {name: (made / name).read_text() for name in limits} == limits
    assert {name for name in ("cpu.max", "memory.max", "pids.max") if (made / name).exists()} == limits.keys()
    if limits:
        assert "+pids" in (base / "cgroup.subtree_control").read_text().split()


@pytest.mark.parametrize(
    ("line", "typed", "given"),
    [
        ("0::/", False, None),  # the whole machine's: systemd's, not ours
        ("0::/", True, "."),  # a container with a namespace of its own
        ("0::/user.slice/shop.service", True, None),  # of root, and given to nobody
        ("1:cpu:/", True, None),
    ],
)
def test_only_a_control_group_that_was_given_to_us_is_divided(tmp_path, line, typed, given):
    mount, proc = tmp_path / "cgroup", tmp_path / "proc"
    group = mount / line.rpartition(":")[2].strip("/")
    group.mkdir(parents=True)
    proc.mkdir()
    (proc / "cgroup").write_text(f"5:pids:/\n{line}\n")
    (proc / "mountinfo").write_text(f"30 24 0:26 / {mount} rw,relatime - cgroup2 cgroup2 rw\n")
    (group / "cgroup.procs").touch()
    if typed:
        (group / "cgroup.type").write_text("domain")
    found = cgroups.find(proc)
    if os.getuid() != 0 and line.startswith("0::/user"):
        given = line.partition("::/")[2]  # its owner is not root
    assert found == (None if given is None else Path(os.path.normpath(mount / given)))


# The page about it.


def test_the_manual_names_every_verb_and_every_capability():
    page = (Path(__file__).parents[2] / "docs" / "adding-an-engine.md").read_text()
    verbs = [name for name, _ in inspect.getmembers(Engine, inspect.isfunction) if not name.startswith("_")]
    assert [name for name in (*verbs, *CAPABILITIES) if f"`{name}`" not in page] == []


def test_a_census_remembers_who_was_ours_and_takes_nobody_else_for_him(tmp_path: Path):
    me = kernel.stat(os.getpid())
    assert me is not None
    known = OwnedProcess(me, str(tmp_path / "home"), "")
    assert count(tmp_path, ProcessTable([known])).by_pid[me.pid].home == known.home
    another = structs.replace(known, stat=structs.replace(me, start=me.start - 1))
    assert count(tmp_path, ProcessTable([another])).by_pid[me.pid].home == ""


def test_a_folder_to_which_a_program_still_writes_is_erased(tmp_path):
    def write(folder: Path) -> None:
        with suppress(OSError):
            for number in range(5000):
                (folder / f"{number}").write_text("")

    for attempt in range(25):  # each alone may be lucky
        folder = tmp_path / f"{attempt}" / "inner"
        folder.mkdir(parents=True)
        writing = threading.Thread(target=write, args=(folder,))
        writing.start()
        while not (folder / "20").exists():
            pass
        erase(folder.parent)
        writing.join()
        assert not folder.parent.exists()


def test_a_launcher_that_another_folder_of_windlass_noted_is_run_by_this_python():
    noted = ("/gone/.venv/bin/python", "-I", "-m", "windlass.launch.postgresql", "x")
    assert by_this_python(noted) == (sys.executable, *noted[1:])
    other = ("/gone/.venv/bin/python", "-I", "-m", "shop")
    assert by_this_python(other) == other
