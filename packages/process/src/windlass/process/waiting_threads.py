"""Counts the threads of a process that wait in the kernel or run.

The kernel has machine-wide locks, such as the lock of all networks (`rtnl`), which it hands to one thread
after the other. If thousands of threads request such a lock without a pause, another thread waits for a
minute. In this time, no instance can be started, because an instance needs a network. Running threads get the
lock before waiting threads, so both kinds are counted.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

MAX_THREADS: Final = 4096
"""Maximum number of threads of all services that may wait or run while a start takes long. An organization
may have a quarter of them, or a sixteenth once half of them are in use.

Fewer threads delay a start by only a few seconds. A database on a slow disk has fewer threads than this.
"""
DELAYED_START_SECONDS: Final = 5.0
"""Seconds after which a start counts as delayed by other threads."""
_WAITING_STATES: Final = frozenset({b"D", b"R"})
"""The states of a thread that waits uninterruptibly in the kernel (D) and of a running thread (R)."""


def waiting_threads(pid: int) -> int:
    count = 0
    with suppress(OSError), os.scandir(f"/proc/{pid}/task") as threads:
        for thread in threads:
            with suppress(OSError), open(f"{thread.path}/stat", "rb", buffering=0) as file:  # noqa: PTH123
                count += file.read(512).rpartition(b")")[2][1:2] in _WAITING_STATES
    return count
