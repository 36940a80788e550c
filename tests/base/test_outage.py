"""An outage is told at its beginning and at its end, and not at each attempt."""

from __future__ import annotations

import logging

import pytest

from windlass.base.outage import Outage


@pytest.fixture
def outage(caplog) -> Outage:
    caplog.set_level(logging.INFO)
    return Outage(logging.getLogger("outage"), "it waits", "it goes on")


def lines(caplog) -> list[tuple[str, object]]:
    return [(record.message, vars(record).get("failed")) for record in caplog.records]


def test_an_outage_is_two_lines_with_the_number_of_attempts(outage, caplog):
    for _ in range(100):
        outage.note("away")
    outage.end()
    outage.end()
    assert lines(caplog) == [("it waits", None), ("it goes on", 100)]


def test_a_new_reason_during_an_outage_is_logged_once(outage, caplog):
    for reason in ("away", "starting", "away"):
        outage.note(reason)
    assert [vars(record)["error"] for record in caplog.records] == ["away", "starting"]


def test_an_outage_with_ever_changing_reasons_logs_at_most_5_lines(outage, caplog):
    for number in range(100):
        outage.note(f"connection {number} was lost")
    assert len(caplog.records) == 5


def test_each_outage_is_logged_at_its_beginning_and_end(outage, caplog):
    for _ in range(2):
        outage.note("away")
        outage.end()
    assert lines(caplog) == [("it waits", None), ("it goes on", 1)] * 2


def test_an_outage_end_without_a_beginning_is_not_logged(outage, caplog):
    outage.end()
    assert caplog.records == []
