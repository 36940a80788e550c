"""Marks the processes of an instance or a build by a kernel resource limit, if they have no pid namespace.

A program can change its session, environment, folder and output, but not the limit RLIMIT_RTTIME: all child
processes inherit it, no process may raise it, and the socket filter prevents changes of it. The limit affects
only programs with real-time priority. The mark is the same for each start of an instance, so another server
recognizes it, too.
"""

from __future__ import annotations

import os
import resource
import signal
import time
from contextlib import suppress
from hashlib import blake2b
from itertools import cycle
from pathlib import Path
from typing import Final

_MARK_BASE: Final = 1 << 60
_OF_INSTANCES: Final = 1 << 36
_PID_WINDOWS: Final = (*[range(-1, 6)] * 7, range(-8, 24))
"""The offsets from the newest pid at which to look for a process. Small windows catch fast programs; every
eighth window is wide."""
_QUIET_SECONDS: Final = 0.2
_MAX_CHASE_SECONDS: Final = 60.0
"""The maximum duration of a chase, in seconds."""


def mark_of(home: Path) -> int:
    """Returns the mark of an instance or a build, given its home folder.

    The marks of all instances of an installation are in one range of numbers.
    """
    return _first_mark(home.parent.parent) + _hash_number(str(home)) % _OF_INSTANCES


def is_below(mark: int, services: Path) -> bool:
    """Returns whether a mark belongs to an instance below a services folder."""
    return mark - mark % _OF_INSTANCES == _first_mark(services)


def read_mark(pid: int) -> int:
    """Returns the mark of a process; 0 if it has no mark, is gone, or cannot be inspected."""
    with suppress(OSError, ValueError):
        mark = resource.prlimit(pid, resource.RLIMIT_RTTIME)[1]
        return mark if mark >= _MARK_BASE else 0
    return 0


def kill_fast_forkers(mark: int) -> None:
    """Kills marked processes that start a child and end faster than processes can be listed.

    The kernel assigns pids in ascending order, so a child has one of the next pids. Returns after a quiet
    interval, or after the maximum duration of a chase.
    """
    start = seen = time.monotonic()
    with open("/proc/loadavg", "rb", buffering=0) as numbers:  # noqa: PTH123 (unbuffered)
        for window in cycle(_PID_WINDOWS):
            now = time.monotonic()
            if now > min(seen + _QUIET_SECONDS, start + _MAX_CHASE_SECONDS):
                return
            newest = _read_newest_pid(numbers.fileno())
            for pid in window:
                if read_mark(newest + pid) == mark:
                    seen = now
                    with suppress(ProcessLookupError):
                        os.kill(newest + pid, signal.SIGKILL)


def newest_number() -> int:
    """Returns the pid of the newest process."""
    with open("/proc/loadavg", "rb", buffering=0) as file:  # noqa: PTH123 (unbuffered)
        return _read_newest_pid(file.fileno())


def _read_newest_pid(file: int) -> int:
    return int(os.pread(file, 200, 0).split()[-1])


def _first_mark(services: Path) -> int:
    return _MARK_BASE + _hash_number(str(services)) % (_MARK_BASE // _OF_INSTANCES) * _OF_INSTANCES


def _hash_number(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(errors="surrogateescape"), digest_size=8).digest(), "big")
