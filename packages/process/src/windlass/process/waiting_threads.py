"""Counts the threads of a process that wait in the kernel, or run.

The kernel has locks for the whole machine, such as that of all networks (`rtnl`), which it gives to one
thread after the other. Where thousands of threads ask for one without a pause, another thread waits for a
minute: no instance can be started, because it needs a network. Those that run take the lock before those that
wait for it, so both count.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

MOST: Final = 4096
"""Threads of all services that may wait or run while a start takes long; an organization may have a quarter,
and a sixteenth once there are half as many. Fewer delay a start by a few seconds, and a database on a slow
disk has fewer."""
LONG: Final = 5.0
"""Seconds above which a start must have waited for others."""
_STATES: Final = frozenset({b"D", b"R"})
"""The states of a thread that waits in the kernel, where no signal reaches it, and of one that runs."""


def waiting_threads(pid: int) -> int:
    count = 0
    with suppress(OSError), os.scandir(f"/proc/{pid}/task") as threads:
        for thread in threads:
            with suppress(OSError), open(f"{thread.path}/stat", "rb", buffering=0) as file:  # noqa: PTH123
                count += file.read(512).rpartition(b")")[2][1:2] in _STATES
    return count
