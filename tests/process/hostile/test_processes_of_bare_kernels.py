"""Where the kernel gives no process namespaces, all processes of a service end with it, also one that left
its parent, session, environment, folder and output. Otherwise it would run on beside another organization,
which is let in once the services of the first are gone. Programs change and reach no processes of others."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from ast import literal_eval
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.engines import programs
from tests.engines.processes import ProcessRig
from tests.engines.stations import Station, until, wanted
from tests.marks import nightly
from tests.process.helpers import KEY, SERVICE
from windlass.base import marks
from windlass.base.isolation import isolation, landlock
from windlass.base.isolation.isolation import Isolation
from windlass.engines.engine import ExecutionRequest, TerminalSize
from windlass.engines.workload import Instance
from windlass.process import kill
from windlass.process.builds.cells import Cells
from windlass.process.builds.tools import Tools
from windlass.process.engine import ProcessEngine
from windlass.process.records import Record

OTHER = f"2{SERVICE[1:]}"
REACHED = ("signal", "signal of thread", "signal by handle", "comparison")
BARE: dict[str, Any] = {"identity": "none", "mounts": False, "processes": False, "network": False}
LEAVES = """
import os, signal
hear, tell = os.pipe()
if not os.fork():
    os.setsid()
    if os.fork():
        os._exit(0)
    os.chdir("/")
    os.write(tell, str(os.getpid()).encode())
    os.closerange(0, 1000)
    null = os.open("/dev/null", os.O_RDWR)
    os.dup(null)
    os.dup(null)
    os.execve("/bin/sleep", ["sleep", "1000"], {})
print("found " + os.read(hear, 100).decode(), flush=True)
"""
STAYS = LEAVES + "signal.pause()"


@pytest.fixture(autouse=True)
def _bare(monkeypatch):
    real = Isolation("auto", Path("/nowhere"))._findings()
    found = {**real, **BARE, "why": {**real["why"], "network": "none"}}
    monkeypatch.setattr(isolation, "findings", lambda *numbers: found)


@pytest.fixture(params=["its mark", *nightly("no mark")])
def has_mark(request, monkeypatch):
    made = Isolation.cell
    if request.param == "no mark":
        monkeypatch.setattr(Isolation, "cell", lambda *given, mark=0, **more: made(*given, **more))
    return request.param == "its mark"


@pytest.fixture
def rig(tmp_path):
    return ProcessRig(tmp_path, has_groups=False)


async def leave(station: Station, program: str) -> int:
    """Starts a program. Returns the process that it has left."""
    await station.apply(wanted(station.rig.made(program)))  # type: ignore[attr-defined]

    async def has_said() -> bool:
        return bool(station.said)

    await until(has_said)
    return int(station.said[0].removeprefix("found "))


async def remove(station: Station) -> None:
    assert isinstance(station.engine, ProcessEngine)
    await station.engine.end(SERVICE)


def runs(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sleep")
    return False


def end(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


async def test_removing_a_service_kills_a_process_that_left_its_session_and_group(rig, has_mark):
    async with Station(rig) as station:
        left = await leave(station, STAYS)
        await remove(station)
        assert runs(left) is not has_mark
    end(left)


async def test_another_server_kills_a_detached_process_when_it_removes_the_instance(rig, has_mark):
    async with Station(rig) as station:
        left = await leave(station, STAYS)
    assert runs(left)
    async with Station(rig) as station:
        assert runs(left), "its instance runs on"
        await remove(station)
        assert runs(left) is not has_mark
    end(left)


async def test_a_detached_process_is_killed_when_its_program_ends(rig, has_mark):
    async with Station(rig) as station:
        left = await leave(station, LEAVES)

        async def has_ended() -> bool:
            record = station.engine._records.read(KEY)  # type: ignore[attr-defined]
            return record.process is None or record.restarts > 0

        await until(has_ended)
        assert runs(left) is not has_mark
        await remove(station)
    end(left)


async def test_a_server_start_kills_a_detached_process_whose_service_folder_is_gone(rig, has_mark):
    async with Station(rig) as station:
        left = await leave(station, STAYS)
    (rig.folder / "services").rename(rig.folder / "elsewhere")  # as if an operator had moved it
    async with Station(rig):
        assert runs(left) is not has_mark
    end(left)


async def test_cancelling_a_build_kills_a_detached_process(tmp_path, has_mark, monkeypatch):
    """Its step has no first process whose end would end all, and the one that adopts orphans is killed."""
    home = tmp_path / "home"
    home.mkdir()
    cells = Cells(Isolation("auto", tmp_path), "service", home, home)
    tools = Tools({}, home, tmp_path / "cache" / "of" / "it", lambda line: None, {}, cells)
    said: asyncio.Queue[str] = asyncio.Queue()
    tools.say = said.put_nowait
    running = asyncio.create_task(tools.run(["/usr/bin/python3", "-S", "-c", STAYS], cwd=home, title="it"))
    left = int((await said.get()).removeprefix("found "))
    running.cancel()
    await asyncio.wait([running])

    async def is_running() -> bool:
        return runs(left)

    await until(is_running)
    tools.end_all()
    assert await ends(left) is has_mark
    end(left)


FORKS = bytes.fromhex("bb801a0600 b839000000 0f05 85c0 7504 ffcb 75f1 b83c000000 31ff 0f05")
"""400,000 times: fork; the parent exits, and the child goes on. Takes half a minute."""
RUNS_AWAY = f"""
import os, signal, struct
start, code = 0x400000 + 120, {FORKS!r}
with open("forks", "wb") as file:
    file.write(b"\\x7fELF\\2\\1\\1" + bytes(9))
    file.write(struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, start, 64, 0, 0, 64, 56, 1, 0, 0, 0))
    file.write(struct.pack("<IIQQQQQQ", 1, 5, 0, 0x400000, 0x400000, 120 + len(code), 120 + len(code), 4096))
    file.write(code)
