"""A step of a build is forked by the launcher: it inherits nothing of it, and leaves nothing running."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
import uuid
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.free_ports import free_port
from tests.process.builds.test_native_runs import until
from windlass.base.isolation import isolation
from windlass.base.isolation.isolation import Isolation
from windlass.process.builds.cells import BuildStep, Cells

MOST_USUAL = 1024
"""Descriptors that are closed one after the other where the kernel does not close a range."""

SERVER = """
import asyncio, sys
from pathlib import Path
from windlass.base.isolation.isolation import Isolation
from windlass.process.builds.cells import BuildStep, Cells

async def main(data, script):
    home = data / "home"
    home.mkdir(parents=True)
    step = BuildStep(["/bin/sh", "-c", script], home, {"PATH": "/usr/bin:/bin"}, {})
    async with Cells(Isolation("auto", data), "org", home, home).running(step) as (process, _):
        await process.wait()

asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
"""


@pytest.fixture
def cells(tmp_path):
    """Cells of a machine where a cell has its own processes."""
    isolation = Isolation("auto", tmp_path / "data")
    if any(part.part == "processes" for part in isolation.missing()):
        pytest.skip("cells have no view of processes of their own here")
    home = tmp_path / "data" / "home"
    home.mkdir(parents=True)
    return Cells(isolation, "org", home, home)


async def output_of(cells: Cells, script: str, **variables: str) -> str:
    step = BuildStep(["/bin/sh", "-c", script], cells.writable[0], {"PATH": "/usr/bin:/bin", **variables}, {})
    async with cells.running(step) as (process, ends_all):
        assert ends_all
        text = await process.stdout.read()
        assert await process.wait() == 0
        return text.decode().strip()


async def test_a_build_step_inherits_no_other_file_descriptors_or_variables(cells):
    assert await output_of(cells, "ls /proc/self/fd; echo $A", A="1") == "0\n1\n2\n3\n1"  # 3 is the listing


async def test_the_process_that_waits_for_a_step_has_no_file_of_the_launcher_open(cells):
    mark = f"6{uuid.uuid4().int % 10**12}"
    step = BuildStep(["sleep", mark], cells.writable[0], {"PATH": "/usr/bin:/bin", "SECRET": "s"}, {})
    async with cells.running(step) as (process, _):
        await until(lambda: running(mark))
        *waiting, program = family(process.pid)
        assert running(mark) == [program]
        for pid in waiting:
            assert {path.name for path in Path(f"/proc/{pid}/fd").iterdir()} == {"0", "1", "2"}
            assert Path(f"/proc/{pid}/environ").read_bytes() == b""
        assert b"SECRET=s" in Path(f"/proc/{program}/environ").read_bytes()


async def test_cancelling_a_build_step_kills_all_of_its_processes(cells):
    mark = f"6{uuid.uuid4().int % 10**12}"
    step = BuildStep(
        ["/bin/sh", "-c", f"setsid env -i sleep {mark} & sleep {mark}"],
        cells.writable[0],
        {"PATH": "/usr/bin:/bin"},
        {},
    )
    async with cells.running(step):
        await until(lambda: len(running(mark)) > 1)
    await until(lambda: not running(mark))


async def test_a_step_whose_start_is_cancelled_does_not_run(cells):
    mark = f"6{uuid.uuid4().int % 10**12}"

    async def run() -> None:
        await output_of(cells, f"sleep {mark}")

    for moment in range(10):
        task = asyncio.ensure_future(run())
        await asyncio.sleep(0.002 * moment)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await until(lambda: not running(mark))


async def test_a_step_without_its_variables_ends_with_its_server(cells, tmp_path):
    mark = f"6{uuid.uuid4().int % 10**12}"
    script = f"exec env -i sleep {mark}"
    server = subprocess.Popen([sys.executable, "-c", SERVER, str(tmp_path / "other"), script])
    try:
        await until(lambda: running(mark))
        server.send_signal(signal.SIGKILL)
        server.wait()
        await until(lambda: not running(mark))
    finally:
        server.kill()
        server.wait()


async def test_a_launcher_that_was_killed_is_replaced(cells):
    assert await output_of(cells, "echo 1") == "1"
    launcher = cells.launcher._launcher._process
    assert launcher is not None
    launcher.kill()
    launcher.wait()
    assert await output_of(cells, "echo 2") == "2"


async def test_a_launcher_that_hangs_is_replaced(cells):
    assert await output_of(cells, "echo 1") == "1"
    launcher = cells.launcher._launcher
    launcher._channel.settimeout(0.2)
    hung = launcher._process.pid
    os.kill(hung, signal.SIGSTOP)
    assert await output_of(cells, "echo 2") == "2"
    assert not Path(f"/proc/{hung}").exists()


async def test_a_server_with_many_open_files_shares_none_of_its_launcher(cells):
    """A process that held the channel would keep the server waiting for a launcher that was killed."""
    mark = f"6{uuid.uuid4().int % 10**12}"
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    with ExitStack() as held:
        held.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        # The channel gets a greater number than all of these.
        while held.enter_context(Path(os.devnull).open()).fileno() < MOST_USUAL:
            continue
        step = BuildStep(["sleep", mark], cells.writable[0], {"PATH": "/usr/bin:/bin"}, {})
        async with cells.running(step) as (process, _):
            await until(lambda: running(mark))
            waiting = family(process.pid)[:-1]
            assert {path.name for pid in waiting for path in Path(f"/proc/{pid}/fd").iterdir()} == {
                "0",
                "1",
                "2",
            }
            launcher = cells.launcher._launcher._process
            launcher.kill()
            launcher.wait()
            assert await output_of(cells, "echo 2") == "2"


def running(mark: str) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if words[:1] == [b"sleep"] and mark.encode() in words:
                found.append(int(folder.name))
    return found


def family(pid: int) -> list[int]:
    """A process, with its descendants if each has one child."""
    found = [pid]
    while children := Path(f"/proc/{found[-1]}/task/{found[-1]}/children").read_text().split():
        found.append(int(children[0]))
    return found


LISTENS = """
import socket
def tried(port):
    try:
        socket.create_server(("127.0.0.1", port)).close()
        return "listens"
    except PermissionError:
        return "refused"
print(tried(0), tried(PORT))
"""


@pytest.mark.parametrize(("version", "answer"), [(4, "listens refused"), (3, "listens listens")])
async def test_a_build_step_in_the_machines_network_cannot_listen_on_a_chosen_port(
    cells, monkeypatch, version, answer
):
    """The kernel chooses its port. A kernel that cannot refuse others is the control."""
    real = cells._isolation._findings()
    if real["landlock"] < 4:
        pytest.skip("needs Linux 6.7 with Landlock")
    monkeypatch.setattr(isolation, "findings", lambda *numbers: {**real, "landlock": version})
    program = LISTENS.replace("PORT", str(free_port()))
    step = BuildStep([sys.base_prefix + "/bin/python3", "-c", program], cells.writable[0], {}, {})
    async with cells.running(step) as (process, _):
        assert (await process.stdout.read()).decode().strip() == answer
