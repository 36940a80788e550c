"""Marks the processes of an instance or a build by a limit of the kernel, where they have no process
namespace.

A program can leave its session, its environment, its folder and its output, but not its limits: all processes
inherit them, none may raise one, and the filter of sockets lets none change this one, which only programs
with real-time priority would notice. The mark is the same for each start of an instance, so another server
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

_PREFIX: Final = 1 << 60
_OF_INSTANCES: Final = 1 << 36
_WINDOWS: Final = (*[range(-1, 6)] * 7, range(-8, 24))
"""The numbers of process ids to check around the newest. Small windows catch fast programs; every eighth
window is wide."""
_CALM: Final = 0.2
_LONGEST_CHASE: Final = 60.0
"""Seconds."""


def mark_of(home: Path) -> int:
    """Returns the mark of the instance of this folder, or of the build with this home. Marks of instances of
    an installation are next to each other."""
    return _first_mark(home.parent.parent) + _number(str(home)) % _OF_INSTANCES


def is_below(mark: int, services: Path) -> bool:
    """Returns whether a mark is that of an instance below this folder."""
    return mark - mark % _OF_INSTANCES == _first_mark(services)


def read_mark(pid: int) -> int:
    """Returns the mark of a process; 0 if it has none, is gone, or may not be looked at."""
    with suppress(OSError, ValueError):
        mark = resource.prlimit(pid, resource.RLIMIT_RTTIME)[1]
        return mark if mark >= _PREFIX else 0
    return 0


def kill_fast_forkers(mark: int) -> None:
    """Kills processes with a mark that start a child and end faster than processes can be listed. The kernel
    gives numbers in turn, so the child has one of the next. Returns once none was seen for a while."""
    start = seen = time.monotonic()
    with open("/proc/loadavg", "rb", buffering=0) as numbers:  # noqa: PTH123 (unbuffered)
        for window in cycle(_WINDOWS):
            now = time.monotonic()
            if now > min(seen + _CALM, start + _LONGEST_CHASE):
                return
            newest = _newest_number(numbers.fileno())
            for pid in window:
                if read_mark(newest + pid) == mark:
                    seen = now
                    with suppress(ProcessLookupError):
                        os.kill(newest + pid, signal.SIGKILL)


def newest_number() -> int:
    """Returns the number of the newest process."""
    with open("/proc/loadavg", "rb", buffering=0) as file:  # noqa: PTH123 (unbuffered)
        return _newest_number(file.fileno())


def _newest_number(file: int) -> int:
    return int(os.pread(file, 200, 0).split()[-1])


def _first_mark(services: Path) -> int:
    return _PREFIX + _number(str(services)) % (_PREFIX // _OF_INSTANCES) * _OF_INSTANCES


def _number(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(errors="surrogateescape"), digest_size=8).digest(), "big")
