"""Computes when a timetable is due in a time zone. Pure.

At time changes, the behaviour of cronie is followed. Timetables with a wildcard minute or hour follow the
clock: they are not due in a skipped hour, and due in both occurrences of a repeated hour. Other timetables
are due exactly once for each of their times: times in a skipped hour are due right after it, and times in a
repeated hour are due in its first occurrence. A change of three hours or more is treated as a
correction of the clock, which all timetables follow.

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

MIN_CLOCK_CORRECTION_MINUTES: Final = 180
"""Time changes of at least this many minutes are corrections of the clock, not daylight saving time."""
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 (the clock of a zone, which is given apart)
_DAY: Final = timedelta(days=1)
_MAX_DAYS_AHEAD: Final = 366 * 9
"""Maximum number of days to look ahead, because 29 February may be eight years away."""


class UnknownZone(Exception):
    """A time zone is missing on this machine, although another machine or an earlier version of the tz
    database had it. The message is for the owner of the job."""


def is_zone(name: str) -> bool:
    """Returns whether the name is in the IANA database. Case-sensitive, although some file systems are
    not."""
    return name in _available_zones()


def similar_zones(name: str) -> list[str]:
    """Returns the names that are most similar to a misspelled name, ignoring case."""
    by_key = {zone.casefold(): zone for zone in sorted(_available_zones())}
    return [by_key[key] for key in get_close_matches(name.casefold(), by_key, 2, 0.8)]


@lru_cache(maxsize=1)
def _available_zones() -> frozenset[str]:
    return frozenset(available_timezones())


@lru_cache(maxsize=1024)
def zone(name: str) -> ZoneInfo:
    """Returns a time zone. Raises UnknownZone if it is missing on this machine."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UnknownZone(
            f"choose another time zone than {name}, or ask the operator to install the packages tzdata and "
            "tzdata-legacy: the machine of this server does not know it"
        ) from error


def next_due(timetable: Timetable, zone: ZoneInfo, after_minute: int) -> int | None:
    """Returns the first due time after a minute; None if there is none in the next nine years."""
    # After the clock is set back over midnight, times of the previous day occur again.
    day = datetime.fromtimestamp(after_minute * 60, UTC).astimezone(zone).date() - _DAY
    farthest = day + _MAX_DAYS_AHEAD * _DAY
    while day < farthest:
        if day.month not in timetable.months:
            day = _next_month(day)
            continue
        if _matches(timetable, day):
            due = _first_after(timetable, zone, day, after_minute)
            if due is not None:
                return due
        day += _DAY
    return None


def due_times(timetable: Timetable, zone: ZoneInfo, after_minute: int, until: int) -> Iterator[int]:
    """Yields the due times after the minute `after_minute`, up to and including the minute `until`."""
    due = next_due(timetable, zone, after_minute)
    while due is not None and due <= until:
        yield due
        due = next_due(timetable, zone, due)


def _next_month(day: date) -> date:
    return date(day.year + day.month // 12, day.month % 12 + 1, 1)


def _matches(timetable: Timetable, day: date) -> bool:
    """Returns whether a day matches the timetable. Its month must match already."""
    in_days, in_weekdays = day.day in timetable.days, day.isoweekday() % 7 in timetable.weekdays
    return in_days and in_weekdays if timetable.needs_both_days else in_days or in_weekdays


def _first_after(timetable: Timetable, zone: ZoneInfo, day: date, after_minute: int) -> int | None:
    """Returns the first due time of a day after the minute `after_minute`; None if there is none."""
    offset = _constant_offset(zone, day)
    if offset is None:
        return next((due for due in _due_times_of_day(timetable, zone, day) if due > after_minute), None)
    start = _local_minutes(datetime(day.year, day.month, day.day)) - offset  # noqa: DTZ001
    wanted = max(0, after_minute + 1 - start)
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
def _constant_offset(zone: ZoneInfo, day: date) -> int | None:
    """Returns the UTC offset of a zone on a day in minutes; None if the offset changes on that day."""
    first = datetime(day.year, day.month, day.day)  # noqa: DTZ001
    before, later = _utc_offset_minutes(zone, first, 0), _utc_offset_minutes(zone, first + _DAY, 1)
    return before if before == later else None


@lru_cache(maxsize=1024)
def _due_times_of_day(timetable: Timetable, zone: ZoneInfo, day: date) -> tuple[int, ...]:
    """Returns all due times of a day on which the UTC offset changes."""
    times: set[int] = set()
    for hour in timetable.hours:
        for minute in timetable.minutes:
            local = datetime(day.year, day.month, day.day, hour, minute)  # noqa: DTZ001
            times |= {*_due_minutes(timetable, zone, local)}
    return tuple(sorted(times))


def _due_minutes(timetable: Timetable, zone: ZoneInfo, local: datetime) -> Iterator[int]:
    """Yields the minutes at which a local time is due: none, one or two."""
    first, second = _utc_offset_minutes(zone, local, 0), _utc_offset_minutes(zone, local, 1)
    minute = _local_minutes(local)
    if first == second:
        yield minute - first
    elif first > second:  # The clock is set back, so the local time occurs twice.
        yield minute - first
        if timetable.is_wildcard or first - second >= MIN_CLOCK_CORRECTION_MINUTES:
            yield minute - second
    elif (
        not timetable.is_wildcard and second - first < MIN_CLOCK_CORRECTION_MINUTES
    ):  # The clock skips the local time.
        yield _change_between(zone, minute - second, minute - first)


def _change_between(zone: ZoneInfo, old_offset: int, new_offset: int) -> int:
    """Returns the first minute with the new offset. `old_offset` has the former offset, and `new_offset` the
    new one."""
    new = _offset_at(zone, new_offset)
    while new_offset - old_offset > 1:
        middle = (old_offset + new_offset) // 2
        if _offset_at(zone, middle) == new:
            new_offset = middle
        else:
            old_offset = middle
    return new_offset


def _offset_at(zone: ZoneInfo, minute: int) -> int:
    return _offset_minutes(datetime.fromtimestamp(minute * 60, UTC).astimezone(zone).utcoffset())


def _utc_offset_minutes(zone: ZoneInfo, local: datetime, fold: int) -> int:
    return _offset_minutes(zone.utcoffset(local.replace(fold=fold)))


def _offset_minutes(offset: timedelta | None) -> int:
    assert offset is not None
    return round(offset.total_seconds() / 60)


def _local_minutes(local: datetime) -> int:
    return int((local - _EPOCH).total_seconds()) // 60
