"""The hours in which an environment runs: on days of the week, from a start to a stop in a time zone. Pure.

Times are minutes since 1970, UTC.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from windlass.core.words.cron import parse
from windlass.core.words.due_times import due_times, next_due, zone

_MINUTES_OF_HOUR: Final = 60
_DAYS_OF_WEEK: Final = 7
_LOOK_BACK_MINUTES: Final = 9 * 24 * 60
"""Longer than a week, with changes of the clock: each of both times is due in it at least once."""


class HoursEvent(StrEnum):
    START = "start"
    STOP = "stop"


class RunningHours(Struct, frozen=True):
    start: int
    """Minute of the day at which the environment is started."""
    stop: int
    """Minute of the day at which the environment is stopped. If it is not after the start, it belongs to the
    next day."""
    weekdays: Sequence[int]
    """Numbers of the days on which the environment is started, with Sunday as 0."""
    timezone: str

    def next_change(self, after_minute: int) -> int:
        """Returns the first minute after a minute at which the environment is started or stopped."""
        where = zone(self.timezone)
        due = [next_due(parse(table), where, after_minute) for table in self._timetables().values()]
        return min(minute for minute in due if minute is not None)

    def last_event(self, now: int) -> HoursEvent:
        """Returns whether the environment was to be started or to be stopped last. The stop counts if both
        are due at the same minute, as on a day whose clock skips the time between them."""
        where = zone(self.timezone)
        last = {
            event: max(due_times(parse(table), where, now - _LOOK_BACK_MINUTES, now))
            for event, table in self._timetables().items()
        }
        return HoursEvent.START if last[HoursEvent.START] > last[HoursEvent.STOP] else HoursEvent.STOP

    def _timetables(self) -> dict[HoursEvent, str]:
        later = 0 if self.stop > self.start else 1
        return {
            HoursEvent.START: _cron_timetable(self.start, self.weekdays),
            HoursEvent.STOP: _cron_timetable(
                self.stop, [(day + later) % _DAYS_OF_WEEK for day in self.weekdays]
            ),
        }


def _cron_timetable(minute: int, weekdays: Sequence[int]) -> str:
    hour, minute = divmod(minute, _MINUTES_OF_HOUR)
    return f"{minute} {hour} * * {','.join(map(str, sorted(weekdays)))}"
