"""The points of the last hour have a place in bounded memory."""

from __future__ import annotations

import tracemalloc

import pytest

from windlass.control.context import usage_history
from windlass.control.context.usage_history import (
    CLASSES,
    INTERVAL_MS,
    MAX_INSTANCES,
    MAX_SERVICES,
    MAX_SHOWN_INSTANCES,
    PERCENTILES,
    RING_POINTS,
    UsageHistory,
)

POINT = {"cpu": 1.0, "memory": 2.0}
REQUESTS = dict.fromkeys((*CLASSES, *PERCENTILES), 1.0)
MOST_BYTES = 32 * 1024 * 1024
"""The bound in the manual, without what Python itself holds."""


def at(point: int) -> int:
    return point * INTERVAL_MS


def note(history: UsageHistory, point: int, *services: str) -> None:
    history.note_usage(at(point), {(service, "1-0"): POINT for service in services})


def count(history: UsageHistory, point: int, *services: str) -> None:
    history.note_requests(at(point), dict.fromkeys(services, REQUESTS))


def is_kept(history: UsageHistory, service: str, point: int) -> bool:
    return bool(history.of(service, at(point)).instances)


def requests(history: UsageHistory, service: str, point: int) -> list[float | None] | None:
    found = history.of(service, at(point)).requests
    return None if found is None else found["2xx"]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> UsageHistory:
    monkeypatch.setattr(usage_history, "MAX_INSTANCES", 2)
    monkeypatch.setattr(usage_history, "MAX_SERVICES", 2)
    return UsageHistory()


def test_a_full_history_stays_within_the_bound_of_the_manual():
    tracemalloc.start()
    try:
        history = UsageHistory()
        for point in range(1000, 1002):
            note(history, point, *(f"service-{number}" for number in range(2 * MAX_INSTANCES)))
            count(history, point, *(f"service-{number}" for number in range(2 * MAX_SERVICES)))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert MOST_BYTES // 4 < kept < MOST_BYTES


def test_the_usage_of_an_ended_instance_is_dropped_for_a_new_one(small: UsageHistory):
    note(small, 100, "gone", "stays")
    note(small, 101, "stays")
    note(small, 110, "stays", "new")
    assert [is_kept(small, name, 110) for name in ("gone", "stays", "new")] == [False, True, True]


def test_of_two_ended_instances_the_one_that_ended_first_is_dropped(small: UsageHistory):
    note(small, 100, "first", "second")
    note(small, 101, "second")
    note(small, 110, "new")
    assert [is_kept(small, name, 110) for name in ("first", "second", "new")] == [False, True, True]


def test_without_room_the_usage_of_running_instances_is_kept_and_new_ones_are_not_recorded(
    small: UsageHistory,
):
    """The control of the test above: with too many, none would be whole."""
    for point in (100, 101):
        note(small, point, "one", "two", "three")
    assert [is_kept(small, name, 101) for name in ("one", "two", "three")] == [True, True, False]


def test_instances_of_a_place_measured_slightly_later_are_not_dropped(small: UsageHistory):
    note(small, 100, "here")
    note(small, 100, "there")
    note(small, 101, "here", "new")
    assert is_kept(small, "there", 101)


def test_the_usage_of_ended_job_runs_makes_room_for_other_services(small: UsageHistory):
    for point in range(100, 110):
        note(small, point * 10, f"job-{point}")
    note(small, 2000, "new")
    assert is_kept(small, "new", 2000)


def test_a_service_without_current_requests_makes_room_for_others(small: UsageHistory):
    for point in (100, 101):
        count(small, point, "one", "two")
    count(small, 120, "three")
    assert requests(small, "three", 120) == [1.0]


def test_request_rates_that_were_not_recorded_are_unknown_and_not_zero(small: UsageHistory):
    for point in (100, 101):
        count(small, point, "one", "two", "three")
    note(small, 100, "three")
    count(small, 110, "three")
    count(small, 111)
    assert requests(small, "three", 111) == [*[None] * 10, 1.0, 0.0]


def test_request_rates_are_zero_if_everything_was_recorded(small: UsageHistory):
    """The control of the test above."""
    for point in (100, 101):
        count(small, point, "one")
    note(small, 100, "three")
    count(small, 102, "three")
    count(small, 103)
    assert requests(small, "three", 103) == [0.0, 0.0, 1.0, 0.0]


def test_a_series_is_dropped_an_hour_after_its_last_point():
    history = UsageHistory()
    note(history, 1000, "old")
    note(history, 1000 + RING_POINTS - 1, "new")
    assert is_kept(history, "old", 1000 + RING_POINTS - 1)
    note(history, 1000 + RING_POINTS, "new")
    assert not is_kept(history, "old", 1000 + RING_POINTS)


def test_a_point_older_than_the_latest_is_ignored():
    history = UsageHistory()
    note(history, 1000, "one")
    history.note_usage(at(999), {("one", "1-0"): {"cpu": 9.0, "memory": 9.0}})
    assert history.of("one", at(1000)).instances["1-0"]["memory"] == [2.0]


def test_a_gap_contains_no_points_of_an_hour_before():
    history = UsageHistory()
    for point in (*range(1000, 1000 + RING_POINTS), 1000 + RING_POINTS + 3):
        note(history, point, "one")
    memory = history.of("one", at(1000 + RING_POINTS + 3)).instances["1-0"]["memory"]
    assert memory == [*[2.0] * (RING_POINTS - 4), None, None, None, 2.0]


def test_metrics_show_the_newest_instances_of_a_service():
    history = UsageHistory()
    for generation in range(MAX_SHOWN_INSTANCES + 5):
        history.note_usage(at(1000 + generation), {("one", f"{generation}-0"): POINT})
    shown = history.of("one", at(1000 + MAX_SHOWN_INSTANCES + 5)).instances
    assert {*shown} == {f"{generation}-0" for generation in range(5, MAX_SHOWN_INSTANCES + 5)}


def test_after_the_clock_is_set_back_usage_points_are_recorded_again():
    """A machine that started with a clock hours ahead would otherwise measure nothing for hours."""
    history = UsageHistory()
    note(history, 1000, "web")
    count(history, 1000, "web", "other")
    for point in (100, 101, 102):
        note(history, point, "web")
        count(history, point, "web")
    found = history.of("web", at(102))
    assert found.times == [at(point) for point in (100, 101, 102)]
    assert found.instances["1-0"]["memory"] == [2.0, 2.0, 2.0]
    assert requests(history, "web", 102) == [1.0, 1.0, 1.0]
    assert requests(history, "other", 102) is None


def test_a_slightly_late_usage_point_does_not_reset_the_history():
    history = UsageHistory()
    for point in (100, 101, 102, 101):
        note(history, point, "web")
    assert history.of("web", at(102)).instances["1-0"]["memory"] == [2.0, 2.0, 2.0]
