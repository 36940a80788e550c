"""Memory that is neither resident in the first thread of a program nor in its open files counts as its
own."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.engines.processes import ProcessRig
from tests.engines.stations import Station, wanted
from windlass.base import kernel, process_memory
from windlass.process import resource_monitor

LIMIT = 100
BEGINS = """
import ctypes, mmap, os, socket, threading, time
SIZE = 150 << 20
EXIT = 60 if os.uname().machine == "x86_64" else 93
libc = ctypes.CDLL(None)
def map(size, flags, protection=3, file=-1):
    libc.mmap.restype = ctypes.c_void_p
    return libc.mmap(None, ctypes.c_size_t(size), protection, flags, file, ctypes.c_long(0))
def file_of(size):
    file = os.memfd_create("x")
    for _ in range(size >> 20):
        os.write(file, bytes(1 << 20))
    return file
"""
HIDES = {
    "in a thread whose first one has ended": """
def hold():
    while " Z " not in open("/proc/self/stat").read():
        time.sleep(0.01)
    held = b"x" * SIZE
    print("has it", flush=True)
    time.sleep(TIME)
    os._exit(0)
threading.Thread(target=hold).start()
libc.syscall(EXIT, 0)
""",
    "in a message": """
ends, file = socket.socketpair(), file_of(SIZE)
socket.send_fds(ends[0], [b"x"], [file])
os.close(file)
""",
    "in a program without a name": """
file = file_of(SIZE)
os.pwrite(file, open("/bin/sleep", "rb").read(), 0)  # what follows it in the file does not matter
print("has it", flush=True)
os.execv(f"/proc/self/fd/{file}", ["sleep", "TIME"])
""",
    "in page tables": """
PART = 16 << 30
for _ in range(5):
    start = map(PART, 0x4022, 1)  # private, anonymous, without a reserve
    libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(PART), 15)
    for at in range(0, PART, 2 << 20):
        ctypes.string_at(start + at, 1)
""",
}
SEEN_BY_ROOT = {
    "in a map of a closed file": """
file = file_of(SIZE)
map(4096, 1, 1, file)
os.close(file)
""",
    "in shared memory that is not mapped any more": """
start = map(SIZE, 0x21)
for part in range(start + 4096, start + SIZE - (1 << 20), 1 << 20):  # never much at a time
    ctypes.memset(part, 1, 1 << 20)
    libc.munmap(ctypes.c_void_p(part), ctypes.c_size_t(1 << 20))
""",
}
ENDS = """
print("has it", flush=True)
time.sleep(TIME)
"""


def ways() -> dict[str, str]:
    return HIDES | (SEEN_BY_ROOT if os.geteuid() == 0 else {})


async def hold(folder: Path, seconds: float) -> tuple[dict[str, int | None], list[str]]:
    """Runs a program for each way. Returns their exit codes, and what they said."""
    rig = ProcessRig(folder, has_groups=False)
    async with Station(rig) as station:

        async def run(number: int, way: str) -> int | None:
            program = rig.made(BEGINS.replace("TIME", "") + (way + ENDS).replace("TIME", str(seconds)))
            service = f"{number}1111111-aaaa-4aaa-8aaa-000000000001"
            return (await station.engine.once(wanted(program, service=service, memory=LIMIT))).exit_code

        codes = await asyncio.gather(*(run(number, way) for number, way in enumerate(ways().values())))
        return dict(zip(ways(), codes, strict=True)), station.said


async def test_a_program_that_hides_memory_over_its_limit_is_killed(tmp_path):
    codes, _ = await hold(tmp_path, 100)
    assert codes == dict.fromkeys(ways(), 137)


@pytest.mark.nightly
async def test_without_the_checks_a_program_hides_memory_over_its_limit(tmp_path, monkeypatch):
    for module in (kernel, process_memory):
        monkeypatch.setattr(module, "live_thread", lambda pid: pid)
    monkeypatch.setattr(kernel, "resident", lambda pid: 0)
    monkeypatch.setattr(process_memory, "unnamed_files", lambda pids: iter(()))
    for module in (process_memory, resource_monitor):
        monkeypatch.setattr(module, "hidden_memory", lambda: 0)
    codes, said = await hold(tmp_path, 3)
    assert codes == dict.fromkeys(ways(), 0)
    assert said == ["has it"] * len(codes)
