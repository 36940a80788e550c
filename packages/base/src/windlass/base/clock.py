"""Time, passed in as a clock. Internally, time is whole milliseconds since the epoch; stamps are for people
and JSON."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, Protocol

from windlass.base.log import log

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Clock(Protocol):
    def now(self) -> int: ...


_UPTIME: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""A clock that also counts while the machine sleeps, and is not affected by changes of the wall clock."""
_TOLERANCE: Final = 500
"""Milliseconds by which a followed clock may differ before the time is corrected."""
_PACE: Final = 9, 10
"""The pace of a clock that is ahead: it loses six minutes in an hour, and a job of each minute keeps
running."""
_WORTH_TELLING: Final = 5 * SECOND
_log = log("clock")


def uptime() -> int:
    return time.clock_gettime_ns(_UPTIME) // 1_000_000


class SystemClock:
    """The clock of the machine, or another one that it follows. It never runs backwards: a step back would
    reorder lists, and repeat due times. After the other one was set back, it runs more slowly until the two
    meet: if it stood still, nothing would be due until then."""

    def __init__(self) -> None:
        self._last = 0
        self._set_back: tuple[int, int] | None = None
        """While it is ahead: the time when it began to go more slowly, and the uptime of the machine then."""
        self._ahead: int | None = None
        """Milliseconds from the uptime of the machine to the time of the followed clock, if there is one."""

    def follow(self, shown: int, took: int) -> int:
        """Follows another clock, which showed this time at some moment of the last `took` milliseconds.

        Returns the milliseconds by which this clock was ahead; 0 if it may have been right."""
        own, present = self._read(), shown + took // 2
        differs = abs(own - present) > _TOLERANCE + took // 2
        if self._ahead is None:
            self._last = 0  # a clock that was ahead before its first use continues correctly
        if differs or self._ahead is None:
            self._ahead = (present if differs else own) - uptime()
        return own - present if differs else 0

    def now(self) -> int:
        # Not always `_read`: every request asks for the time, and most clocks follow no other.
        now = time.time_ns() // 1_000_000 if self._ahead is None else self._read()
        if now < self._last:
            return self._go_slowly(now)
        self._last, self._set_back = now, None
        return now

    @property
    def behind(self) -> int:
        """The milliseconds by which the clock of the machine, or the followed one, is behind this one."""
        return max(0, self._last - self._read())

    def _go_slowly(self, read: int) -> int:
        if self._set_back is None:
            self._set_back = self._last, uptime()
            if (behind := self._last - read) > _WORTH_TELLING:
                _log.warning(
                    "restart the server if the clock is right now: it was set back, and the server goes on "
                    "from where it was, at nine tenths of the pace",
                    extra={"seconds": behind / SECOND},
                )
        since, began = self._set_back
        part, whole = _PACE
        self._last = max(self._last, since + (uptime() - began) * part // whole)
        return self._last

    def _read(self) -> int:
        return time.time_ns() // 1_000_000 if self._ahead is None else uptime() + self._ahead


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