os.chmod("forks", 0o755)
if not os.fork():
    os.setsid()
    os.closerange(0, 1000)
    os.execve("forks", ["forks"], {{}})
print("found", os.getpid(), flush=True)
signal.pause()
"""


@pytest.mark.slow
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the program is one for x86-64")
async def test_a_program_that_forks_faster_than_processes_are_listed_ends(rig):
    async with Station(rig) as station:
        assert not await is_left(station)


@pytest.mark.nightly
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the program is one for x86-64")
async def test_without_the_search_for_fast_forkers_a_fast_forking_program_can_survive_a_kill(
    rig, monkeypatch
):
    end_these = kill.end_these

    async def end_later(stats: list[Any]) -> None:
        """What was listed is ended late: on a busy machine the program is slow, and would be found."""
        await asyncio.sleep(0.2)
        await end_these(stats)

    monkeypatch.setattr(kill, "end_these", end_later)
    monkeypatch.setattr(kill, "kill_fast_forkers", lambda mark: None)
    async with Station(rig) as station:
        for number in range(1, 26):
            if await is_left(station, number):
                return
        assert False, "each of 25 programs has ended"  # noqa: B011, PT015


async def is_left(station: Station, generation: int = 1) -> bool:
    """Starts the program and removes it. Returns whether it still runs, and ends it."""
    station.said.clear()
    await station.apply(wanted(station.rig.made(RUNS_AWAY), generation=generation))  # type: ignore[attr-defined]

    async def has_said() -> bool:
        return bool(station.said)

    await until(has_said)
    mark = next(record.cell.get("mark", 0) for record in records(station) if record.cell)
    assert is_seen(mark)
    await remove(station)
    try:
        return is_seen(mark)
    finally:
        marks.kill_fast_forkers(mark)


def is_seen(mark: int) -> bool:
    """Returns whether a process has this mark. Looks for it often, because it has a new number each time."""
    end = time.monotonic() + 1
    while time.monotonic() < end:
        newest = marks.newest_number()
        if any(marks.read_mark(pid) == mark for pid in range(newest - 8, newest + 24)):
            return True
    return False


async def ends(pid: int) -> bool:
    for _ in range(20):
        if not runs(pid):
            return True
        await asyncio.sleep(0.05)
    return False


MEDDLES = """
import os, resource, signal
child = os.fork()
if not child:
    signal.pause()
def tried(change):
    try:
        change()
        return "done"
    except OSError as error:
        return "refused"
def write():
    with open(f"/proc/{child}/oom_score_adj", "w") as file:
        file.write("1000")
