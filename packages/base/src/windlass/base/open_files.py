"""Counts the open files of processes that count towards the kernel's limit for the whole machine.

A mapped file remains open after its descriptor is closed. Processes share the open files that they inherit.
"""

from __future__ import annotations

import ctypes
import os
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Final

from windlass.base.live_thread import live_thread

_KCMP: Final = {"x86_64": 312}
_KCMP_ELSEWHERE: Final = 272
_MAX_MAPPINGS: Final = 8
"""The maximum number of mappings of one open file; a library has about five."""
_libc: Final = ctypes.CDLL(None, use_errno=True)


def open_files(process: int) -> int:
    """Returns the number of open files of a process, without mapped files. Estimated before Linux 6.2."""
    with suppress(OSError, ValueError, IndexError):
        folder = Path(f"/proc/{live_thread(process)}")
        if exact := (folder / "fd").stat().st_size:
            return exact
        status = (folder / "status").read_text()
        return int(status.partition("FDSize:")[2].split(maxsplit=1)[0])
    return 0


def mapped_files(process: int) -> int:
    """Estimates the number of open files that a process has mapped. If a file has many mappings, each counts,
    because the program may have opened the file for each."""
    parts: Counter[bytes] = Counter()
    with suppress(OSError), open(f"/proc/{live_thread(process)}/maps", "rb") as file:  # noqa: PTH123
        for line in file:
            words = line.split(None, 5)
            if words[4] != b"0":
                parts[words[3] + words[4]] += 1
    return sum(count if count > _MAX_MAPPINGS else 1 for count in parts.values())


def inherited_files(process: int, parent: int) -> int:
    """Returns how many open files a process shares with its parent; 0 if unknown. Slow."""
    number = ctypes.c_long(_KCMP.get(os.uname().machine, _KCMP_ELSEWHERE))
    process, parent, of_files = live_thread(process), live_thread(parent), 0
    with suppress(OSError):
        common = {*os.listdir(f"/proc/{process}/fd")} & {*os.listdir(f"/proc/{parent}/fd")}  # noqa: PTH208
        return sum(
            not _libc.syscall(number, process, parent, of_files, *[ctypes.c_ulong(int(name))] * 2)
            for name in common
        )
    return 0
