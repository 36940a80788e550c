"""Programs that lie about their owner, or obstruct commands of Windlass in their cell, harm no other service.
Negative controls show which lies would work."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.engines.processes import ProcessRig
from tests.engines.stations import Station, until, wanted
from tests.marks import nightly
from windlass.base.isolation import calls, cell_entry, isolation
from windlass.base.isolation.isolation import Isolation
from windlass.process.process_table import count

pytestmark = pytest.mark.slow

LIAR, VICTIM = "11111111-aaaa-4aaa-8aaa-000000000001", "22222222-aaaa-4aaa-8aaa-000000000002"
CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWIPC = 0x10000000, 0x00020000, 0x08000000
SLEEPS = "import time; time.sleep(1000)"
SAYS = "import os; print('pid namespace', os.readlink('/proc/self/ns/pid'), flush=True)"
LIES = """
import os, subprocess, sys, time
lie = {{**os.environ, **{lie!r}}}
subprocess.Popen([sys.executable, '-I', '-S', '-c', {program!r}], env=lie, start_new_session=True)
print('lied', flush=True)
time.sleep(1000)
"""
EATS = "import time; eaten = b'x' * (64 << 20); print('eaten', flush=True); time.sleep(1000)"
STOPS = """
import os, signal
print('stops', flush=True)
while True:
    try:
        os.kill(-1, signal.SIGSTOP)
    except OSError:
        pass
"""


@pytest.fixture
def rig(tmp_path: Path) -> ProcessRig:
    return ProcessRig(tmp_path)


async def run(station: Station, rig: ProcessRig, program: str, service: str = LIAR, **given: Any) -> Any:
    return await station.apply(wanted(rig.made(program), service=service, **given))


async def lied(station: Station, rig: ProcessRig, lie: dict[str, str], program: str = SLEEPS) -> None:
    await run(station, rig, LIES.format(lie=lie, program=program), memory=1024)
    await station.hears("lied")


def home_of(rig: ProcessRig, service: str) -> str:
    return str(rig.folder / "services" / service / "1-0")


@pytest.mark.parametrize("said", ["x", "1.1.\udcff", *nightly("1.2", "a.b.c", "9" * 5000 + ".1.x", "-1.-1.")])
async def test_a_service_that_poses_as_a_windlass_command_does_not_prevent_a_server_start(rig, said):
    async with Station(rig) as station:
        await lied(station, rig, {"WINDLASS_EXECUTED_BY": said})
        started = count(rig.folder)
        assert [
            one for one in started.by_pid.values() if one.home == home_of(rig, LIAR)
        ]  # it is believed to be ours
    async with Station(rig) as station:
        await station.running(LIAR)
        await station.engine.sweep([])
        await station.engine.discard(LIAR)


async def test_a_service_cannot_set_the_variable_that_marks_windlass_commands(rig):
    async with Station(rig) as station:
        await run(
            station,
            rig,
            "import os, time; print(dict(os.environ), flush=True); time.sleep(1000)",
            variables={"WINDLASS_EXECUTED_BY": "1.1.1", "OTHER": "kept"},
        )

        async def said() -> str:
            return "".join(station.said)

        told = await until(said)
        assert "WINDLASS_EXECUTED_BY" not in told
        assert "'OTHER': 'kept'" in told
        await station.engine.discard(LIAR)


async def test_a_program_that_names_a_nonexistent_service_folder_creates_no_lost_service(rig):
    async with Station(rig) as station:
        await lied(station, rig, {"WINDLASS_FILES": f"{home_of(rig, VICTIM)}/files"})
        assert VICTIM not in await station.engine.services()
        await station.engine.discard(LIAR)


async def test_a_running_service_whose_folder_is_missing_is_reported_as_lost(rig, tmp_path):
    """Otherwise the test above would show nothing."""
    async with Station(rig) as station:
        await run(station, rig, SLEEPS, VICTIM)
        there = rig.folder / "services" / VICTIM
        there.rename(tmp_path / "elsewhere")
        assert (await station.engine.services())[VICTIM].is_lost
        (tmp_path / "elsewhere").rename(there)
        await station.engine.discard(VICTIM)


async def test_memory_of_a_program_with_a_forged_instance_mark_counts_for_its_own_service(rig):
    async with Station(rig) as station:
        victim = await run(station, rig, SLEEPS, VICTIM)
        lie = {"WINDLASS_INSTANCE": victim.id, "WINDLASS_FILES": f"{home_of(rig, VICTIM)}/files"}
        await lied(station, rig, lie, EATS)
        await station.hears("eaten")
        told = count(rig.folder).by_home[home_of(rig, VICTIM)]
        assert sum(one.stat.memory for one in told) > 64 << 20  # by what they say, it is the victim's
        used = await station.engine.usage()
        liar = (await station.one(LIAR)).id
        assert used[victim.id].memory < 64 << 20 < used[liar].memory
        await station.engine.discard(LIAR)
        await station.engine.discard(VICTIM)


async def test_a_program_that_stops_commands_in_its_cell_delays_no_other_service(rig):
    async with Station(rig) as station:
        stopper = await run(station, rig, STOPS)
        await station.hears("stops")
        commands = [
            asyncio.create_task(station.engine.execute(stopper, ["/bin/sleep", "0.01"], 3.0))
            for _ in range(20)
        ]
        await asyncio.sleep(0.2)
        async with asyncio.timeout(20):
            await run(station, rig, SLEEPS, VICTIM)
        await asyncio.wait(commands)
        await station.engine.discard(LIAR)
        await station.engine.discard(VICTIM)


async def test_an_executed_command_runs_in_the_cell_and_not_in_namespaces_made_by_the_program(
    rig, monkeypatch
):
    real: Any = Isolation("auto", Path("/nowhere"))._findings()
    monkeypatch.setattr(isolation, "findings", lambda *numbers: {**real, "socket_filter": False})
    program = f"""
