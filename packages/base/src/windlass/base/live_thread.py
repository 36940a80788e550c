"""Finds a live thread of a process, whose /proc entry shows the resources of the process.

/proc/PID shows the resources of the first thread, and nothing if this thread has ended while others run. The
process's files and memory are still visible under the ids of its live threads.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

OWN_PROCESS: Final = "/proc/self"
_PIDFD_GETFD: Final = 438
_EXITING_FLAG: Final = 0x4
"""The flag PF_EXITING of a thread that is ending."""
_THREAD_FLAG: Final = os.O_EXCL
"""The flag PIDFD_THREAD."""
_libc: Final = ctypes.CDLL(None, use_errno=True)


def live_thread(pid: int) -> int:
    """Returns the id of the first live thread of a process; `pid` if there is none."""
    if not _has_ended(f"/proc/{pid}/stat"):
        return pid
    with suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 (names, not paths)
            if not _has_ended(f"/proc/{pid}/task/{name}/stat"):
                return int(name)
    return pid


def is_alive(pid: int) -> bool:
    """Returns whether any thread of a process still runs code."""
    return not _has_ended(f"/proc/{live_thread(pid)}/stat")


def open_thread(pid: int, thread: int) -> int:
    """Returns a pidfd of a thread. Before Linux 6.9, raises an OSError unless it is the first thread."""
    return os.pidfd_open(pid) if thread == pid else os.pidfd_open(thread, _THREAD_FLAG)


def copy_of_file(thread: int, number: int) -> int:
    """Copies a descriptor of another process's thread into this process. May raise an OSError."""
    copy = int(_libc.syscall(ctypes.c_long(_PIDFD_GETFD), thread, number, 0))
    if copy < 0:
        raise OSError(ctypes.get_errno(), "pidfd_getfd")
    return copy


def open_numbers(pid: int) -> Iterator[tuple[str, int]]:
    """Yields each open file of a process as its folder in /proc and its descriptor.

    If the program forbids access to its folder (PR_SET_DUMPABLE), yields a temporary copy in this process.
    """
    folder = f"/proc/{live_thread(pid)}"
    try:
        names = os.listdir(f"{folder}/fd")  # noqa: PTH208 (names, not paths)
    except PermissionError:
        yield from _copies_of_files(pid)
        return
    except OSError:
        return
    for name in names:
        yield folder, int(name)


def _copies_of_files(pid: int) -> Iterator[tuple[str, int]]:
    with suppress(OSError, ValueError, IndexError):
        thread = live_thread(pid)
        status = Path(f"/proc/{thread}/status").read_text()
        process = open_thread(pid, thread)
        try:
            for number in range(int(status.partition("FDSize:")[2].split(maxsplit=1)[0])):
                try:
                    copy = copy_of_file(process, number)
                except OSError as error:
                    if error.errno == errno.EBADF:
                        continue
                    return  # this process may copy files only if the other one has its own user namespace
                try:
                    yield OWN_PROCESS, copy
                finally:
                    os.close(copy)
        finally:
            os.close(process)


def has_ended(words: list[bytes]) -> bool:
    """Returns whether a thread has stopped running code, given the fields of its `stat` after its name."""
    return words[0] in (b"Z", b"X") or int(words[6]) & _EXITING_FLAG != 0


def _has_ended(path: str) -> bool:
    with suppress(OSError, IndexError), open(path, "rb", buffering=0) as file:  # noqa: PTH123 (of thousands)
        return has_ended(file.read(2048).rpartition(b")")[2].split())
    return True
