"""Due times of timetables are those of cronie, in many zones, over changes of the clock."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tests.jobs.cron_oracle import Entry, clocks, simulate
from tests.tables import rows
from windlass.core.words.cron import MACROS, BadTimetable, parse
from windlass.core.words.due_times import due_times, is_zone, next_due, zone

ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/Sao_Paulo",
    "Australia/Lord_Howe",  # changes by half an hour
    "Asia/Kathmandu",  # 5:45 ahead
    "Africa/Cairo",  # changes at midnight
    "Asia/Beirut",  # changes at midnight
    "America/Santiago",  # changes at midnight, in the other half of the year
    "Pacific/Chatham",  # 12:45 ahead, changes at 2:45
)
TIMETABLES = (
    "30 2 * * *",
    "0,30 2 * * *",
    "*/15 2 * * *",
    "0 * * * *",
    "15 */2 * * *",
    "5 0 * * *",
    "30 23 * * sun",
    "0 3 1,15 * *",
    "45 1-3 13 * fri",
    "0 12 * jan-mar 1-5",
    "10 0-1 31 * *",
    "0-40/20 */3 */2 * *",
)
FIRST, LAST = datetime(2023, 12, 31, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)


def minutes(moment: datetime) -> int:
    return int(moment.timestamp()) // 60


def of(text: str, name: str, after: str) -> str:
    """The next due time after a time in UTC, as the clock of the zone shows it."""
    due = next_due(parse(text), zone(name), minutes(datetime.fromisoformat(after).replace(tzinfo=UTC)))
    assert due is not None
    return datetime.fromtimestamp(due * 60, UTC).astimezone(ZoneInfo(name)).isoformat()


def changes(name: str) -> list[tuple[int, int]]:
    """Returns a day before to a day after each change of the clock, and three days without one."""
    found, where = [(minutes(FIRST), minutes(FIRST + timedelta(days=3)))], ZoneInfo(name)
    day = FIRST
    while day < LAST:
        later = day + timedelta(days=1)
        if day.astimezone(where).utcoffset() != later.astimezone(where).utcoffset():
            found.append((minutes(day - timedelta(days=1)), minutes(day + timedelta(days=2))))
        day = later
    return found


@pytest.mark.parametrize("name", ZONES)
@pytest.mark.slow
def test_due_times_match_cronie_over_three_years_of_clock_changes(name: str) -> None:
    where, tables = ZoneInfo(name), [(text, parse(text), Entry(text)) for text in TIMETABLES]
    for first, last in changes(name):
        shown = clocks(where, first, last)
        for text, table, entry in tables:
            found = [*due_times(table, where, first - 1, last)]
            assert found == [*simulate(entry, shown, first)], (text, name)


@pytest.mark.slow
def test_due_times_of_half_a_year_match_cronie() -> None:
    where, first = ZoneInfo("America/Santiago"), minutes(FIRST)
    shown = clocks(where, first, first + 183 * 24 * 60)
    for text in ("30 2 * * *", "0 3 1,15 * mon"):
        found = [*due_times(parse(text), where, first - 1, first + 183 * 24 * 60)]
        assert found == [*simulate(Entry(text), shown, first)]


def test_a_fixed_time_of_a_skipped_hour_is_due_right_after_it() -> None:
    assert of("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00") == "2026-03-29T03:00:00+02:00"


def test_a_wildcard_time_of_a_skipped_hour_is_not_due() -> None:
    assert of("*/30 2 * * *", "Europe/Berlin", "2026-03-28T12:00") == "2026-03-30T02:00:00+02:00"


def test_a_fixed_time_of_a_repeated_hour_is_due_once() -> None:
    assert of("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00") == "2026-10-25T02:30:00+02:00"
    assert of("30 2 * * *", "Europe/Berlin", "2026-10-25T00:30") == "2026-10-26T02:30:00+01:00"


def test_a_wildcard_time_of_a_repeated_hour_is_due_twice() -> None:
    assert of("30 * * * *", "Europe/Berlin", "2026-10-25T00:30") == "2026-10-25T02:30:00+01:00"


def test_february_29_is_found_across_the_year_2100() -> None:
    assert of("0 0 29 2 *", "UTC", "2096-03-01T00:00") == "2104-02-29T00:00:00+00:00"


def test_cron_macros_equal_the_fields_they_stand_for() -> None:
    for macro, text in MACROS.items():
        assert parse(macro) == parse(text)


@rows(
    ("text", "says"),
    [
        ("* * * *", "five fields"),
        ("* * * * * *", "it has 6"),
        ("60 * * * *", "the minute must be numbers from 0 to 59"),
        ("* 24 * * *", "the hour must be"),
        ("* * 0 * *", "the day of the month must be"),
        ("* * * foo *", "the month must be numbers from 1 to 12, such as *, 1-6 or jan: it has foo"),
        ("* * * * 8", "the day of the week must be"),
        ("5/15 * * * *", "write 5-59/15 instead of 5/15"),
        ("*/0 * * * *", "a step is a number from 1 to 59"),
        ("30-10 * * * *", "ends before it begins"),
        ("1,,2 * * * *", "an empty part"),
        ("@reboot", "one of @yearly"),
        ("٣ * * * *", "the minute must be"),
        ("", "it has 0"),
    ],
)
def test_a_wrong_timetable_is_refused_with_its_field(text: str, says: str) -> None:
    with pytest.raises(BadTimetable, match=re.escape(says)):
        parse(text)


def test_time_zone_names_are_matched_exactly_against_the_tz_database() -> None:
    assert is_zone("Europe/Berlin")
    assert is_zone("Etc/UTC")
    assert not is_zone("europe/berlin")
    assert not is_zone("../../etc/passwd")
    assert not is_zone("CET+1")
