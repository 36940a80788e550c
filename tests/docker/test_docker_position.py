"""Reading the output of a container continues: no line is lost, and none repeated."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.docker.follow import NewOutput
from windlass.docker.position import _POSITION_BYTES, Position, Positions


def stamp(milliseconds: int) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    return (
        f"2026-01-31T{9 + seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{rest:03d}000000Z"
    )


def asked(log: list[tuple[str, bytes]], anchor: str, strict: bool) -> list[bytes]:
    """Returns the log of the engine since a moment. Some engines skip all older lines, some only the first
    ones."""
    first = next((at for at, (when, _) in enumerate(log) if when >= anchor), len(log))
    found = [each for each in log if each[0] >= anchor] if strict else log[first:]
    return [f"{when} ".encode() + text for when, text in found]


# Milliseconds from one line to the next: two streams are up to a second out of order, and pauses are long.
steps = st.lists(st.integers(-900, 900) | st.integers(0, 20_000), max_size=60)


@given(steps, st.lists(st.integers(0, 25), max_size=12), st.booleans())
def test_every_line_is_read_once_however_often_reading_restarts(steps, readings, strict):
    log, now = [], 60_000
    for number, step in enumerate(steps):
        now = now + step if step >= 0 else now
        log.append((stamp(now + min(step, 0)), str(number).encode()))
    position, read = Position(), []
    for many in [*readings, len(log)]:
        reading = NewOutput(position)
        pieces = asked(log, position.anchor, strict)
        for piece in pieces:
            found = [text for _, text in reading.new([piece])]
            read += found
            if found and (many := many - 1) < 0:
                break
        position = reading.position
    assert [int(text) for text in read] == list(range(len(log)))


def test_the_number_of_log_lines_read_again_stays_bounded():
    reading = NewOutput(Position())
    for number in range(100_000):
        list(reading.new([f"{stamp(number * 10)} x".encode()]))
    assert reading.position.count < 1000


def test_log_lines_that_the_engine_has_discarded_are_skipped():
    reading = NewOutput(Position(anchor=stamp(0), count=1000, latest=stamp(5000)))
    assert [text for _, text in reading.new([f"{stamp(5001)} new".encode()])] == [b"new"]


def test_a_log_position_survives_a_restart_and_a_truncated_one_is_ignored(tmp_path):
    positions = Positions(tmp_path / "read")
    position = Position(anchor=stamp(0), count=random.randrange(2**62), latest=stamp(1))
    positions.save("one", position)
    assert Positions(tmp_path / "read").load("one") == position
    assert (tmp_path / "read" / "one").stat().st_size == _POSITION_BYTES
    (tmp_path / "read" / "two").write_bytes(b"")
    assert positions.load("two") == Position()
    positions.forget_others(set())
    assert list((tmp_path / "read").iterdir()) == []


def test_a_position_of_another_version_is_logged_and_lines_are_repeated(tmp_path, caplog):
    (tmp_path / "one").write_text('{"anchor": 5}')
    assert Positions(tmp_path).load("one") == Position()
    assert "lines may be repeated" in caplog.text


@pytest.mark.parametrize("anchor", ["", stamp(61_002)])
def test_the_log_request_uses_the_timestamp_precision_of_the_engine(anchor):
    assert NewOutput(Position(anchor=anchor)).since == ("1769850061.002000000" if anchor else None)
