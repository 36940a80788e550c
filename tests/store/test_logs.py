"""The last lines of a log: exactly those, at any length, after a rotation and after a crash."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from windlass.control.logs import Logs

NOON = 1_790_000_000_000
MOST = 64 * 1024


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(tmp_path / "logs", MOST)


def messages(logs: Logs, most: int = 10_000, service: str = "a") -> list[str]:
    return [json.loads(line)["message"] for line in logs.tail(service, most)]


def current(logs: Logs) -> Path:
    return logs._path("a")


def test_a_service_without_a_log_has_no_lines(logs: Logs):
    assert logs.tail("a", 10) == []


@pytest.mark.parametrize("most", [1, 2, 99, 100, 101, 10_000])
def test_the_tail_is_exactly_the_last_lines_oldest_first(logs: Logs, most: int):
    for number in range(100):
        logs.write("a", NOON + number, f"line {number}")
    logs.write("b", NOON, "of another service")
    assert messages(logs, most) == [f"line {number}" for number in range(100)][-most:]


def test_a_line_says_when_and_from_where(logs: Logs):
    logs.write("a", NOON, 'many words, "quotes",\nand two lines', pod="a-1", version="7")
    (line,) = [json.loads(line) for line in logs.tail("a", 10)]
    assert line.pop("id")
    assert line == {
        "created_at": "2026-09-21T14:13:20.000Z",
        "message": 'many words, "quotes",\nand two lines',
        "pod_name": "a-1",
        "version": "7",
    }


def test_lines_longer_than_a_block_are_whole(logs: Logs):
    long = ["x" * 70_000, "y", "z" * 140_000]
    logs.write("a", NOON, *long)
    assert messages(logs, 3) == long
    assert messages(logs, 1) == long[2:]


def test_a_full_log_keeps_its_newest_lines_and_does_not_grow_without_end(logs: Logs):
    for number in range(3_000):
        logs.write("a", NOON, f"line {number}")
    kept = messages(logs)
    assert kept == [f"line {number}" for number in range(3_000 - len(kept), 3_000)]
    assert 100 < len(kept) < 3_000
    size = sum(file.stat().st_size for file in current(logs).parent.iterdir())
    assert MOST / 2 < size < MOST * 1.1
    assert messages(logs, 250) == kept[-250:]


def test_a_line_that_is_being_written_is_not_shown_yet(logs: Logs):
    logs.write("a", NOON, "whole")
    with current(logs).open("ab") as file:
        file.write(b'{"id":"1","message":"ha')
    assert messages(logs) == ["whole"]


@pytest.mark.parametrize("torn", [b"{", b'{"id":"1","message":"ha', b'{"message":"}', b"x" * 200_000])
def test_what_a_crash_left_of_a_line_does_not_spoil_the_next_one(logs: Logs, torn: bytes):
    logs.write("a", NOON, "before")
    with current(logs).open("ab") as file:
        file.write(torn)
    logs.write("a", NOON, "after")
    assert messages(logs) == ["before", "after"]


def test_a_log_of_one_torn_line_begins_anew(logs: Logs):
    logs.write("a", NOON, "x")
    current(logs).write_bytes(b"torn")
    logs.write("a", NOON, "after")
    assert messages(logs) == ["after"]


def test_a_log_that_is_forgotten_is_gone(logs: Logs):
    for number in range(1_000):
        logs.write("a", NOON, f"line {number}")
    logs.forget("a")
    logs.forget("a")
    assert logs.tail("a", 10) == []
    assert list(current(logs).parent.iterdir()) == []
