"""Limits on resources that the kernel counts for a user, for services that run as the user of the server.

The kernel counts what a user namespace uses for the user who created it as well, up to a limit of the
namespace. So a service cannot use up what other services and the server need.
"""

from __future__ import annotations

import os
import resource
import sys
from contextlib import suppress
from typing import Final

_SHARES: Final = 8
"""A service has one share of the processes and inotify that the user may have, and the server keeps one for
itself."""
_FEWEST: Final = 64
_MEMORY_FOR_A_FILE: Final = 10 * 1024
_NAMESPACES: Final = ("user", "ipc", "net", "mnt", "pid", "uts", "cgroup", "time")
_MOST_NAMESPACES: Final = dict.fromkeys(_NAMESPACES, 64) | {"ipc": 0}
"""System V memory in a further IPC namespace would counts for no user."""
_INOTIFY: Final = ("instances", "watches")


def share_of_processes() -> int:
    """Returns how many processes and threads one service may have."""
    return max(_processes() // _SHARES, _FEWEST)


def _processes() -> int:
    """Returns how many processes and threads the user may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    most = most_processes()
    return most if soft == resource.RLIM_INFINITY or not soft else min(soft, most)


def most_processes() -> int:
    """Returns how many processes and threads there may be on this machine."""
    known = [_read(f"/proc/sys/kernel/{name}") for name in ("pid_max", "threads-max")]
    return min(filter(None, known), default=1 << 15)


def present_processes() -> int:
    """Returns how many processes and threads there are on this machine."""
    with suppress(OSError, ValueError, IndexError), open("/proc/loadavg") as file:  # noqa: PTH123 (likewise)
        return int(file.read().split()[3].partition("/")[2])
    return 0


def most_files() -> int:
    """Returns how many files may be open on this machine: one for each 10 KiB of its memory, as the kernel
    decides by itself, also where a larger number is set. Each takes memory that is counted for no user."""
    set_number = _read("/proc/sys/fs/file-max") or sys.maxsize
    return min(set_number, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // _MEMORY_FOR_A_FILE)


def present_files() -> int:
    """Returns how many files are open on this machine."""
    with suppress(OSError, ValueError, IndexError), open("/proc/sys/fs/file-nr") as file:  # noqa: PTH123 (likewise)
        return int(file.read().split()[0])
    return 0


def reserve_processes() -> None:
    """Lowers the limit of this process, and so also the limit of the user namespace that it creates next."""
    most = _processes()
    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    resource.setrlimit(resource.RLIMIT_NPROC, (most - most // _SHARES, hard))


def reserve_inotify() -> None:
    """Limits the user namespace of this process, in which those of all services are, to what the server can
    spare. Does nothing where the kernel refuses, here and below."""
    for kind in _INOTIFY:
        if most := _read(f"/proc/sys/fs/inotify/max_user_{kind}"):
            _write(f"/proc/sys/user/max_inotify_{kind}", most - most // _SHARES)


def limit_namespace() -> None:
    """Limits the user namespace of this process, that of a service."""
    for kind in _NAMESPACES:
        _write(f"/proc/sys/user/max_{kind}_namespaces", _MOST_NAMESPACES[kind])
    for kind in _INOTIFY:
        if most := _read(f"/proc/sys/fs/inotify/max_user_{kind}"):
            _write(f"/proc/sys/user/max_inotify_{kind}", max(most // _SHARES, 1))


def _read(path: str) -> int:
    with suppress(OSError, ValueError), open(path) as file:  # noqa: PTH123 (pathlib takes long to load)
        return int(file.read())
    return 0


def _write(path: str, number: int) -> None:
    with suppress(OSError), open(path, "w") as file:  # noqa: PTH123 (likewise)
        file.write(str(number))
