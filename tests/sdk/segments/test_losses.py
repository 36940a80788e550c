"""Torn writes, crashes and full disks cost a log no line that it acknowledged."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sdk.segments.lines import NOON, PLENTY, newest, numbered, said, whole
from windlass.base.segments import Segments


@pytest.mark.parametrize("torn", [b"{", b'{"id":"1","message":"ha', b'{"message":"}', b"x" * 200_000])
def test_an_incomplete_last_log_line_is_hidden_and_truncated_at_the_next_write(
    log: Segments, root: Path, torn: bytes
):
    log.append("a", said("before"))
    log.close()
    with newest(root).open("ab") as file:
        file.write(torn)
    assert whole(log) == ["before"]
    log.append("a", said("after"))
    assert whole(log) == ["before", "after"]
    assert newest(root).read_bytes().splitlines() == log.tail("a", 10)


def test_zero_bytes_left_by_a_power_failure_are_not_returned_as_lines(log: Segments, root: Path):
    log.append("a", said("before", "lost", "after"))
    log.close()
    file = newest(root)
    text = file.read_bytes()
    at = text.index(b"lost") - 100
    file.write_bytes(text[:at] + b"\0" * 110 + text[at + 110 :])
    kept = whole(log)
    assert set(kept) < {"before", "lost", "after"}
    log.append("a", said("later"))
    assert whole(log) == [*kept, "later"]


WRITING = """
import os, sys
from pathlib import Path
from windlass.base.segments import Segments
from windlass.engines.workload import OutputLine

def write(root, number):
    log = Segments(Path(root), 1 << 30, size=20_000)
    while True:
        numbers = range(number, number + 50)
        batch = [OutputLine(each, f"line {each} " + "." * (each * 37 % 300)) for each in numbers]
        log.append("a", batch)
        number += len(batch)
        os.write(1, b"%d\\n" % number)

for order in sys.stdin:
    pid = os.fork()
    if pid == 0:
        write(sys.argv[1], int(order))
    os.write(1, b"pid %d\\n" % pid)
    os.waitpid(pid, 0)
    os.write(1, b"dead\\n")
"""


def test_kill_9_loses_or_truncates_no_acknowledged_log_line(log: Segments, root: Path):
    chance, number = random.Random(7), 0
    with subprocess.Popen(
        [sys.executable, "-c", WRITING, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as maker:
        assert maker.stdin
        assert maker.stdout
        for _ in range(20):
            maker.stdin.write(b"%d\n" % number)
            maker.stdin.flush()
            acknowledged = number
            pid = 0
            for line in maker.stdout:
                if line.startswith(b"pid "):
                    pid = int(line.split()[1])
                elif line == b"dead\n":
                    break
                else:
                    acknowledged = int(line)
                if pid and acknowledged > number + chance.randrange(2000):
                    os.kill(pid, signal.SIGKILL)
            found = whole(log)
            assert [line.split()[1] for line in found] == [str(each) for each in range(len(found))]
            assert len(found) >= acknowledged > number
            number = len(found)
        maker.stdin.close()


@contextlib.contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_dropped_lines_are_counted_and_reported_later(root: Path, caplog: Any):
    log = Segments(root, PLENTY, voice="us")
    log.append("a", numbered(0, 10, 100))
    with caplog.at_level(logging.INFO), no_file_larger_than(4000):
        for _ in range(5):
            log.append("a", numbered(10, 20, 100))
        kept = len(whole(log))
    assert 10 < kept < 20
    assert [one.levelname for one in caplog.records] == ["WARNING"]
    assert "lines of a log are lost: File too large" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.INFO):
        log.append("a", numbered(60, 62, 100))
    assert [one.levelname for one in caplog.records] == ["INFO"]
    lines = [json.loads(line) for line in log.tail("a", 3)]
    assert lines[0]["message"] == f"Lines missing here: {60 - kept} (File too large)"
    assert lines[0]["pod_name"] == "us"
    assert whole(log)[:kept] == [one.message for one in numbered(0, kept, 100)]
    assert [line["message"] for line in lines[1:]] == [one.message for one in numbered(60, 62, 100)]
    log.append("a", said("and on"))
    assert whole(log)[kept + 1 :] == [one.message for one in [*numbered(60, 62, 100), *said("and on")]]


def test_lost_lines_are_reported_even_if_no_further_line_follows(root: Path):
    log = Segments(root, PLENTY)
    with no_file_larger_than(0):
        log.append("a", said("x", "y"))
        log.report(NOON)
    assert whole(log) == []
    log.report(NOON)
    log.report(NOON)
    assert whole(log) == ["Lines missing here: 2 (File too large)"]


FILLING = """
import json, sys
from pathlib import Path
from windlass.base.segments import Segments
from windlass.engines.workload import OutputLine

def whole():
    return [json.loads(line)["message"] for line in log.tail("a", 1_000_000)]

def append(count):
    global tried
    numbers = range(tried, tried + count)
    log.append("a", [OutputLine(number, f"line {number}".ljust(100, ".")) for number in numbers])
    tried += count

disk, tried = Path(sys.argv[1]), 0
log = Segments(disk / "logs", 1 << 30, size=20_000)
(disk / "rest").write_bytes(bytes(150_000))
for round in range(1, 4):
    while not log._losses:
        append(50)
    before = whole()
    append(30)
    assert whole() == before
    (disk / "rest").write_bytes(bytes(150_000 - round * 40_000))
    append(1)
    after = whole()
    assert after[: len(before)] == before
    assert after[len(before)].startswith("Lines missing here: "), after[len(before)]
    assert "No space left" in after[len(before)]
    assert after[len(before) + 1 :] == [f"line {tried - 1}".ljust(100, ".")]
    missing = sum(int(line.split()[3]) for line in after if line.startswith("Lines missing"))
    assert len(after) - round + missing == tried
"""


ON_A_DISK_OF_ITS_OWN = """
mount -t tmpfs -o size=256k none "$1" && exec "$2" -c "$3" "$1"
"""


def test_a_full_log_disk_loses_lines_but_does_not_damage_the_log(tmp_path: Path):
    """In a mount namespace of its own, so that the disk is gone with the process."""
    apart = ["unshare", "--map-root-user", "--mount"]
    if subprocess.run([*apart, "true"], capture_output=True).returncode:
        pytest.skip("this machine lets nobody mount a disk of his own to fill it up")
    shell = ["sh", "-c", ON_A_DISK_OF_ITS_OWN, "sh", str(tmp_path), sys.executable, FILLING]
    ended = subprocess.run([*apart, *shell], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("free space on the disk") == 3
