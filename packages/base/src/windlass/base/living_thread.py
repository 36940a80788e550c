"""Finds the thread of a process under whose number /proc shows what the process has.

/proc/PID shows what its first thread has, which is nothing once that has ended while others run. Files and
memory of the process are still there, under the number of each living thread.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from typing import Final

_PIDFD_GETFD: Final = 438
_ENDING: Final = 0x4
"""PF_EXITING, among the flags of a thread."""
_THREAD: Final = os.O_EXCL
"""PIDFD_THREAD."""
_libc: Final = ctypes.CDLL(None, use_errno=True)


def living_thread(pid: int) -> int:
    """Returns the number of the first thread of a process that has not ended; `pid` if there is none."""
    if not _has_ended(f"/proc/{pid}/stat"):
        return pid
    with suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 (names, not paths)
            if not _has_ended(f"/proc/{pid}/task/{name}/stat"):
                return int(name)
    return pid


def is_alive(pid: int) -> bool:
    """Returns whether a thread of a process still runs code."""
    return not _has_ended(f"/proc/{living_thread(pid)}/stat")


def open_thread(pid: int, thread: int) -> int:
    """Returns a descriptor of a thread of a process. Before Linux 6.9, raises an OSError for other threads
    than the first."""
    return os.pidfd_open(pid) if thread == pid else os.pidfd_open(thread, _THREAD)


def copy_of_file(thread: int, number: int) -> int:
    """Returns a copy, for this process, of a file that a thread has open. May raise an OSError."""
    copy = int(_libc.syscall(ctypes.c_long(_PIDFD_GETFD), thread, number, 0))
    if copy < 0:
        raise OSError(ctypes.get_errno(), "pidfd_getfd")
    return copy


def has_ended(words: list[bytes]) -> bool:
    """Returns whether a thread runs no code any more, by the words of its `stat` that follow its name."""
    return words[0] in (b"Z", b"X") or int(words[6]) & _ENDING != 0


def _has_ended(path: str) -> bool:
    with suppress(OSError, IndexError), open(path, "rb", buffering=0) as file:  # noqa: PTH123 (of thousands)
        return has_ended(file.read(2048).rpartition(b")")[2].split())
    return True
