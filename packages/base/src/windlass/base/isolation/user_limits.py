"""Limits resources that the kernel counts by user, for services that run as the server's user.

The kernel counts the resources of a user namespace both for its creator and for the namespace, which has its
own limit. Thanks to this limit, a service cannot use up what other services and the server need.
"""

from __future__ import annotations

import os
import resource
import sys
from contextlib import suppress
from typing import Final

_LIMIT_DIVISOR: Final = 8
"""The number of shares into which the user's limits of processes and inotify are divided. A service gets one
share, and one share is reserved for the server."""
_MIN_PROCESSES: Final = 64
_MEMORY_FOR_A_FILE: Final = 10 * 1024
_NAMESPACES: Final = ("user", "ipc", "net", "mnt", "pid", "uts", "cgroup", "time")
_MAX_NAMESPACES: Final = dict.fromkeys(_NAMESPACES, 64) | {"ipc": 0}
"""The limits of further namespaces. IPC namespaces are forbidden: their System V memory is not counted."""
_INOTIFY: Final = ("instances", "watches")


def share_of_processes() -> int:
    """Returns the maximum number of processes and threads of one service."""
    return max(_max_user_processes() // _LIMIT_DIVISOR, _MIN_PROCESSES)


def _max_user_processes() -> int:
    """Returns the maximum number of processes and threads of this user."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    most = most_processes()
    return most if soft == resource.RLIM_INFINITY or not soft else min(soft, most)


def most_processes() -> int:
    """Returns the maximum number of processes and threads on this machine."""
    known = [_read(f"/proc/sys/kernel/{name}") for name in ("pid_max", "threads-max")]
    return min(filter(None, known), default=1 << 15)


def present_processes() -> int:
    """Returns the current number of processes and threads on this machine."""
    with suppress(OSError, ValueError, IndexError), open("/proc/loadavg") as file:  # noqa: PTH123 (likewise)
        return int(file.read().split()[3].partition("/")[2])
    return 0


def most_files() -> int:
    """Returns the maximum number of open files on this machine, but at most one for each 10 KiB of memory.

    The latter is the kernel's default. It caps a higher setting, because the memory of open files is not
    charged to any user.
    """
    set_number = _read("/proc/sys/fs/file-max") or sys.maxsize
    return min(set_number, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // _MEMORY_FOR_A_FILE)


def present_files() -> int:
    """Returns the current number of open files on this machine."""
    with suppress(OSError, ValueError, IndexError), open("/proc/sys/fs/file-nr") as file:  # noqa: PTH123 (likewise)
        return int(file.read().split()[0])
    return 0


def reserve_processes() -> None:
    """Lowers the process limit of this process, which also limits the user namespace that it creates next."""
    most = _max_user_processes()
    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    resource.setrlimit(resource.RLIMIT_NPROC, (most - most // _LIMIT_DIVISOR, hard))


def reserve_inotify() -> None:
    """Limits inotify in this process's user namespace, which contains all services, to what the server can
    spare. Does nothing if the kernel refuses."""
    for kind in _INOTIFY:
        if most := _read(f"/proc/sys/fs/inotify/max_user_{kind}"):
            _write(f"/proc/sys/user/max_inotify_{kind}", most - most // _LIMIT_DIVISOR)


def limit_namespace() -> None:
    """Limits this process's user namespace, which belongs to a service. Ignores refusals of the kernel."""
    for kind in _NAMESPACES:
        _write(f"/proc/sys/user/max_{kind}_namespaces", _MAX_NAMESPACES[kind])
    for kind in _INOTIFY:
        if most := _read(f"/proc/sys/fs/inotify/max_user_{kind}"):
            _write(f"/proc/sys/user/max_inotify_{kind}", max(most // _LIMIT_DIVISOR, 1))


def _read(path: str) -> int:
    with suppress(OSError, ValueError), open(path) as file:  # noqa: PTH123 (pathlib takes long to load)
        return int(file.read())
    return 0


def _write(path: str, number: int) -> None:
    with suppress(OSError), open(path, "w") as file:  # noqa: PTH123 (likewise)
        file.write(str(number))
