"""Threads share one arena of the allocator, and unused memory returns to the system."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

THREADS = """
import ctypes, threading
from windlass.base.allocator import share_arena

{prepare}
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
all_hold = threading.Barrier(4)

def hold():
    held = bytes(50_000)
    all_hold.wait()

threads = [threading.Thread(target=hold) for _ in range(3)]
for thread in threads:
    thread.start()
all_hold.wait()
for thread in threads:
    thread.join()
report = ctypes.c_void_p(libc.fopen({path!r}.encode(), b"w"))
libc.malloc_info(0, report)
libc.fclose(report)
"""
BURST = """
from pathlib import Path
from windlass.base.allocator import release_unused

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1])

before = resident()
blocks = [bytes(b"x" * 50_000) for _ in range(1000)]
last = b"x" * 50_000
most = resident() - before
del blocks
kept = resident() - before
release_unused()
print(most, kept, resident() - before)
"""
pytestmark = pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "malloc_info"), reason="needs the allocator of glibc"
)


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


@pytest.mark.parametrize(("prepare", "arenas"), [("share_arena()", 1), ("", 4)], ids=["shared", "control"])
def test_all_threads_allocate_from_one_arena(tmp_path: Path, prepare: str, arenas: int):
    report = tmp_path / "arenas.xml"
    run(THREADS.format(prepare=prepare, path=str(report)))
    assert report.read_text().count("<heap nr=") == arenas


def test_unused_memory_below_a_block_in_use_returns_to_the_system():
    most, kept, after = map(int, run(BURST).split())
    assert kept > most * 3 // 4, "a block at the end of the heap keeps the others: this is the control"
    assert after < most // 4
