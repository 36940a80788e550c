"""Time, passed in. Inside, it is whole milliseconds since the epoch; a stamp is for people and JSON."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Clock(Protocol):
    def now(self) -> int: ...


class SystemClock:
    """The machine's clock, never running backwards: a step back would reorder lists."""

    def __init__(self) -> None:
        self._last = 0

    def now(self) -> int:
        self._last = max(self._last, time.time_ns() // 1_000_000)
        return self._last


def stamp(ms: int) -> str:
    """`2026-01-31T09:05:00.007Z`"""
    moment = time.gmtime(ms // 1000)
    return (
        f"{moment.tm_year:04d}-{moment.tm_mon:02d}-{moment.tm_mday:02d}"
        f"T{moment.tm_hour:02d}:{moment.tm_min:02d}:{moment.tm_sec:02d}.{ms % 1000:03d}Z"
    )


def instant(moment: datetime) -> int:
    """The milliseconds of an aware datetime."""
    return (moment - EPOCH) // (datetime.resolution * 1000)
