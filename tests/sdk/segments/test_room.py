"""A log deletes old lines, and several writers share it."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import Any

from tests.sdk.segments.lines import NOON, PLENTY, SMALL, names, newest, numbered, said, whole
from windlass.base.segments import Segments, files
from windlass.engines.workload import OutputLine

DAY = 86_400_000


# Letting go


def test_a_full_log_keeps_its_newest_lines_and_does_not_grow_without_end(root: Path):
    log = Segments(root, SMALL)
    for number in range(3000):
        log.append("a", numbered(number, number + 1))
    kept = whole(log)
    assert kept == [f"line {number}" for number in range(3000 - len(kept), 3000)]
    size = sum(path.stat().st_size for path in (root / "a").iterdir())
    assert SMALL * 0.9 < size <= SMALL
    assert log.size("a") == size
    assert len(names(root)) <= 17


def test_expired_log_lines_are_deleted_by_segment_and_also_in_an_idle_stream(log: Segments, root: Path):
    log.append("a", numbered(0, 100, 100))
    log.append("a", [OutputLine(NOON + 3 * DAY, "young")])
    log.expire("a", cutoff=NOON + DAY, renewed=NOON - DAY)
    assert "young" in whole(log)
    assert len(whole(log)) < 40  # other lines of the same segment
    log.expire("a", cutoff=NOON + DAY, renewed=NOON + 4 * DAY)
    assert "young" in whole(log)
    log.expire("a", cutoff=NOON + 4 * DAY, renewed=NOON + 5 * DAY)
    assert whole(log) == []
    log.append("a", said("again"))
    assert whole(log) == ["again"]


def test_deleting_a_stream_deletes_the_streams_below_it(log: Segments, root: Path):
    for stream in ("a", "a/build-1", "ab"):
        log.append(stream, numbered(0, 100, 100))
    assert sorted(log.streams()) == ["a", "a/build-1", "ab"]
    log.forget("a")
    log.forget("a")
    assert list(log.streams()) == ["ab"]
    assert not (root / "a").exists()
    log.append("a", said("another"))
    assert whole(log) == ["another"]


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_many_log_streams_use_few_open_files(root: Path):
    before = open_files()
    log = Segments(root, PLENTY, most_open=10)
    for round in range(3):
        for stream in range(100):
            log.append(f"s{stream}", said(f"{round}"))
        assert open_files() <= before + 11
    assert all(whole(log, f"s{stream}") == ["0", "1", "2"] for stream in range(100))
    log.close()
    assert open_files() <= before + 1


# Several writers


def test_two_writers_of_a_log_stream_produce_one_ordered_log(root: Path):
    logs = [Segments(root, PLENTY, size=1000) for _ in range(2)]
    for number in range(200):
        logs[number % 3 % 2].append("a", numbered(number, number + 1, 90))
        if number == 100:
            newest(root).chmod(0o400)  # as one that died between sealing a segment and making the next
    for log in logs:
        assert whole(log) == [one.message for one in numbered(0, 200, 90)]
        found = [json.loads(line)["id"] for line in log.tail("a", 1000)]
        assert all(files.after(str(root / "a"), id) is not None for id in found)
        log.close()


def test_a_removed_log_file_is_created_again(root: Path):
    log, other = Segments(root, PLENTY), Segments(root, PLENTY)
    log.append("a", said("old"))
    other.forget("a")
    log.append("a", said("new"))
    assert whole(other) == ["new"]


def test_a_log_lock_that_is_never_released_loses_lines_but_is_waited_for_only_once(
    root: Path, caplog: Any, monkeypatch: Any
):
    log = Segments(root, PLENTY)
    log.append("a", said("before"))
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    with newest(root).open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for _ in range(1000):
            log.append("a", said("lost"))
    assert 0 < len(pauses) < 1000  # it does not wait a thousand times
    assert "another process" in caplog.text
    assert whole(log) == ["before"]
