"""Services of an ordinary user are of the same user as the server, and leave it what the kernel counts for a
user: run by test_shared_user.py as one."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.engines.processes import ProcessRig
from tests.engines.stations import Station, until, wanted

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


@pytest.fixture
def rig(tmp_path):
    return ProcessRig(tmp_path)


@pytest.fixture
async def station(rig):
    async with Station(rig) as made:
        yield made
        await made.engine.sweep(await made.engine.services())


async def found(rig: ProcessRig, station: Station, program: str) -> object:
    """Returns what a program finds as an instance, which runs on."""
    await station.apply(wanted(rig.made(program)))

    async def has_said() -> bool:
        return any(line.startswith("found ") for line in station.said)

    await until(has_said, lambda: f"it said {station.said}")
    return json.loads(next(line for line in station.said if line.startswith("found "))[6:])


@contextmanager
def outside(program: str) -> Iterator[None]:
    """Runs a program without a cell, with our own limits, until the end of the block."""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith(b"found ")
            yield
        finally:
            os.kill(process.pid, signal.SIGKILL)


@pytest.fixture
def _may_open_files():
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def pass_one() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        socket.send_fds(ours, [b"x"], [0])


@pytest.mark.usefixtures("_may_open_files")
async def test_descriptors_in_flight_leave_room_for_those_of_the_server(rig, station):
    await found(rig, station, SENDS)
    pass_one()


@pytest.mark.usefixtures("_may_open_files")
def test_a_program_with_the_limit_of_the_server_would_leave_no_room():
    with outside(SENDS), pytest.raises(OSError, match="Too many references"):
        pass_one()
