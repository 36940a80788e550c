"""A log answers its lines as a list would: the last ones, found ones, of a time."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.marks import either
from tests.sdk.segments.lines import NOON, PLENTY, messages, names, newest, numbered, said, whole
from windlass.base import ids
from windlass.base.clock import stamp
from windlass.base.segments import ALL_LINES, Segments, files, instant, line_filter
from windlass.engines.workload import OutputLine

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
        self.log.expire("a", cutoff=0, renewed=NOON * 2)

    @rule()
    def follow(self) -> None:
        while True:
            step = files.read_on(str(self.root / "a"), self.place)
            assert not step.gone
            self.place = step.place
            if not step.chunk:
                break
            self.followed += messages(ALL_LINES.of(step.chunk))
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
            following = messages(ALL_LINES.of(step.chunk))
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


TestListOfLines = ListOfLines.TestCase


TestListOfLines.settings = settings(
    max_examples=either(20, 400),
    stateful_step_count=20,
    suppress_health_check=[HealthCheck.too_slow],
)


def test_a_stored_log_line_has_id_time_message_instance_and_version(log: Segments):
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


def test_a_missing_stream_has_no_lines(log: Segments):
    assert log.tail("nowhere", 10) == []
    assert log.size("nowhere") == 0


@pytest.mark.parametrize("name", ["", "..", "a/../b", "/a", "a//b", ".hidden", "a b", "a/", "x" * 300])
def test_an_invalid_log_stream_name_is_refused(log: Segments, name: str):
    with pytest.raises(ValueError, match="name of a stream"):
        log.append(name, said("x"))


def test_a_timestamp_is_parsed_as_it_was_printed():
    for at in (0, 1, 951_782_400_000, NOON + 7, 4_107_542_399_999, 253_402_300_799_999):
        assert instant(stamp(at)) == at
    assert instant("2026-02-31T00:00:00Z") == instant("2026-03-03T00:00:00.000Z")
    assert instant("2026-01-31T09:05:00.7Z") == instant("2026-01-31T09:05:00.700Z")


# Searching


@pytest.mark.parametrize("text", ["n", "\\", '"', "\n", "\\n", "created_at", "é", "u0000", "a\nb", "b"])
def test_a_log_search_matches_the_message_and_not_its_json_encoding(log: Segments, text: str):
    lines = ["a\nb", "a\\nb", 'say "hi"', "café", "zero\x00", "plain", "created_at", "u0000"]
    log.append("a", [OutputLine(NOON, line, "pod\nn", "é") for line in lines])
    assert whole(log, "a", line_filter(contains=text)) == [line for line in lines if text in line]


def test_log_segments_outside_the_requested_time_are_not_read(log: Segments, root: Path):
    log.append("a", numbered(0, 500, 100))
    assert len(names(root)) > 6
    for name in names(root)[2:-1]:
        (root / "a" / name).write_bytes(b"this would be no line at all\n")
    assert whole(log, "a", line_filter(until=NOON + 5)) == [one.message for one in numbered(0, 5, 100)]


def test_lines_of_a_version_are_found_among_many_others_and_not_confused_with_message_text(log: Segments):
    log.append("a", [OutputLine(NOON, "mine", "pod", "v2")])
    log.append("a", [OutputLine(NOON, f'{number} "version":"v2"}}', "pod", "v1") for number in range(500)])
    assert whole(log, "a", line_filter(version="v2")) == ["mine"]
    assert len(whole(log, "a", line_filter(version="v1", contains="7"))) == sum(
        "7" in str(n) for n in range(500)
    )
