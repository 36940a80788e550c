"""Output of processes becomes lines, each exactly once, even with several readers."""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import os
import signal
import socket

import pytest

from tests.engines import programs
from tests.engines.processes import ProcessRig
from tests.engines.rollouts import write
from tests.engines.stations import Station, until, wanted
from tests.process.helpers import SERVICE
from windlass.base import disk_reserve, kernel
from windlass.engines.unread_output import LEADING_HOLE
from windlass.process import output
from windlass.process.output import OutputFile, UnreadableOutput, prepare
from windlass.process.records import Record

MIB = 1 << 20


@pytest.mark.parametrize(
    ("written", "lines"),
    [
        (b"one\ntwo\n", ["one", "two"]),
        (b"\n\n", ["", ""]),
        (b"windows\r\nand not\n", ["windows", "and not"]),
        (b"caf\xe9 \xff\n", ["caf\ufffd \ufffd"]),
        (b"n\0ul\n", ["nul"]),
        (b"a" * 40_000 + b"\nb\n", ["a" * 16_384, "a" * 16_384, "a" * 7_232, "b"]),
        (b"x" + "€".encode() * 6_000 + b"\n", ["x" + "€" * 5_461, "€" * 539]),
        (b"without an end", ["without an end"]),
        (b"y" * 300_000, ["y" * 16_384] * 18 + ["y" * 5_088]),
    ],
)
def test_output_of_an_instance_is_split_into_lines(tmp_path, written, lines):
    with (tmp_path / "output").open("wb") as file:
        prepare(file.fileno())
        file.seek(0, os.SEEK_END)
        file.write(written)
    tail = OutputFile(
        tmp_path, SERVICE, Record(org="", service=SERVICE, pod="", deployment="", workdir="", memory=1)
    )
    found: list[str] = []
    while new := tail.lines(unfinished=True):
        tail.advance()
        found += new
    tail.close()
    assert found == lines
    again = OutputFile(
        tmp_path, SERVICE, Record(org="", service=SERVICE, pod="", deployment="", workdir="", memory=1)
    )
    assert again.lines(unfinished=True) == []
    again.close()


def test_an_output_file_that_is_followed_before_its_program_starts_is_not_taken_for_truncated(tmp_path):
    """All files that were truncated are read again and again."""
    tail = OutputFile(
        tmp_path, SERVICE, Record(org="", service=SERVICE, pod="", deployment="", workdir="", memory=1)
    )
    assert tail.lines(unfinished=True) == []
    with (tmp_path / "output").open("r+b") as file:
        prepare(file.fileno())
        file.seek(0, os.SEEK_END)
        file.write(b"here\n")
    assert tail.lines(unfinished=True) == ["here"]
    tail.advance()
    tail.close()
    position, in_hole = (tmp_path / "read").read_text().split()
    assert (int(position), int(in_hole)) == (LEADING_HOLE + len("here\n"), -1)


@pytest.mark.parametrize("at_once", [0, 1 << 30], ids=["in batches", "all at once"])
def test_endless_short_output_lines_are_handed_over_in_small_batches(tmp_path, monkeypatch, at_once):
    """The event loop handles them: all requests wait meanwhile."""
    if at_once:
        monkeypatch.setattr(output, "AT_ONCE", at_once)
    with (tmp_path / "output").open("wb") as file:
        prepare(file.fileno())
        file.seek(0, os.SEEK_END)
        file.write(b"".join(b"%d\n" % number for number in range(20_000)))
    record = Record(org="", service=SERVICE, pod="", deployment="", workdir="", memory=1)
    tail = OutputFile(tmp_path, SERVICE, record)
    handed_over = []
    while new := tail.lines(unfinished=False):
        tail.advance()
        handed_over.append(new)
    tail.close()
    assert [line for lines in handed_over for line in lines] == [f"{number}" for number in range(20_000)]
    most = max(map(len, handed_over))
    assert most > 10_000 if at_once else most <= 512


def test_output_of_another_instance_with_the_same_name_is_not_read_as_a_continuation(tmp_path):
    home = tmp_path / "home"
    record = Record(org="", service=SERVICE, pod="", deployment="", workdir="", memory=1)
    home.mkdir()
    tail = OutputFile(home, SERVICE, record)
    _write(home, b"one\n")
    assert tail.lines(unfinished=True) == ["one"]
    tail.advance()
    assert tail.current()
    home.rename(tmp_path / "aside")
    home.mkdir()
    _write(home, b"another's, and longer\n")
    assert not tail.current()
    with pytest.raises(UnreadableOutput):
        tail.lines(unfinished=True)
    tail.close()
    assert not (home / "read").exists()
    assert OutputFile(home, SERVICE, record).lines(unfinished=True) == ["another's, and longer"]


@pytest.fixture
def _ignored_lease_breaks():
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGIO, before)