import ctypes, os, time
made = not ctypes.CDLL(None).unshare({CLONE_NEWUSER | CLONE_NEWNS})
print('made', made, os.readlink('/proc/self/ns/mnt'), flush=True)
time.sleep(1000)
"""
    async with Station(rig) as station:
        instance = await run(station, rig, program)

        async def told() -> str:
            return next((line for line in station.said if line.startswith("made")), "")

        _, made, space = str(await until(told)).split()
        if made == "False":
            pytest.skip("no program may make user namespaces here")
        code, said = await station.engine.execute(instance, ["/bin/readlink", "/proc/self/ns/mnt"], 10.0)
        assert (code, said.strip() == space) == (0, False)
        await station.engine.discard(LIAR)


def in_child(deed: Any) -> str:
    """Returns the error of a call in a process of its own; empty if there is none."""
    hear, tell = os.pipe()
    child = os.fork()
    if not child:
        try:
            deed()
        except OSError as error:
            os.write(tell, (str(error) or type(error).__name__).encode())
        finally:
            os._exit(0)
    os.close(tell)
    with os.fdopen(hear) as said:
        found = said.read()
    os.waitpid(child, 0)
    return found


@pytest.mark.parametrize("levels", [1, 2])
def test_nested_namespaces_made_by_a_program_are_not_entered(levels):
    """The control is one level: the namespaces of the cell itself."""
    made, go = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        ours = os.geteuid(), os.getegid()
        for _ in range(levels):
            if ctypes.CDLL(None).unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWIPC):
                os._exit(1)
            calls.map_user(ours[0], *ours)
        os.write(made[1], b"!")
        os.read(go[0], 1)
        os._exit(0)
    os.close(made[1])
    try:
        if not os.read(made[0], 1):
            pytest.skip("no user namespaces here")
        handle = os.pidfd_open(child)
        cell: Any = {"identity": "namespace", "mounts": True, "processes": False}
        said = in_child(lambda: cell_entry.join(cell, handle))
        os.close(handle)
        assert ("namespaces that it created itself" in said) is (levels == 2), said
        assert said == "" or levels == 2
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


async def test_an_unreadable_output_file_of_a_service_does_not_prevent_a_server_start(rig):
    async with Station(rig) as station:
        await run(
            station, rig, "import os, time; os.fchmod(1, 0); print('closed', flush=True); time.sleep(1000)"
        )
        await station.hears("closed")
    async with Station(rig) as station:
        await station.running(LIAR)
        await station.engine.discard(LIAR)


ENDS_WITH = """
import os, pathlib, signal
folder = pathlib.Path(os.environ["HOME"]).parent / "once"
{trick}
print("planted", flush=True)
os.kill(os.getppid(), signal.SIGKILL)
"""
TRICKS = {
    "a pipe": "os.mkfifo(folder / 'ended')",
    "a link to a pipe": "os.mkfifo(folder / 'pipe'); (folder / 'ended').symlink_to('pipe')",
    "a link to a device": "(folder / 'ended').symlink_to('/dev/zero')",
    "a link to a file of the machine": "(folder / 'ended').symlink_to('/etc/hostname')",
    "a link to itself": "(folder / 'ended').symlink_to('ended')",
    "a folder": "(folder / 'ended').mkdir()",
    "a large file": "os.truncate(os.open(folder / 'ended', os.O_CREAT | os.O_WRONLY), 1 << 40)",
    "no text": "(folder / 'ended').write_bytes(bytes(range(256)))",
    "great numbers": "(folder / 'ended').write_text('0 ' + '9' * 4000)",
    "numbers below zero": "(folder / 'ended').write_text('-99999 -1 -1')",
    "another number": "(folder / 'ended').write_text('70000 1')",
}


@pytest.mark.parametrize("trick", TRICKS.values(), ids=TRICKS.keys())
async def test_a_fifo_in_place_of_a_runs_result_file_does_not_block_the_server(
    rig: ProcessRig, trick: str
) -> None:
    """The server would wait at the pipe, with all that it does for others."""
    async with Station(rig) as station:
        run = wanted(rig.made(ENDS_WITH.format(trick=trick)), service=LIAR)
        ended = await station.engine.once(run)
        assert ended.exit_code != 0
        await station.hears("planted")
        again = await station.engine.once(run)
        assert again == ended


async def test_the_result_file_of_a_run_determines_its_exit_code(rig: ProcessRig) -> None:
    """Negative control: this is the file that is read."""
    async with Station(rig) as station:
        trick = "(folder / 'ended').write_text('7 1000')"
        run = wanted(rig.made(ENDS_WITH.format(trick=trick)), service=LIAR)
        assert (await station.engine.once(run)).exit_code == 7
