"""How much output of a container is read: a program that writes without end would keep the server busy.

A container may write much at once, and less in the long run. One that goes on is read for a moment, again and
again. Containers of one organization that do so share what is read of them.
"""

from __future__ import annotations

import time
from typing import Final

BURST: Final = 16 * 1024 * 1024
"""Bytes that are read at once, with the time of each line."""
RATE: Final = 256 * 1024
"""Bytes a second in the long run."""
SHARED: Final = 4 * RATE
"""Bytes a second for all containers of an organization together that have used up their budgets."""
PART: Final = 2 * 1024 * 1024
"""Bytes for which a pause makes room."""


class OutputBudget:
    def __init__(self, org: str, used_up: set[OutputBudget]) -> None:
        """`used_up`: all exhausted budgets of an engine."""
        self.org = org
        self._used_up = used_up
        self._left: float = BURST
        self._at = time.monotonic()

    def spend(self, count: int) -> bool:
        """Notes bytes that were read. Returns False if the budget is used up."""
        self._refill()
        self._left -= count
        return self._left >= 0

    def pause(self) -> float:
        """Returns the seconds for which nothing is read."""
        self._used_up.add(self)
        return (PART - self._left) / self._rate()

    def end(self) -> None:
        self._used_up.discard(self)

    def _refill(self) -> None:
        now = time.monotonic()
        self._left = min(self._left + (now - self._at) * self._rate(), BURST)
        self._at = now
        if self._left > PART:
            self._used_up.discard(self)

    def _rate(self) -> float:
        sharing = sum(budget.org == self.org for budget in self._used_up)
        return min(RATE, SHARED / max(sharing, 1))
