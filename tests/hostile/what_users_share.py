"""Services of an ordinary user are of the same user as the server, and leave it what the kernel counts for a
user: run by test_shared_user.py as one."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.engines.processes import ProcessRig
from tests.engines.stations import Station, until, wanted
from tests.process.helpers import SERVICE
from windlass.base import live_thread
from windlass.base.isolation import isolation, private, user_limits
from windlass.base.isolation.isolation import Isolation
from windlass.config import Settings
from windlass.operate import machine
from windlass.process.builds.cells import BuildStep, Cells

SENDS = """
import os, signal, socket
null, held = os.open("/dev/null", os.O_RDONLY), []
try:
    while True:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        held += [ours, theirs]
        ours.setblocking(False)
        try:
            while True:
                socket.send_fds(ours, [b"x"], [null] * 253)
        except BlockingIOError:
            pass
except OSError:
    print("found 1", flush=True)
signal.pause()
"""
READS = """
import json, os, socket
def tried(path):
    try:
        try:
            return open(path).read()
        except OSError:
            socket.socket(socket.AF_UNIX).connect(path)
            return "connected to a secret"
    except OSError as error:
        return type(error).__name__
print("found " + json.dumps({path: tried(path) for path in json.loads(os.environ["PATHS"])}), flush=True)
"""
ALL_READ = "/etc/passwd"

NESTS = """
import os, signal
made = 0
while made < 200:
    hear, tell = os.pipe()
    if not os.fork():
        try:
            unshare()
            os.write(tell, b"+")
            signal.pause()
        finally:
            os._exit(1)
    os.close(tell)
    if not os.read(hear, 1):
        break
    made += 1
print(f"found {made}", flush=True)
signal.pause()
"""
TRACES = """
import ctypes, os, signal
SEIZE = 0x4206
libc = ctypes.CDLL(None, use_errno=True)
print("found", libc.ptrace(SEIZE, WHOM, None, None), flush=True)
"""
UNSHARE = """
import ctypes
def unshare():
    if ctypes.CDLL(None).unshare(0x10000000):
        raise OSError
"""
WATCHES = """
import ctypes, signal
made = 0
while ctypes.CDLL(None).inotify_init() >= 0:
    made += 1
print(f"found {made}", flush=True)
signal.pause()
"""
STARTS_THREADS = """
import signal, threading
threading.stack_size(65536)
made = 0
try:
    while True:
        threading.Thread(target=signal.pause, daemon=True).start()
        made += 1
except RuntimeError:
    print(f"found {made}", flush=True)
