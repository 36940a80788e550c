"""Time, passed in as a clock. Internally, time is whole milliseconds since the epoch; stamps are for people
and JSON."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Clock(Protocol):
    def now(self) -> int: ...


class SystemClock:
    """The machine's clock, which never runs backwards here: a step back would reorder lists."""

    def __init__(self) -> None:
        self._last = 0

    def now(self) -> int:
        now = time.time_ns() // 1_000_000
        if now > self._last:
            self._last = now
        return self._last


def stamp(ms: int) -> str:
    """Formats a time as in `2026-01-31T09:05:00.007Z`."""
    return f"{_to_the_second(ms // SECOND)}.{ms % SECOND:03d}Z"


@lru_cache(8)
def _to_the_second(seconds: int) -> str:
    """Formats a time to the second. Cached, because many stamps fall into the same second."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def instant(moment: datetime) -> int:
    """Returns an aware datetime as milliseconds since the epoch."""
    return (moment - EPOCH) // (datetime.resolution * 1000)