own = tried(lambda: resource.prlimit(0, resource.RLIMIT_CORE, (0, 0)))
limit = tried(lambda: resource.prlimit(child, resource.RLIMIT_CPU, (1, 1)))
read = tried(lambda: resource.prlimit(child, resource.RLIMIT_CPU))
print("found", own, limit, read, tried(write), flush=True)
signal.pause()
"""


@pytest.mark.parametrize("walls", [True, False])
async def test_a_program_cannot_change_limits_of_another_process_by_its_id(rig, monkeypatch, walls):
    """Others, and Windlass itself, are of the same user there."""
    found = Isolation("auto", Path("/nowhere"))._findings()
    if not walls:
        found = {**found, "socket_filter": False, "landlock": 0}
    monkeypatch.setattr(isolation, "findings", lambda *numbers: found)
    async with Station(rig) as station:
        await station.apply(wanted(rig.made(MEDDLES)))

        async def has_said() -> bool:
            return bool(station.said)

        await until(has_said)
        own, limit, read, wrote = station.said[0].removeprefix("found ").split()
        assert (own, read) == ("done", "done")
        assert (limit, wrote) == (("refused",) * 2 if walls else ("done",) * 2)
        await remove(station)


PEEKS = """
import os, signal
def tried(path):
    try:
        os.open(path, os.O_RDWR | os.O_NOCTTY)
        return "opened"
    except OSError as error:
        return type(error).__name__
print("found", tried(os.environ["OPERATORS"]), tried("/dev/null"), flush=True)
signal.pause()
"""


@pytest.mark.parametrize("has_landlock", [True, *nightly(False)])
async def test_a_program_opens_no_terminal_of_the_operator(rig, monkeypatch, has_landlock):
    """Who reads from a terminal gets what is typed there, such as passwords."""
    found = Isolation("auto", Path("/nowhere"))._findings()
    if not found["landlock"]:
        pytest.skip("needs a kernel with Landlock")
    if not has_landlock:
        monkeypatch.setattr(isolation, "findings", lambda *numbers: {**found, "landlock": 0})
    outer, inner = os.openpty()
    async with Station(rig) as station:
        await station.apply(wanted(rig.made(PEEKS), variables={"OPERATORS": os.ttyname(inner)}))

        async def has_said() -> bool:
            return bool(station.said)

        await until(has_said)
        terminal = "PermissionError" if has_landlock else "opened"
        assert station.said[0] == f"found {terminal} opened"
        await remove(station)
    os.close(outer)
    os.close(inner)


async def test_an_executed_command_gets_a_terminal_that_no_other_process_can_open(rig):
    async with Station(rig) as station:
        instance: Instance = await station.apply(wanted(rig.made("import time; time.sleep(100)")))
        command = ("sh", "-c", "stat -L -c %a /dev/fd/0; echo typed > /dev/tty; tty -s && echo works")
        execution = await station.engine.open_execution(
            instance, ExecutionRequest(command, TerminalSize(100, 30))
        )
        said = b""
        async with asyncio.timeout(30):
            while piece := await execution.read():
                said += piece
        await execution.close()
        assert said.split() == [b"0", b"typed", b"works"]
        await remove(station)


SCHEDULES = """
import ctypes, errno, os, signal, struct
libc = ctypes.CDLL(None, use_errno=True)
NUMBERS = {
    "x86_64": dict(setpriority=141, ioprio_set=251, sched_setparam=142, sched_setscheduler=144, kcmp=312,
                   sched_setaffinity=203, sched_setattr=314, tgkill=234, kill=62, migrate_pages=256,
                   move_pages=279, perf_event_open=298, process_vm_readv=310),
    "aarch64": dict(setpriority=140, ioprio_set=30, sched_setparam=118, sched_setscheduler=119, kcmp=272,
                    sched_setaffinity=122, sched_setattr=274, tgkill=131, kill=129, migrate_pages=238,
                    move_pages=239, perf_event_open=241, process_vm_readv=270),
}[os.uname().machine] | dict(pidfd_open=434, pidfd_send_signal=424, pidfd_getfd=438, process_madvise=440)
other, group = int(os.environ["OTHER"]), int(os.environ["GROUP"])
def tried(name, *given):
    values = [ctypes.c_long(each) if isinstance(each, int) else each for each in given]
    if libc.syscall(ctypes.c_long(NUMBERS[name]), *values) >= 0:
        return "done"
    return errno.errorcode[ctypes.get_errno()]
