"""Decides when to measure processes, and when to repeat a measurement.

A measurement is repeated if a listed process ended meanwhile, because an unlisted child may have inherited
its resources. Therefore, the newest processes are listed first. The usage of each instance is measured
rarely, or at once if free space shrinks fast.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator
from typing import Final, TypeVar

from windlass.base.live_thread import is_alive
from windlass.base.marks import newest_number

_USED_SPACE_DIVISOR: Final = 16
_PAUSE_FACTOR: Final = 20


class MeasurementInterval:
    def __init__(self) -> None:
        self._next, self._free = 0.0, 0

    def is_due(self, free_bytes: int) -> bool:
        """Returns whether the pause is over, or a sixteenth of the free space was used meanwhile."""
        return time.monotonic() >= self._next or free_bytes < self._free - self._free // _USED_SPACE_DIVISOR

    def postpone(self, free_bytes: int, duration: float) -> None:
        """Schedules the next measurement after one that found no instance to end. The pause limits
        measurements to a twentieth of the time, however long the shortage lasts."""
        self._next, self._free = time.monotonic() + _PAUSE_FACTOR * duration, free_bytes


MAX_SCANS: Final = 10
_MAX_PID: Final = 1 << 22
"""The kernel's upper bound for the number of pids."""

Pids = TypeVar("Pids", bound=Collection[int])


def newest_first() -> list[int]:
    """Returns all pids, the newest first. The kernel assigns pids in ascending order and wraps around."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208 (names, not paths)
    newest = newest_number()
    return sorted(pids, key=lambda pid: (newest - pid) % _MAX_PID)


def measure_until_stable(find_pids: Callable[[], Pids]) -> Iterator[Pids]:
    """Yields the processes that `find_pids` returns, and repeats this while one of them has ended
    meanwhile."""
    for _ in range(MAX_SCANS):
        pids = find_pids()
        yield pids
        if all(map(is_alive, pids)):
            return
