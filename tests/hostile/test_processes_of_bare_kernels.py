"""Where the kernel gives no process namespaces, all processes of a service end with it, also one that left
its parent, session, environment, folder and output. Otherwise it would run on beside another organization,
which is let in once the services of the first are gone."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.engines.process.helpers import KEY, SERVICE
from tests.engines.processes import ProcessRig
from tests.engines.stations import Station, until, wanted
from windlass.base.isolation import isolation
from windlass.base.isolation.isolation import Isolation
from windlass.process.engine import ProcessEngine

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


@pytest.fixture(params=["its mark", "no mark"])
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


async def test_a_removal_ends_a_process_that_has_left_everything(rig, has_mark):
    async with Station(rig) as station:
        left = await leave(station, STAYS)
        await remove(station)
        assert runs(left) is not has_mark
    end(left)


async def test_another_server_ends_it_with_its_instance(rig, has_mark):
    async with Station(rig) as station:
        left = await leave(station, STAYS)
    assert runs(left)
    async with Station(rig) as station:
        assert runs(left), "its instance runs on"
        await remove(station)
        assert runs(left) is not has_mark
    end(left)


async def test_it_ends_when_the_program_ends(rig, has_mark):
    async with Station(rig) as station:
        left = await leave(station, LEAVES)

        async def has_ended() -> bool:
            record = station.engine._records.read(KEY)  # type: ignore[attr-defined]
            return record.process is None or record.restarts > 0

        await until(has_ended)
        assert runs(left) is not has_mark
        await remove(station)
    end(left)


async def test_a_start_ends_it_if_its_folder_is_gone(rig, has_mark):
    async with Station(rig) as station:
        left = await leave(station, STAYS)
    (rig.folder / "services").rename(rig.folder / "elsewhere")  # as if an operator had moved it
    async with Station(rig):
        assert runs(left) is not has_mark
    end(left)


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
async def test_a_program_changes_no_process_that_it_names_by_its_number(rig, monkeypatch, walls):
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