zero, one = ctypes.create_string_buffer(8), ctypes.create_string_buffer(b"\\1", 128)
batch = ctypes.create_string_buffer(struct.pack("IIQiIQQQ", 48, 3, 0, 15, 0, 0, 0, 0))
clock = ctypes.create_string_buffer(struct.pack("IIQQQQQ", 1, 112, 0, 0, 0, 0, 1 << 5), 112)
into = ctypes.create_string_buffer(64)
here = ctypes.create_string_buffer(struct.pack("PN", ctypes.addressof(into), 8))
there = ctypes.create_string_buffer(struct.pack("PN", 4096, 8))
def schedule(pid, group):
    return {
        "io priority": tried("ioprio_set", 1, pid, 2 << 13 | 7),
        "io priority of group": tried("ioprio_set", 2, group, 2 << 13 | 7),
        "parameters": tried("sched_setparam", pid, zero),
        "scheduler": tried("sched_setscheduler", pid, 3, zero),
        "attributes": tried("sched_setattr", pid, batch, 0),
        "processors": tried("sched_setaffinity", pid, 128, one),
        "priority": tried("setpriority", 0, pid, 15),
        "priority of group": tried("setpriority", 1, group, 15),
    }
handle = libc.syscall(ctypes.c_long(NUMBERS["pidfd_open"]), ctypes.c_long(other), ctypes.c_long(0))
own = schedule(0, 0)
others = schedule(other, group) | {
    # Neither may change anything: the one is a higher priority, the other none at all.
    "priority of user": tried("setpriority", 2, 0, -20),
    "io priority of user": tried("ioprio_set", 3, 0, 7 << 13),
}
reached = {
    "signal": tried("kill", other, 0),
    "signal of thread": tried("tgkill", other, other, 0),
    "signal by handle": tried("pidfd_send_signal", handle, 0, None, 0),
    "file": tried("pidfd_getfd", handle, 0, 0),
    "comparison": tried("kcmp", os.getpid(), other, 1, 0, 0),
    "pages": tried("move_pages", other, 0, None, None, None, 0),
    "all pages": tried("migrate_pages", other, 8, one, one),
    "measurement": tried("perf_event_open", clock, other, -1, -1, 0),
    "memory": tried("process_vm_readv", other, here, 1, there, 1, 0),
    "advice": tried("process_madvise", handle, here, 1, 20, 0),
}
print("found", repr((own, others, reached)), flush=True)
signal.pause()
"""
WITHOUT_EFFECT = {"parameters", "scheduler", "attributes", "processors"}
ONLY_PRIVILEGED = {"priority of user": "EACCES", "io priority of user": "EINVAL"}
"""The answers of the kernel itself to what a program without rights may not do."""


@pytest.mark.parametrize("walls", [True, False])
async def test_a_program_cannot_signal_or_reschedule_processes_of_others(rig, monkeypatch, walls):
    found = Isolation("auto", Path("/nowhere"))._findings()
    if not walls:
        found = {**found, "socket_filter": False, "landlock": 0}
    elif found["landlock"] < landlock.SCOPES_SINCE:
        pytest.skip("needs a kernel whose Landlock refuses signals")
    monkeypatch.setattr(isolation, "findings", lambda *numbers: found)
    async with Station(rig) as station:
        await station.apply(wanted(rig.made(programs.SLEEPS), service=OTHER))
        await station.hears("here")
        other = next(record.process for record in records(station) if record.process)
        before = scheduling(other.pid)
        variables = {"OTHER": str(other.pid), "GROUP": str(os.getpgid(other.pid))}
        await station.apply(wanted(rig.made(SCHEDULES), variables=variables))

        async def has_said() -> bool:
            return len(station.said) > 1

        await until(has_said)
        own, others, reached = literal_eval(station.said[1].removeprefix("found "))
        assert set(own.values()) == {"done"}
        if walls:
            assert {name for name, answer in others.items() if answer != "EPERM"} == WITHOUT_EFFECT
            assert set(reached.values()) <= {"EPERM", "EACCES"}
            assert scheduling(other.pid) == before
        else:
            assert others == dict.fromkeys(others, "done") | ONLY_PRIVILEGED
            assert all(reached[name] == "done" for name in REACHED)
            assert scheduling(other.pid) == (os.SCHED_BATCH, {0}, 15)
        await station.engine.sweep(await station.engine.services())


def scheduling(pid: int) -> tuple[int, set[int], int]:
    return os.sched_getscheduler(pid), os.sched_getaffinity(pid), os.getpriority(os.PRIO_PROCESS, pid)


def records(station: Station) -> list[Record]:
    kept = station.engine._records  # type: ignore[attr-defined]
    return [record for key in kept.find() if (record := kept.read(key))]