signal.pause()
"""
FEW = 800
"""Processes that the user may have, besides those of others."""


@pytest.fixture
def rig(tmp_path):
    return ProcessRig(tmp_path)


@pytest.fixture
async def station(rig):
    async with Station(rig) as made:
        yield made
        await made.engine.sweep(await made.engine.services())


async def found(rig: ProcessRig, station: Station, program: str) -> int:
    """Returns what a program finds as an instance, which runs on."""
    await station.apply(wanted(rig.made(program)))

    async def has_said() -> bool:
        return any(line.startswith("found ") for line in station.said)

    await until(has_said, lambda: f"it said {station.said}")
    return int(next(line for line in station.said if line.startswith("found "))[6:])


@contextmanager
def outside(program: str) -> Iterator[int]:
    """Runs a program without a cell, with our own limits, until the end of the block. Yields what it says."""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline().removeprefix(b"found "))
        finally:
            os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture
def _may_open_files():
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def pass_one() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        socket.send_fds(ours, [b"x"], [0])


@pytest.mark.usefixtures("_may_open_files")
async def test_file_descriptors_in_flight_of_a_service_do_not_use_up_the_limit_of_the_server(rig, station):
    await found(rig, station, SENDS)
    pass_one()


@pytest.mark.nightly
@pytest.mark.usefixtures("_may_open_files")
def test_without_a_limit_file_descriptors_in_flight_would_use_up_the_limit_of_the_server():
    with outside(SENDS), pytest.raises(OSError, match="Too many references"):
        pass_one()


def private_files() -> dict[str, str]:
    """Returns files that this user alone may read, by what they stand for (test_shared_user.py)."""
    found: dict[str, str] = json.loads(os.environ["PRIVATE_FILES"])
    return found


async def reads(rig: ProcessRig, paths: list[str]) -> dict[str, str]:
    async with Station(rig) as station:
        it = wanted(rig.made(READS), variables={"PATHS": json.dumps(paths)})
        await station.engine.once(it)

        async def has_said() -> bool:
            return any(line.startswith("found ") for line in station.said)

        await until(has_said, lambda: f"it said {station.said}")
        await station.engine.sweep(await station.engine.services())
    said: dict[str, str] = json.loads(next(line for line in station.said if line.startswith("found "))[6:])
    return said


@pytest.fixture(params=["mounts", "Landlock alone"])
def apart(request, monkeypatch, tmp_path):
    """An isolation that hides the files named; one whose mounts or Landlock rules do it."""
    files = private_files()
    made = Isolation("auto", tmp_path / "engine", private=[files["settings"], files["named"], files["home"]])
    real: Any = made._findings()
    if request.param == "mounts":
        real = {**real, "landlock": 0}
    else:
        parts = {"identity": "none", "mounts": False, "processes": False, "network": False}
        real = {**real, **parts, "why": {**real["why"], "network": "none"}}
    monkeypatch.setattr(isolation, "findings", lambda *numbers: real)
    return made


async def test_a_service_cannot_read_private_files_of_the_user_of_windlass(apart, tmp_path):
    files = private_files()
    if not apart._findings()["mounts"]:
        del files["socket of a group"]  # Landlock refuses no connection to a socket
    private = [*files.values(), f"{files['home']}/secret"]
    said = await reads(ProcessRig(tmp_path, isolation=apart), [*private, ALL_READ])
    assert "root" in said.pop(ALL_READ)
    assert not [path for path, text in said.items() if "secret" in text]


@pytest.mark.nightly
async def test_without_hidden_folders_a_service_could_read_private_files_of_the_user_of_windlass(
    apart, tmp_path, monkeypatch
):
    devices = Path(private_files()["among devices"]).parent
    monkeypatch.setattr(apart, "_readable", ("/opt", "/var", str(devices)))
    monkeypatch.setattr(isolation, "private_paths", lambda named: [])
    monkeypatch.setattr(isolation, "closed_settings", tuple)
    monkeypatch.setattr(isolation, "settings_copies", lambda target: {})
    files = [files for name, files in private_files().items() if name != "home"]
    said = await reads(ProcessRig(tmp_path, isolation=apart), files)
    assert all("secret" in text for text in said.values())


async def test_doctor_reports_private_files_below_usr(tmp_path, monkeypatch):
    file = Path(private_files()["named"])
    monkeypatch.setattr(private, "PROGRAM_FOLDERS", ("/usr/share",))

    async def is_named() -> bool:
        settings = Settings(data_dir=str(tmp_path), engine="process")
        found = [finding.found async for finding in machine.runs(settings)]
        return any(str(file) in text for text in found)

    assert await is_named()
    file.chmod(0o644)
    try:
        assert not await is_named()
    finally:
        file.chmod(0o600)


async def test_the_number_of_namespaces_of_a_service_is_limited(rig, station):
    assert await found(rig, station, UNSHARE + NESTS) <= 64


@pytest.mark.nightly
async def test_without_a_limit_a_program_could_create_all_namespaces_of_the_user():
    with outside(UNSHARE + NESTS) as said:
        assert said == 200


async def test_a_service_can_use_at_most_an_eighth_of_the_inotify_instances(rig, station):
    most = int(Path("/proc/sys/fs/inotify/max_user_instances").read_text())
    assert await found(rig, station, WATCHES) <= most // 8
    assert ctypes.CDLL(None).inotify_init() >= 0


async def test_all_services_together_leave_inotify_instances_for_the_server(rig, station):
    made = rig.made(WATCHES)
    for number in range(9):
        await station.apply(wanted(made, service=f"{number}{SERVICE[1:]}"))

    async def have_said() -> bool:
        return len([line for line in station.said if line.startswith("found ")]) == 9

    await until(have_said, lambda: f"they said {station.said}")
    assert ctypes.CDLL(None).inotify_init() >= 0


@pytest.mark.nightly
def test_without_a_limit_a_program_could_use_all_inotify_instances():
    with outside(WATCHES):
        assert ctypes.CDLL(None).inotify_init() < 0


@pytest.fixture
def few():
    """The number of processes that this user may have: so many more than others of this user have already."""
    tasks = Path("/proc").glob("[0-9]*/task")
    present = sum(map(count_threads, tasks))
    usual = resource.getrlimit(resource.RLIMIT_NPROC)
    resource.setrlimit(resource.RLIMIT_NPROC, (FEW + present, usual[1]))
    yield FEW + present
    resource.setrlimit(resource.RLIMIT_NPROC, usual)


def count_threads(tasks: Path) -> int:
    """Counts the threads of a process of this user; 0 if it has ended."""
    try:
        return len([*tasks.iterdir()]) if tasks.stat().st_uid == os.geteuid() else 0
    except OSError:
        return 0


def start_threads(count: int) -> None:
    ended = threading.Event()
    try:
        for _ in range(count):
            threading.Thread(target=ended.wait, daemon=True).start()
    finally:
        ended.set()


async def test_a_service_can_start_at_most_an_eighth_of_the_threads_of_the_user(rig, station, few):
    assert await found(rig, station, STARTS_THREADS) <= few // 8


async def test_all_services_together_leave_threads_for_the_server(rig, station, few, monkeypatch):
    monkeypatch.setattr(user_limits, "share_of_processes", lambda: 4096)  # as many services together
    assert await found(rig, station, STARTS_THREADS) <= few - few // 8
    start_threads(FEW // 16)


@pytest.mark.nightly
@pytest.mark.usefixtures("few")
def test_without_a_limit_a_program_could_start_all_threads_of_the_user():
    with outside(STARTS_THREADS), pytest.raises(RuntimeError, match="can't start new thread"):
        start_threads(FEW // 16)


FORBIDS = """
import ctypes, os, socket, time
ctypes.CDLL(None).prctl(4, 0)
file = os.memfd_create("x")
for _ in range(150):
    os.write(file, bytes(1 << 20))
{hides}
print("has it", flush=True)
time.sleep({time})
"""
IN_MESSAGE = """
ends = socket.socketpair()
socket.send_fds(ends[0], [b"x"], [file])
os.close(file)
"""


@pytest.fixture(params=["", IN_MESSAGE], ids=["open", "in a message"])
def hides(request) -> str:
    return str(request.param)


async def forbid(folder: Path, hides: str, seconds: float) -> int | None:
    rig = ProcessRig(folder, has_groups=False)
    async with Station(rig) as station:
        program = rig.made(FORBIDS.format(hides=hides, time=seconds))
        return (await station.engine.once(wanted(program, memory=100))).exit_code


async def test_memory_files_of_a_program_that_is_not_dumpable_count_as_its_memory(tmp_path, hides):
    assert await forbid(tmp_path, hides, 100) == 137


@pytest.mark.nightly
async def test_without_copied_file_descriptors_memory_files_of_a_program_that_is_not_dumpable_would_not_count(
    tmp_path, hides, monkeypatch
):
    monkeypatch.setattr(live_thread, "_copies_of_files", lambda pid: iter(()))
    assert await forbid(tmp_path, hides, 4) == 0


async def step_says(folder: Path, program: str) -> str:
    home = folder / "home"
    home.mkdir()
    cells = Cells(Isolation("auto", folder), "service", home, home)
    command = ["/usr/bin/python3", "-S", "-c", program]
    async with cells.running(BuildStep(command, home, {"PATH": "/usr/bin:/bin"}, {})) as (process, _):
        return (await process.stdout.read()).decode()


async def test_a_build_step_cannot_ptrace_the_first_process_of_its_sandbox(tmp_path):
    """It would make it leave its group, and forget with whom it ends: the build would go on once it is
    cancelled."""
    assert await step_says(tmp_path, TRACES.replace("WHOM", "1")) == "found -1\n"


async def test_a_build_step_can_ptrace_an_unprotected_process(tmp_path):
    """Its own parent, for example, which is of the same user and cell."""
    scope = Path("/proc/sys/kernel/yama/ptrace_scope")
    if scope.exists() and int(scope.read_text()):
        pytest.skip("this kernel lets programs trace their children only (kernel.yama.ptrace_scope)")
    program = "import os\nif os.fork():\n    os.wait()\n    os._exit(0)\n" + TRACES
    assert await step_says(tmp_path, program.replace("WHOM", "os.getppid()")) == "found 0\n"
