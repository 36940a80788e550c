"""A log in segments is a list: whatever is written, cut off, let go or filled up in between."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.forms import either
from windlass.base import ids
from windlass.base.clock import stamp
from windlass.base.segments import EVERYTHING, Gone, LineFilter, Segments, files, instant, line_filter
from windlass.core.deploy.workload import OutputLine

NOON = 1_790_000_000_000
PLENTY = 1 << 30
SMALL = 64 * 1024
DAY = 86_400_000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "logs"


@pytest.fixture
def log(root: Path) -> Iterator[Segments]:
    """With so little room in a segment that there are many of them."""
    made = Segments(root, PLENTY, size=4096)
    yield made
    made.close()


def said(*messages: str, at: int = NOON) -> list[OutputLine]:
    return [OutputLine(at, message) for message in messages]


def numbered(begin: int, end: int, width: int = 0) -> list[OutputLine]:
    return [OutputLine(NOON + number, f"line {number}".ljust(width, ".")) for number in range(begin, end)]


def messages(lines: list[bytes]) -> list[str]:
    return [json.loads(line)["message"] for line in lines]


def whole(log: Segments, stream: str = "a", wanted: LineFilter = EVERYTHING) -> list[str]:
    return messages(log.tail(stream, 1_000_000, wanted))


def names(root: Path, stream: str = "a") -> list[str]:
    return sorted(path.name for path in (root / stream).iterdir())


def newest(root: Path, stream: str = "a") -> Path:
    return root / stream / names(root, stream)[-1]


# A list

ODD = ["", "\n", "\\n", "n", '"', "\\", "é", "🪢", "id", "a\nb", "\x00", "\u2028"]
LONG = st.sampled_from([3000, 70_000]).map(lambda length: "x" * length)
TEXTS = st.text(max_size=30) | st.sampled_from(ODD) | LONG
TIMES = st.integers(NOON, NOON + 50)


class ListOfLines(RuleBasedStateMachine):
    """Any interleaving of writes, rotations, restarts, torn ends, tails and followers."""

    @initialize(size=st.sampled_from([100, 300, 4096, 70_000]))
    def begin(self, size: int) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="segments-")
        self.root, self.size = Path(self.folder.name), size
        self.model: list[tuple[int, str]] = []
        self.place, self.followed = 0, list[str]()
        self.log = Segments(self.root, PLENTY, size=size)

    @rule(batch=st.lists(st.tuples(TIMES, TEXTS), max_size=20))
    def write(self, batch: list[tuple[int, str]]) -> None:
        self.log.append("a", [OutputLine(at, text) for at, text in batch])
        self.model += batch

    @rule()
    def start_again(self) -> None:
        self.log.close()
        self.log = Segments(self.root, PLENTY, size=self.size)

    @rule(torn=st.sampled_from([b"{", b'{"id":"', b"\0" * 5000, b"x" * 200_000]))
    def be_killed_in_a_line(self, torn: bytes) -> None:
        self.start_again()
        if self.model:
            with newest(self.root).open("ab") as file:
                file.write(torn)

    @rule()
    def rotate(self) -> None:
        self.log.expire("a", before=0, renewed=NOON * 2)

    @rule()
    def follow(self) -> None:
        while True:
            step = files.read_on(str(self.root / "a"), self.place)
            assert not step.gone
            self.place = step.place
            if not step.chunk:
                break
            self.followed += messages(EVERYTHING.of(step.chunk))
        assert self.followed == [text for _, text in self.model]

    @rule(
        most=st.integers(1, 60),
        since=st.none() | TIMES,
        until=st.none() | TIMES,
        contains=st.just("") | TEXTS.map(lambda text: text[:3]),
    )
    def read(self, most: int, since: int | None, until: int | None, contains: str) -> None:
        wanted = [
            text
            for at, text in self.model
            if (since is None or at >= since) and (until is None or at < until) and contains in text
        ]
        assert messages(self.log.tail("a", most, line_filter(since, until, contains))) == wanted[-most:]

    @rule(number=st.integers(0, 10_000))
    def come_back(self, number: int) -> None:
        lines = self.log.tail("a", 1_000_000)
        if lines:
            number %= len(lines)
            place = files.after(str(self.root / "a"), json.loads(lines[number])["id"])
            assert place is not None
            step = files.read_on(str(self.root / "a"), place)
            following = messages(EVERYTHING.of(step.chunk))
            assert following == [text for _, text in self.model][number + 1 :][: len(following)]
            assert following or number == len(lines) - 1

    @invariant()
    def it_is_the_list(self) -> None:
        lines = self.log.tail("a", 1_000_000)
        assert messages(lines) == [text for _, text in self.model]
        found = [json.loads(line)["id"] for line in lines]
        assert len(set(found)) == len(found)
        assert all(ids.is_id(id) for id in found)

    def teardown(self) -> None:
        self.log.close()
        self.folder.cleanup()


TestListOfLines = pytest.mark.sized(ListOfLines.TestCase)
TestListOfLines.settings = settings(
    max_examples=either(20, 400),
    stateful_step_count=20,
    suppress_health_check=[HealthCheck.too_slow],
)


def test_a_line_says_when_and_from_where(log: Segments):
    log.append("a", [OutputLine(NOON, 'many words, "quotes",\nand two lines', "a-1", "7")])
    (line,) = [json.loads(line) for line in log.tail("a", 10)]
    assert ids.is_id(line.pop("id"))
    assert line == {
        "created_at": "2026-09-21T14:13:20.000Z",
        "message": 'many words, "quotes",\nand two lines',
        "pod_name": "a-1",
        "version": "7",
    }


@pytest.mark.parametrize("most", [1, 2, 99, 100, 101, 10_000])
def test_the_tail_is_exactly_the_last_lines_oldest_first(log: Segments, most: int):
    log.append("a", numbered(0, 100, 100))
    log.append("b", said("of another stream"))
    assert messages(log.tail("a", most)) == [one.message for one in numbered(0, 100, 100)][-most:]


def test_lines_longer_than_a_block_are_whole(log: Segments):
    long = ["x" * 70_000, "y", "z" * 140_000, "w" * 700_000]
    log.append("a", said(*long))
    for most in range(1, 5):
        assert messages(log.tail("a", most)) == long[-most:]


def test_lines_without_valid_unicode_or_time_are_written(log: Segments):
    log.append(
        "a",
        [
            OutputLine(-5, "half a \ud83e pair", "p\udc00"),
            OutputLine(10**18, "late"),
            OutputLine(NOON, "good"),
        ],
    )
    lines = [json.loads(line) for line in log.tail("a", 10)]
    assert [line["message"] for line in lines] == ["half a ? pair", "late", "good"]
    assert [line["created_at"][:4] for line in lines] == ["1970", "9999", "2026"]


def test_a_stream_that_is_not_there_has_no_lines(log: Segments):
    assert log.tail("nowhere", 10) == []
    assert log.size("nowhere") == 0


@pytest.mark.parametrize("name", ["", "..", "a/../b", "/a", "a//b", ".hidden", "a b", "a/", "x" * 300])
def test_a_name_that_leads_elsewhere_is_refused(log: Segments, name: str):
    with pytest.raises(ValueError, match="name of a stream"):
        log.append(name, said("x"))


def test_a_time_is_read_as_it_was_printed():
    for at in (0, 1, 951_782_400_000, NOON + 7, 4_107_542_399_999, 253_402_300_799_999):
        assert instant(stamp(at)) == at
    assert instant("2026-02-31T00:00:00Z") == instant("2026-03-03T00:00:00.000Z")
    assert instant("2026-01-31T09:05:00.7Z") == instant("2026-01-31T09:05:00.700Z")


# Searching


@pytest.mark.parametrize("text", ["n", "\\", '"', "\n", "\\n", "created_at", "é", "u0000", "a\nb", "b"])
def test_a_search_finds_what_the_message_says_and_not_how_it_is_written(log: Segments, text: str):
    lines = ["a\nb", "a\\nb", 'say "hi"', "café", "zero\x00", "plain", "created_at", "u0000"]
    log.append("a", [OutputLine(NOON, line, "pod\nn", "é") for line in lines])
    assert whole(log, "a", line_filter(contains=text)) == [line for line in lines if text in line]


def test_segments_of_another_time_are_not_opened(log: Segments, root: Path):
    log.append("a", numbered(0, 500, 100))
    assert len(names(root)) > 6
    for name in names(root)[2:-1]:
        (root / "a" / name).write_bytes(b"this would be no line at all\n")
    assert whole(log, "a", line_filter(until=NOON + 5)) == [one.message for one in numbered(0, 5, 100)]


# Torn, cut, killed


@pytest.mark.parametrize("torn", [b"{", b'{"id":"1","message":"ha', b'{"message":"}', b"x" * 200_000])
def test_a_line_that_is_being_written_is_not_shown_and_what_a_crash_left_of_it_is_cut(
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


def test_holes_that_a_power_failure_left_are_no_lines(log: Segments, root: Path):
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
from windlass.core.deploy.workload import OutputLine

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


def test_nothing_that_was_written_is_lost_or_torn_by_kill_9(log: Segments, root: Path):
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


# A full disk


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


def test_a_loss_is_reported_without_further_lines(root: Path):
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
from windlass.core.deploy.workload import OutputLine

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


def test_a_full_disk_loses_lines_and_nothing_else(tmp_path: Path):
    """In a mount namespace of its own, so that the disk is gone with the process."""
    apart = ["unshare", "--map-root-user", "--mount"]
    if subprocess.run([*apart, "true"], capture_output=True).returncode:
        pytest.skip("this machine lets nobody mount a disk of his own to fill it up")
    shell = ["sh", "-c", ON_A_DISK_OF_ITS_OWN, "sh", str(tmp_path), sys.executable, FILLING]
    ended = subprocess.run([*apart, *shell], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("make room on the disk") == 3


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


def test_old_lines_go_by_segments_and_a_quiet_stream_keeps_none_for_ever(log: Segments, root: Path):
    log.append("a", numbered(0, 100, 100))
    log.append("a", [OutputLine(NOON + 3 * DAY, "young")])
    log.expire("a", before=NOON + DAY, renewed=NOON - DAY)
    assert "young" in whole(log)
    assert len(whole(log)) < 40  # what is in one segment with it
    log.expire("a", before=NOON + DAY, renewed=NOON + 4 * DAY)
    assert "young" in whole(log)
    log.expire("a", before=NOON + 4 * DAY, renewed=NOON + 5 * DAY)
    assert whole(log) == []
    log.append("a", said("again"))
    assert whole(log) == ["again"]


def test_a_stream_that_is_forgotten_is_gone_with_those_below_it(log: Segments, root: Path):
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


def test_of_many_streams_few_files_are_open(root: Path):
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


def test_two_that_write_in_turn_write_one_list(root: Path):
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


def test_one_that_never_lets_go_costs_lines_and_no_time(root: Path, caplog: Any):
    log = Segments(root, PLENTY)
    log.append("a", said("before"))
    with newest(root).open("rb") as file:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX)
        began = time.process_time()
        for _ in range(1000):
            log.append("a", said("lost"))
        assert time.process_time() - began < 1  # it does not wait a thousand times
    assert "another process" in caplog.text
    assert whole(log) == ["before"]


# Following


class Reader:
    """Follows, and keeps what came."""

    def __init__(self, lines: AsyncIterator[list[bytes] | Gone]) -> None:
        self.lines: list[str] = []
        self.came = asyncio.Event()
        self.task = asyncio.create_task(self._read(lines))

    async def _read(self, lines: AsyncIterator[list[bytes] | Gone]) -> None:
        async for piece in lines:
            found = [] if isinstance(piece, Gone) else [json.loads(line) for line in piece]
            self.lines += ["GONE"] if isinstance(piece, Gone) else [line["message"] for line in found]
            self.came.set()

    async def has(self, count: int) -> list[str]:
        async with asyncio.timeout(20):
            while len(self.lines) < count:
                assert not self.task.done()
                self.came.clear()
                await self.came.wait()
        return self.lines

    async def stop(self) -> list[str]:
        self.task.cancel()
        await asyncio.wait([self.task])
        return self.lines


async def test_a_follower_gets_what_is_there_and_then_every_line_once_over_rotations(log: Segments):
    log.append("a", numbered(0, 100, 200))
    readers = [Reader(log.follow("a", 10)), Reader(log.follow("a", 0)), Reader(log.follow("b", 10))]
    await readers[0].has(10)
    number = 100
    for size in [1, 0, 3, 50, 200, 1, 7] * 5:
        log.append("a", numbered(number, number + size, 200))
        number += size
        if size != 3:
            await asyncio.sleep(0)
    log.append("b", said("elsewhere"))
    every = [one.message for one in numbered(0, number, 200)]
    assert await readers[0].has(number - 90) == every[90:]
    assert await readers[1].has(number - 100) == every[100:]
    assert await readers[2].has(1) == ["elsewhere"]
    for reader in readers:
        await reader.stop()
    assert log._followers == {}


async def test_a_follower_goes_on_after_the_line_that_it_had_last(log: Segments):
    log.append("a", numbered(0, 500, 50))
    found = log.tail("a", 500)
    for number in (0, 250, 499):
        reader = Reader(log.follow("a", 3, after=json.loads(found[number])["id"]))
        log.append("a", said("more"))
        assert (await reader.has(499 - number + 1))[-1] == "more"
        assert reader.lines[: 499 - number] == [one.message for one in numbered(number + 1, 500, 50)]
        await reader.stop()


@pytest.mark.parametrize("id", ["nonsense", "00000000-0000-8000-8000-000000000000", ""])
async def test_a_follower_is_told_when_what_it_had_last_is_not_there(log: Segments, id: str):
    log.append("a", numbered(0, 5))
    reader = Reader(log.follow("a", 2, after=id))
    assert await reader.has(3) == ["GONE", "line 3", "line 4"]
    await reader.stop()


async def test_a_follower_that_is_too_slow_is_told_what_it_missed(root: Path):
    log = Segments(root, SMALL)
    log.append("a", numbered(0, 10))
    follower = log.follow("a", 10)
    assert len(await anext(follower)) == 10  # type: ignore[arg-type]
    log.append("a", numbered(10, 3000))
    assert isinstance(await anext(follower), Gone)
    rest: list[str] = []
    while len(rest) == 0 or rest[-1] != "line 2999":
        rest += messages(await anext(follower))  # type: ignore[arg-type]
    assert rest == whole(log)
    await follower.aclose()


async def test_a_follower_of_a_stream_that_is_forgotten_comes_to_its_end(log: Segments):
    log.append("a", said("last words"))
    readers = [Reader(log.follow("a", 1)), Reader(log.follow("a/build-1", 1))]
    await readers[0].has(1)
    log.forget("a")
    async with asyncio.timeout(20):
        for reader in readers:
            await reader.task
    assert readers[0].lines == ["last words"]


async def test_a_follower_sees_what_another_process_writes(root: Path):
    log, other = Segments(root, PLENTY, size=4096), Segments(root, PLENTY, size=4096)
    reader = Reader(log.follow("a", 1))
    await asyncio.sleep(0)
    other.append("a", numbered(0, 100, 100))
    assert await reader.has(100) == [one.message for one in numbered(0, 100, 100)]
    await reader.stop()


async def test_a_follower_can_be_choosy(log: Segments):
    log.append("a", numbered(0, 300, 100))
    reader = Reader(log.follow("a", 2, line_filter(contains="7.", since=NOON + 100)))
    assert [line.strip(".") for line in await reader.has(2)] == ["line 287", "line 297"]
    log.append("a", numbered(300, 320, 100))
    assert [line.strip(".") for line in await reader.has(4)][2:] == ["line 307", "line 317"]
    await reader.stop()
