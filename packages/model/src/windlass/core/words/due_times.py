"""The times at which a timetable is due, in the clock of a time zone. Pure.

Where the clock is changed, it follows cronie. Timetables with a wildcard minute or hour follow the clock:
they are not due in an hour that is skipped, and are due in both of an hour that is repeated. All others are
due once for each of their times: those of a skipped hour right after it, and those of a repeated hour in the
first of them. A change of three hours or more is a correction of the clock, which is not made up for.

Times are minutes since 1970, UTC.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from difflib import get_close_matches
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from windlass.core.words.cron import Timetable

LONGEST_CHANGE: Final = 180
"""Minutes above which a change of the clock is a correction, not daylight saving time."""
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 (the clock of a zone, which is given apart)
_DAY: Final = timedelta(days=1)
_FARTHEST: Final = 366 * 9
"""Maximum number of days to look ahead: 29 February may be eight years away."""


class UnknownZone(Exception):
    """Raised for a time zone that this machine does not know, although another machine or an earlier
    version of its data did. The message is for the person whose job it is."""


def is_zone(name: str) -> bool:
    """Returns True for names of the IANA database, letter by letter: file systems may ignore case."""
    return name in _zones()


def similar_zones(name: str) -> list[str]:
    """Returns the names that a misspelled one is nearest to, in letters of any case."""
    by_key = {zone.casefold(): zone for zone in sorted(_zones())}
    return [by_key[key] for key in get_close_matches(name.casefold(), by_key, 2, 0.8)]


@lru_cache(maxsize=1)
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())


@lru_cache(maxsize=1024)
def zone(name: str) -> ZoneInfo:
    """May raise UnknownZone."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UnknownZone(
            f"choose another time zone than {name}, or ask the operator to install the packages tzdata and "
            "tzdata-legacy: the machine of this server does not know it"
        ) from error


def next_due(timetable: Timetable, where: ZoneInfo, after: int) -> int | None:
    """Returns the first due time after this minute; None if there is none in the next years."""
    # A clock that is set back over midnight has times of the day before again.
    day = datetime.fromtimestamp(after * 60, UTC).astimezone(where).date() - _DAY
    farthest = day + _FARTHEST * _DAY
    while day < farthest:
        if day.month not in timetable.months:
            day = _next_month(day)
            continue
        if _matches(timetable, day):
            due = _first_after(timetable, where, day, after)
            if due is not None:
                return due
        day += _DAY
    return None


def due_times(timetable: Timetable, where: ZoneInfo, after: int, until: int) -> Iterator[int]:
    """Yields the due times after a minute, up to and including another one."""
    due = next_due(timetable, where, after)
    while due is not None and due <= until:
        yield due
        due = next_due(timetable, where, due)


def _next_month(day: date) -> date:
    return date(day.year + day.month // 12, day.month % 12 + 1, 1)


def _matches(timetable: Timetable, day: date) -> bool:
    """Returns whether a day of a right month is a right one."""
    in_days, in_weekdays = day.day in timetable.days, day.isoweekday() % 7 in timetable.weekdays
    return in_days and in_weekdays if timetable.needs_both_days else in_days or in_weekdays


def _first_after(timetable: Timetable, where: ZoneInfo, day: date, after: int) -> int | None:
    """Returns the first due time of a day after a minute."""
    offset = _only_offset(where, day)
    if offset is None:
        return next((due for due in _all_of(timetable, where, day) if due > after), None)
    start = _minutes(datetime(day.year, day.month, day.day)) - offset  # noqa: DTZ001
    wanted = max(0, after + 1 - start)
    hour, minute = divmod(wanted, 60)
    hours, minutes = timetable.hours, timetable.minutes
    place = bisect_left(hours, hour)
    if place == len(hours):
        return None
    if hours[place] == hour and (later := bisect_left(minutes, minute)) < len(minutes):
        return start + hour * 60 + minutes[later]
    place += hours[place] == hour
    return start + hours[place] * 60 + minutes[0] if place < len(hours) else None


@lru_cache(maxsize=8192)
def _only_offset(where: ZoneInfo, day: date) -> int | None:
    """Returns the minutes by which the clock of a zone is ahead on a day; None if it is changed on it."""
    first = datetime(day.year, day.month, day.day)  # noqa: DTZ001
    before, later = _offset(where, first, 0), _offset(where, first + _DAY, 1)
    return before if before == later else None


@lru_cache(maxsize=1024)
def _all_of(timetable: Timetable, where: ZoneInfo, day: date) -> tuple[int, ...]:
    """Returns all due times of a day on which the clock is changed."""
    times: set[int] = set()
    for hour in timetable.hours:
        for minute in timetable.minutes:
            local = datetime(day.year, day.month, day.day, hour, minute)  # noqa: DTZ001
            times |= {*_due_at(timetable, where, local)}
    return tuple(sorted(times))


def _due_at(timetable: Timetable, where: ZoneInfo, local: datetime) -> Iterator[int]:
    """Yields the minutes in which a time of the clock is due: none, one or two."""
    first, second = _offset(where, local, 0), _offset(where, local, 1)
    minute = _minutes(local)
    if first == second:
        yield minute - first
    elif first > second:  # The clock is set back, and shows it twice.
        yield minute - first
        if timetable.is_wildcard or first - second >= LONGEST_CHANGE:
            yield minute - second
    elif not timetable.is_wildcard and second - first < LONGEST_CHANGE:  # It is skipped.
        yield _change_between(where, minute - second, minute - first)


def _change_between(where: ZoneInfo, before: int, after: int) -> int:
    """Returns the first minute with the new offset, between one with the former and one with the new one."""
    new = _offset_at(where, after)
    while after - before > 1:
        middle = (before + after) // 2
        if _offset_at(where, middle) == new:
            after = middle
        else:
            before = middle
    return after


def _offset_at(where: ZoneInfo, minute: int) -> int:
    return _in_minutes(datetime.fromtimestamp(minute * 60, UTC).astimezone(where).utcoffset())


def _offset(where: ZoneInfo, local: datetime, fold: int) -> int:
    return _in_minutes(where.utcoffset(local.replace(fold=fold)))


def _in_minutes(offset: timedelta | None) -> int:
    assert offset is not None
    return round(offset.total_seconds() / 60)


def _minutes(local: datetime) -> int:
    return int((local - _EPOCH).total_seconds()) // 60
