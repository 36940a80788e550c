"""Provides the time as a clock that is passed to its users. Internally, a time is whole milliseconds since
the epoch; time stamps are for people and JSON."""

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
"""A clock that keeps running while the machine sleeps and ignores changes of the wall clock."""
_TOLERANCE_MS: Final = 500
"""The difference from the followed clock, in milliseconds, that is not corrected."""
_SLOW_CLOCK_RATE: Final = 9, 10
"""The pace of a clock that is ahead, as a fraction. It loses six minutes in an hour, and a job that is due
each minute keeps running."""
_MIN_REPORTED_DIFFERENCE: Final = 5 * SECOND
_MIN_JUMP: Final = DAY
"""The least step ahead after which nothing is deleted for its age."""
_MIN_ABSENCE: Final = 7 * DAY
"""The least time since the last change, at a start, that counts as such a step."""
_DELETION_PAUSE: Final = HOUR
"""How long nothing is deleted for its age after a step ahead, so that a wrong clock can be corrected."""
_log = log("clock")


def uptime() -> int:
    return time.clock_gettime_ns(_UPTIME) // 1_000_000


class SystemClock:
    """The clock of the machine, or of another source that it follows. Never runs backwards.

    A step back would reorder lists and repeat due times. After the source was set back, this clock runs more
    slowly until the source has caught up. If it stood still instead, no job would become due meanwhile.
    """

    def __init__(self) -> None:
        self._last = 0
        self._set_back: tuple[int, int] | None = None
        """The time when this clock began to run slowly, and the machine's uptime then. None at full pace."""
        self._ahead: int | None = None
        """The followed clock's time minus the machine's uptime, in milliseconds. None without a source."""
        self._distance: int | None = None
        """This clock's time minus the machine's uptime, at the last call of `may_expire`."""
        self._expires_after = 0
        """The uptime until which nothing is deleted for its age."""

    def follow(self, shown: int, duration: int) -> int:
        """Follows another clock that showed the time `shown` within the last `duration` milliseconds.

        Returns the milliseconds by which this clock was ahead; 0 if it may have been right.
        """
        own, present = self._read(), shown + duration // 2
        differs = abs(own - present) > _TOLERANCE_MS + duration // 2
        if self._ahead is None:
            self._last = 0  # the first correction may set the clock back
        if differs or self._ahead is None:
            self._ahead = (present if differs else own) - uptime()
        return own - present if differs else 0

    def now(self) -> int:
        # A shortcut, because every request reads the clock, and most clocks follow no other clock.
        now = time.time_ns() // 1_000_000 if self._ahead is None else self._read()
        if now < self._last:
            return self._advance_slowly(now)
        self._last, self._set_back = now, None
        return now

    @property
    def behind(self) -> int:
        """The milliseconds by which the machine's clock, or the followed clock, is behind this clock."""
        return max(0, self._last - self._read())

    def compare_with(self, last_change: int) -> None:
        """Compares this clock with the time of the last change, when a server starts."""
        self.may_expire()
        if (absence := self.now() - last_change) > _MIN_ABSENCE:
            self._pause_deletions(absence)

    def may_expire(self) -> bool:
        """Returns whether data may be deleted for its age.

        It may not for an hour after this clock has stepped ahead by a day or more, or while this clock is
        ahead of its source. A clock that is wrong for a moment, as before NTP has set it, would delete
        everything that is kept for a time.
        """
        present = uptime()
        distance, former = self.now() - present, self._distance
        self._distance = distance
        if former is not None and distance - former > _MIN_JUMP:
            self._pause_deletions(distance - former)
        return present >= self._expires_after and self.behind < MINUTE

    def _pause_deletions(self, step: int) -> None:
        self._expires_after = uptime() + _DELETION_PAUSE
        _log.warning(
            "if the clock is wrong, set it within an hour, and restart the server: it is far ahead of the "
            "last known time, so nothing is deleted for its age until then",
            extra={"days": step // DAY, "time": stamp(self.now())},
        )

    def _advance_slowly(self, clock_reading: int) -> int:
        if self._set_back is None:
            self._set_back = self._last, uptime()
            if (behind := self._last - clock_reading) > _MIN_REPORTED_DIFFERENCE:
                _log.warning(
                    "restart the server if the clock is right now: it was set back, and the server goes on "
                    "from where it was, at nine tenths of the pace",
                    extra={"seconds": behind / SECOND},
                )
        since, began = self._set_back
        part, whole = _SLOW_CLOCK_RATE
        self._last = max(self._last, since + (uptime() - began) * part // whole)
        return self._last

    def _read(self) -> int:
        return time.time_ns() // 1_000_000 if self._ahead is None else uptime() + self._ahead


def may_expire(clock: Clock) -> bool:
    """Returns whether data may be deleted for its age by this clock. Clocks of tests may always step."""
    return clock.may_expire() if isinstance(clock, SystemClock) else True


def stamp(ms: int) -> str:
    """Formats a time, such as `2026-01-31T09:05:00.007Z`."""
    return f"{_format_seconds(ms // SECOND)}.{ms % SECOND:03d}Z"


@lru_cache(8)
def _format_seconds(seconds: int) -> str:
    """Formats a time without milliseconds. Cached, because many time stamps share a second."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def instant(date_time: datetime) -> int:
    """Returns an aware datetime as milliseconds since the epoch."""
    return (date_time - EPOCH) // (datetime.resolution * 1000)
