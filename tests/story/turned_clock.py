"""The clock of a real server, which a test may turn forward."""

from __future__ import annotations

from windlass.base.clock import SECOND, SystemClock


class TurnedClock(SystemClock):
    def __init__(self) -> None:
        super().__init__()
        self._turned = 0

    def now(self) -> int:
        return super().now() + self._turned

    def turn(self, seconds: float) -> None:
        self._turned += round(seconds * SECOND)