@pytest.mark.usefixtures("_ignored_lease_breaks")
def test_output_with_a_file_lease_of_its_program_is_read_after_the_lease_ends(tmp_path):
    record = Record(org="", service=SERVICE, pod="", deployment="", workdir="", memory=1)
    tail = OutputFile(tmp_path, SERVICE, record)
    _write(tmp_path, b"one\n")
    leased = os.open(tmp_path / "output", os.O_RDWR)
    fcntl.fcntl(leased, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    with pytest.raises(UnreadableOutput):
        tail.lines(unfinished=True)
    assert tail.waiting()
    fcntl.fcntl(leased, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    os.close(leased)
    assert tail.lines(unfinished=True) == ["one"]
    tail.close()


def _reserve(home, start, length):
    """Takes room where the program writes nothing, and does not lengthen the file."""
    with (home / "output").open("ab") as file:
        words = ctypes.c_int(1), ctypes.c_int64(start), ctypes.c_int64(length)
        assert kernel.libc.fallocate(file.fileno(), *words) == 0
    return (home / "output").stat().st_blocks * 512


def test_room_that_a_program_reserves_in_its_output_counts_and_is_freed(tmp_path):
    tail = OutputFile(
        tmp_path, SERVICE, Record(org="", service=SERVICE, pod="", deployment="", workdir="", memory=1)
    )
    _write(tmp_path, b"line\n" * 300_000)
    while tail.lines(unfinished=True):
        tail.advance()
    assert tail.can_free()
    assert tail.freeing()()
    assert _reserve(tmp_path, LEADING_HOLE, MIB) >= MIB, "in the part that was read and freed before"
    assert disk_reserve.measure([tmp_path / "output"]).bytes >= MIB
    _write(tmp_path, b"line\n" * 300_000)
    while tail.lines(unfinished=True):
        tail.advance()
    assert tail.freeing()()
    assert (tmp_path / "output").stat().st_blocks * 512 < MIB, "each time, all that was read is freed"
    size = (tmp_path / "output").stat().st_size
    assert _reserve(tmp_path, 0, MIB) + _reserve(tmp_path, size + MIB, MIB) >= 2 * MIB
    tail.free_reserved()
    assert (tmp_path / "output").stat().st_blocks * 512 < MIB
    assert (tmp_path / "output").stat().st_size == size
    tail.close()


def _write(home, words):
    with (home / "output").open("ab") as file:
        prepare(file.fileno())
        file.write(words)


@pytest.mark.slow
async def test_output_of_a_program_takes_no_space_once_read(rig, station):
    it = wanted(rig.made(programs.WRITES), variables={"LINES": "600000"})
    await station.apply(it)
    await station.hears("done, without an end")
    about = (rig.folder / "services" / SERVICE / "1-0" / "output").stat()
    assert about.st_size > 6_000_000
    assert about.st_blocks * 512 < 2_500_000


async def test_a_long_backlog_loses_its_oldest_lines_and_reports_it(tmp_path):
    rig = ProcessRig(tmp_path, networks=False, backlog=100_000)
    with socket.create_server(("127.0.0.1", 0)) as begins:
        port = str(begins.getsockname()[1])
        it = wanted(rig.made(programs.WRITES), variables={"LINES": "100000", "BEGINS": port})
        async with Station(rig) as before:
            await before.apply(it)
        program, _ = await asyncio.to_thread(begins.accept)
        program.close()  # It begins only now that its output is not read.
    output = rig.folder / "services" / SERVICE / "1-0" / "output"
    await until(lambda: _ends_with(output, b"without an end"))
    async with Station(rig) as after:
        await after.hears("done, without an end")
        heard = [line for line in after.said if line.startswith("[windlass] ")]
        assert len(heard) == 1
        assert "bytes of output are lost" in heard[0]
        numbers = [int(line.split()[1]) for line in after.said if line.startswith("line ")]
        assert numbers == list(range(numbers[0], 100_000))
        await after.engine.sweep(await after.engine.services())


async def _ends_with(path, words):
    return path.read_bytes().endswith(words)


@pytest.mark.slow
async def test_output_lines_that_could_not_be_stored_are_handed_over_again(rig):
    it = wanted(rig.made(programs.WRITES), variables={"LINES": "100"})
    refusals = [OSError("the disk is full")] * 2
    lines: list[str] = []

    def sink(service, said):
        if refusals:
            raise refusals.pop()
        lines.extend(line.message for line in said)

    engine = rig.opener()()
    await engine.start(lambda service: None, sink)
    await engine.apply(it, 1)
    await until(lambda: _has(lines, "done, without an end"))
    assert lines == [*(f"line {number}" for number in range(100)), "done, without an end"]
    await engine.sweep(await engine.services())
    await engine.stop()


async def _has(lines, line):
    return line in lines


async def test_a_second_replica_continues_the_output_when_the_first_stops(rig):
    it = wanted(rig.made(programs.WRITES_ALWAYS))
    async with Station(rig) as second, Station(rig) as first:
        await second.apply(it)
        await second.hears("line 20")
        assert first.said == []
        await second.engine.stop()
        await first.hears(f"line {len(second.said) + 20}")
        both = second.said + first.said
        assert both == [f"line {number}" for number in range(len(both))]
        await first.engine.sweep(await first.engine.services())


TRUNCATES = """
import os, time
for number in range(5):
    os.system(f"echo {number} > /dev/stderr")
    while not os.path.exists(f"heard-{number}"):
        time.sleep(0.01)
time.sleep(1000)
"""


async def test_output_is_read_completely_although_its_program_truncates_the_file(rig, station):
    it = wanted(rig.made(TRUNCATES))
    made = await station.apply(it)
    for number in range(5):
        await station.hears(str(number))
        await write(station, it, made, f"heard-{number}")
    assert station.said == ["0", "1", "2", "3", "4"]
