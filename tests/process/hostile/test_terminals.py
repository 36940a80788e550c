"""Each service has pseudo-terminals of its own: it cannot use up those of the machine."""

from __future__ import annotations

import asyncio
import sys

from tests.engines.processes import ProcessRig
from tests.engines.stations import LONG, Station, wanted
from windlass.engines.engine import ExecutionRequest, TerminalSize
from windlass.engines.workload import Instance

MORE = 300
OPENS = """
import os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
opened = 0
try:
    while opened < 300:
        os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY)
        opened += 1
except OSError as error:
    print("then", error.strerror)
print("opened", opened, flush=True)
"""
SLEEPS = "import time; time.sleep(100)"


async def test_a_service_opens_no_more_terminals_than_its_own(tmp_path):
    rig = ProcessRig(tmp_path)
    async with Station(rig) as station:
        await station.engine.once(wanted(rig.made(OPENS)))
        assert station.said[-1] == "opened 256", station.said


async def test_a_program_outside_a_cell_opens_more_terminals():
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OPENS, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    assert said.split()[-1] == str(MORE).encode()


async def test_a_command_finds_its_terminal_by_its_path(tmp_path):
    rig = ProcessRig(tmp_path)
    async with Station(rig) as station:
        instance: Instance = await station.apply(wanted(rig.made(SLEEPS)))
        command = ("sh", "-c", "tty && echo by path > $(tty); echo done")
        execution = await station.engine.open_execution(
            instance, ExecutionRequest(command, TerminalSize(100, 30))
        )
        said = b""
        async with asyncio.timeout(LONG):
            while piece := await execution.read():
                said += piece
        await execution.close()
        assert said.split() == [b"/dev/pts/0", b"by", b"path", b"done"]
        await station.engine.sweep(await station.engine.services())
