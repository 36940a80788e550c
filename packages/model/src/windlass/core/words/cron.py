"""Parses cron timetables, five fields or a macro, into sets of minutes, hours, days and months. Pure.

The syntax is the syntax of cronie: lists, ranges, steps of `*` or of a range, and names of months and
weekdays. `due_times` computes when a timetable is due.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct

MACROS: Final[Mapping[str, str]] = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTH_NAMES: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAY_NAMES: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_NUMBER_PATTERN: Final = re.compile(r"[0-9]{1,4}")


class BadTimetable(ValueError):
    """A text is not a timetable. The message shows the expected form."""


class TimetableField(Struct, frozen=True):
    """One of the five fields of a timetable."""

    name: str
    least: int
    most: int
    names: Sequence[str] = ()
    first_name: int = 0
    """The number of the first name."""
    example: str = ""


FIELDS: Final = (
    TimetableField("minute", 0, 59, example="0, */15 or 0-29/10"),
    TimetableField("hour", 0, 23, example="3, */6 or 8-18"),
    TimetableField("day of the month", 1, 31, example="1, 1,15 or *"),
    TimetableField("month", 1, 12, _MONTH_NAMES, 1, example="*, 1-6 or jan"),
    TimetableField("day of the week", 0, 7, _WEEKDAY_NAMES, example="*, 1-5 or mon-fri"),
)


class Timetable(Struct, frozen=True):
    """A timetable as sets of numbers. Weekdays are numbered from 0, which is Sunday."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    needs_both_days: bool
    """Returns whether day of the month and weekday must both match, which is the case if one of the fields
    begins with `*`. Otherwise one match is sufficient."""
    is_wildcard: bool
    """Returns whether the minute or hour field begins with `*`. Such a timetable follows the clock during a
    time change. Otherwise each due time occurs exactly once, even if the clock skips or repeats it."""


@lru_cache(maxsize=4096)
def parse(text: str) -> Timetable:
    """Parses a timetable. Raises BadTimetable with the wrong field and its expected form."""
    words = MACROS.get(text.strip().lower(), text).split()
    if text.strip().startswith("@") and len(words) == 1:
        raise BadTimetable(
            f"must be five fields, or one of {', '.join(MACROS)}: {_shorten(text)} is none of them"
        )
    if len(words) != len(FIELDS):
        raise BadTimetable(
            "must have five fields (minute, hour, day of the month, month, day of the week), such as "
            f"30 3 * * 1-5: it has {len(words)}"
        )
    minutes, hours, days, months, weekdays = (
        _parse_numbers(field, word.lower()) for field, word in zip(FIELDS, words, strict=True)
    )
    return Timetable(
        minutes=tuple(sorted(minutes)),
        hours=tuple(sorted(hours)),
        days=days,
        months=months,
        weekdays=frozenset(day % 7 for day in weekdays),
        needs_both_days=words[2].startswith("*") or words[4].startswith("*"),
        is_wildcard=words[0].startswith("*") or words[1].startswith("*"),
    )


def _parse_numbers(field: TimetableField, word: str) -> frozenset[int]:
    numbers: set[int] = set()
    for part in word.split(","):
        range_, slash, step = part.partition("/")
        first, dash, last = range_.partition("-")
        if range_ == "*":
            low, high = field.least, field.most
        else:
            low = _parse_number(field, first)
            high = _parse_number(field, last) if dash else low
        if slash and range_ != "*" and not dash:
            raise _bad_field(
                field, f"a step needs a range: write {low}-{field.most}/{step} instead of {part}"
            )
        if slash and not (_NUMBER_PATTERN.fullmatch(step) and 0 < int(step) <= field.most):
            raise _bad_field(
                field, f"a step is a number from 1 to {field.most}, and not {_shorten(step) or 'empty'}"
            )
        if low > high:
            raise _bad_field(field, f"the range {range_} ends before it begins")
        numbers |= {*range(low, high + 1, int(step) if slash else 1)}
    return frozenset(numbers)


def _parse_number(field: TimetableField, word: str) -> int:
    if word in field.names:
        return field.first_name + field.names.index(word)
    if _NUMBER_PATTERN.fullmatch(word) and field.least <= int(word) <= field.most:
        return int(word)
    raise _bad_field(field, f"it has {_shorten(word) or 'an empty part'}")


def _bad_field(field: TimetableField, reason: str) -> BadTimetable:
    return BadTimetable(
        f"the {field.name} must be numbers from {field.least} to {field.most}, such as {field.example}: "
        f"{reason}"
    )


def _shorten(text: str) -> str:
    return text if len(text) <= 20 else f"{text[:20]}…"
