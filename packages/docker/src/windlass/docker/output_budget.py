"""Limits the rate at which a container's output is read, because an endlessly writing program would keep the
server busy.

A container may write much at once, but less in the long run. The output of a container that exceeds its
budget is read in short intervals. Containers of one organization that exceed their budgets share one budget.
"""

from __future__ import annotations

import time
from typing import Final

BURST_BYTES: Final = 16 * 1024 * 1024
"""Burst size in bytes, including the time of each line."""
BYTES_PER_SECOND: Final = 256 * 1024
"""Long-term rate in bytes per second."""
SHARED_BYTES_PER_SECOND: Final = 4 * BYTES_PER_SECOND
"""Long-term rate in bytes per second for all containers of an organization that have used up their
budgets."""
RESUME_BYTES: Final = 2 * 1024 * 1024
"""Number of bytes that are available again after a pause."""


class OutputBudget:
    def __init__(self, org: str, used_up: set[OutputBudget]) -> None:
        """`used_up`: the shared set of all used up budgets of an engine."""
        self.org = org
        self._used_up = used_up
        self._left: float = BURST_BYTES
        self._at = time.monotonic()

    def spend(self, count: int) -> bool:
        """Records bytes as read. Returns False if the budget is used up."""
        self._refill()
        self._left -= count
        return self._left >= 0

    def pause(self) -> float:
        """Marks the budget as used up. Returns the number of seconds for which to pause reading."""
        self._used_up.add(self)
        return (RESUME_BYTES - self._left) / self._rate()

    def end(self) -> None:
        self._used_up.discard(self)

    def _refill(self) -> None:
        now = time.monotonic()
        self._left = min(self._left + (now - self._at) * self._rate(), BURST_BYTES)
        self._at = now
        if self._left > RESUME_BYTES:
            self._used_up.discard(self)

    def _rate(self) -> float:
        sharing = sum(budget.org == self.org for budget in self._used_up)
        return min(BYTES_PER_SECOND, SHARED_BYTES_PER_SECOND / max(sharing, 1))
