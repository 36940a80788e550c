"""Output is bounded while no server reads it, and a server that comes back says how much was lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.engines.processes import ProcessRig
from tests.engines.stations import Station, until, wanted
from tests.process.helpers import SERVICE
from windlass.base import filelock
from windlass.engines import unread_output
from windlass.engines.unread_output import READER_LOCK, bound
from windlass.process.output import OutputFile, prepare
from windlass.process.records import Record

MIB = 1 << 20
BACKLOG = 4 * MIB
FLOODS = """
import time
words = b"x" * 63 + b"\\n"
for _ in range(300):  # no more, if nothing bounds it
    print((words * 16384).decode(), end="", flush=True)
    time.sleep(0.02)
time.sleep(100)
"""
RECORD = Record(org="", service=SERVICE, pod="", deployment="", workdir="", memory=1)


@pytest.mark.slow
async def test_without_a_server_output_is_bounded_until_the_next_server_reads_it(tmp_path: Path):
    rig = ProcessRig(tmp_path, networks=False, backlog=BACKLOG)
    async with Station(rig) as before:
        await before.apply(wanted(rig.made(FLOODS)))
    async with Station(rig):
        pass  # it starts nothing
    output = rig.folder / "services" / SERVICE / "1-0" / "output"

    async def written(size: int) -> bool:
        return output.stat().st_size > size

    size = output.stat().st_size
    await until(lambda: written(size + 60 * MIB))
    await until(lambda: bounded(output))
    async with Station(rig) as after:
        await until(lambda: says_so(after))
        lost = next(line for line in after.said if line.startswith("[windlass] "))
        assert int(lost.split()[1]) > 30 * MIB
        assert set(after.said) == {"x" * 63, lost}, "no line was cut in two or read from a hole"
        await after.engine.sweep(await after.engine.services())
    await until(lambda: ended(rig.folder))


async def bounded(output: Path) -> bool:
    return output.stat().st_blocks * 512 < 30 * MIB


async def says_so(station: Station) -> bool:
    return any(line.startswith("[windlass] ") for line in station.said)


async def ended(folder: Path) -> bool:
    """Nothing holds the lock of a process that bounds output."""
    services = os.open(folder / "services", os.O_RDONLY)
    try:
        return filelock.try_lock(services)
    finally:
        os.close(services)


def write(home: Path, words: bytes) -> Path:
    with (home / "output").open("ab") as file:
        prepare(file.fileno())
        file.write(words)
    return home / "output"


@pytest.mark.parametrize("read", [0, 10, 1_000], ids=["no line", "some lines", "most lines"])
def test_bounding_unread_output_erases_no_line_that_a_server_would_still_read(tmp_path: Path, read: int):
    file = OutputFile(tmp_path, SERVICE, RECORD, BACKLOG)
    line = b"y" * 4095 + b"\n"
    write(tmp_path, line * read)
    while file.lines(unfinished=False):
        file.advance()
    file.close()
    output = write(tmp_path, line * 1023)
    bound(output, BACKLOG)
    assert output.read_bytes().endswith(line * 1023)
    write(tmp_path, line * 1024)
    bound(output, BACKLOG)
    assert output.stat().st_blocks * 512 <= BACKLOG
    again = OutputFile(tmp_path, SERVICE, RECORD, BACKLOG)
    first, *lines = again.lines(unfinished=False)
    assert first.endswith("bytes of output are lost: more was written than could be read")
    assert set(lines) == {"y" * 4095}
    again.close()


def test_while_a_server_reads_output_the_bounding_process_erases_nothing(tmp_path: Path, monkeypatch):
    (tmp_path / "services" / SERVICE / "1-0").mkdir(parents=True)
    output = write(tmp_path / "services" / SERVICE / "1-0", bytes(3 * BACKLOG))
    before = output.stat().st_blocks
    monkeypatch.setattr(unread_output, "CHECK_INTERVAL", 0)
    monkeypatch.setattr(unread_output, "_is_running", lambda home: True)
    lock = filelock.try_hold(tmp_path / READER_LOCK)
    assert lock is not None
    unread_output.main(str(tmp_path), str(BACKLOG))
    assert output.stat().st_blocks == before
    os.close(lock)


def test_the_output_bounding_process_ends_when_nothing_runs_or_its_folder_is_gone(
    tmp_path: Path, monkeypatch
):
    monkeypatch.setattr(unread_output, "CHECK_INTERVAL", 0)
    (tmp_path / "services").mkdir()
    unread_output.main(str(tmp_path), str(BACKLOG))
    (tmp_path / READER_LOCK).touch()
    unread_output.main(str(tmp_path), str(BACKLOG))
    unread_output.main(str(tmp_path / "gone"), str(BACKLOG))
    assert sorted(path.name for path in tmp_path.iterdir()) == [READER_LOCK, "services"]


def test_a_symlink_in_place_of_an_output_file_is_not_followed(tmp_path: Path):
    other = tmp_path / "other"
    other.write_bytes(b"z" * 8 * BACKLOG)
    (tmp_path / "output").symlink_to(other)
    bound(tmp_path / "output", BACKLOG)
    assert other.read_bytes() == b"z" * 8 * BACKLOG
