"""Repeats a measurement of processes if one of them ended meanwhile: a new child, which is not in the list,
may hold its resources by now. So the newest processes are listed first."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from typing import Final, TypeVar

from windlass.base.live_thread import is_alive
from windlass.base.marks import newest_number

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
