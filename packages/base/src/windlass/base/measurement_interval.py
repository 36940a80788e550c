"""Decides how often to measure which process uses a resource: rarely, or at once if its use grows."""

from __future__ import annotations

import time
from typing import Final

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
