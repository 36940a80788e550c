"""When processes are measured, and when again.

A measurement is repeated if one of the processes ended meanwhile: a new child, which is not in the list, may
hold its resources by now. So the newest processes are listed first. Which process uses a resource is measured
rarely, or at once if its use grows.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator
from typing import Final, TypeVar

from windlass.base.live_thread import is_alive
from windlass.base.marks import newest_number

_WORTH: Final = 16
_IDLE: Final = 20


class MeasurementInterval:
    def __init__(self) -> None:
        self._next, self._free = 0.0, 0

    def is_due(self, free: int) -> bool:
        """Returns whether to measure: after a pause, or at once if a sixteenth was used meanwhile."""
        return time.monotonic() >= self._next or free < self._free - self._free // _WORTH

    def postpone(self, free: int, took: float) -> None:
        """Plans the next measurement after one that found no instance to end: measurements take at most a
        twentieth of the time, however long the shortage lasts."""
        self._next, self._free = time.monotonic() + _IDLE * took, free


MOST_LOOKS: Final = 10
_MOST_PIDS: Final = 1 << 22
"""The highest limit that the kernel allows for process numbers."""

Pids = TypeVar("Pids", bound=Collection[int])


def newest_first() -> list[int]:
    """Returns the numbers of all processes. The kernel counts on, and begins again at its highest number."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208 (names, not paths)
    newest = newest_number()
    return sorted(pids, key=lambda pid: (newest - pid) % _MOST_PIDS)


def measure_until_stable(find: Callable[[], Pids]) -> Iterator[Pids]:
    """Yields the found processes, and finds them again if one of them has ended meanwhile."""
    for _ in range(MOST_LOOKS):
        pids = find()
        yield pids
        if all(map(is_alive, pids)):
            return
