"""When an environment is started and stopped by its running hours, in any time zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from windlass.core.words.running_hours import HoursEvent, RunningHours

ZONES = [
    "UTC", "Europe/Oslo", "Europe/London", "America/New_York", "America/St_Johns", "America/Sao_Paulo",
    "Asia/Kolkata", "Asia/Tokyo", "Australia/Lord_Howe", "Pacific/Apia",
]  # fmt: skip
MINUTES_OF_THREE_YEARS = 3 * 366 * 24 * 60
BEGINNING = int(datetime(2024, 1, 1, tzinfo=UTC).timestamp()) // 60
HOURS = st.builds(
    RunningHours,
    start=st.integers(0, 1439),
    stop=st.integers(0, 1439),
    weekdays=st.lists(st.integers(0, 6), min_size=1, unique=True),
    timezone=st.sampled_from(ZONES),
).filter(lambda hours: hours.start != hours.stop)


def on_the_clock(minute: int, zone: str) -> datetime:
    return datetime.fromtimestamp(minute * 60, UTC).astimezone(ZoneInfo(zone))


def is_running(hours: RunningHours, moment: datetime) -> bool:
    """What a person would say who looks at a calendar and a clock on the wall."""
    now = moment.hour * 60 + moment.minute
    today, yesterday = moment.isoweekday() % 7, (moment - timedelta(days=1)).isoweekday() % 7
    if hours.start < hours.stop:
        return today in hours.weekdays and hours.start <= now < hours.stop
    return (today in hours.weekdays and now >= hours.start) or (
        yesterday in hours.weekdays and now < hours.stop
    )


@given(HOURS, st.integers(0, MINUTES_OF_THREE_YEARS))
def test_an_environment_runs_when_the_clock_on_the_wall_says_so(hours: RunningHours, later: int) -> None:
    minute = BEGINNING + later
    days = [on_the_clock(minute + step * 1440, hours.timezone).utcoffset() for step in (-2, -1, 0, 1, 2)]
    if len(set(days)) > 1:
        return  # around a change of the clock: see the test below
    expected = (
        HoursEvent.START if is_running(hours, on_the_clock(minute, hours.timezone)) else HoursEvent.STOP
    )
    assert hours.last_event(minute) is expected


@given(HOURS, st.integers(0, MINUTES_OF_THREE_YEARS))
def test_each_change_is_a_start_or_a_stop_of_the_hours(hours: RunningHours, later: int) -> None:
    minute = BEGINNING + later
    following = hours.next_change(minute)
    assert minute < following <= minute + 8 * 1440
    assert hours.next_change(following - 1) == following
    between = range(minute, following, max(1, (following - minute) // 5))
    assert len({hours.last_event(each) for each in between}) == 1


def test_a_changed_clock_changes_no_hour_on_the_wall() -> None:
    hours = RunningHours(start=8 * 60, stop=19 * 60, weekdays=[1, 2, 3, 4, 5], timezone="Europe/Oslo")
    friday = int(datetime(2026, 3, 27, 12, tzinfo=UTC).timestamp()) // 60
    stop = hours.next_change(friday)
    start = hours.next_change(stop)
    assert [on_the_clock(each, "UTC").isoformat() for each in (stop, start)] == [
        "2026-03-27T18:00:00+00:00",
        "2026-03-30T06:00:00+00:00",
    ]


def test_a_night_belongs_to_the_day_on_which_it_begins() -> None:
    hours = RunningHours(start=22 * 60, stop=6 * 60, weekdays=[5], timezone="UTC")
    saturday = int(datetime(2026, 3, 28, tzinfo=UTC).timestamp()) // 60
    assert hours.last_event(saturday + 5 * 60) is HoursEvent.START
    assert hours.last_event(saturday + 6 * 60) is HoursEvent.STOP
    assert hours.last_event(saturday + 23 * 60) is HoursEvent.STOP
