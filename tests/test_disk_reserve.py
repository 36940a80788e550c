"""The room of the disk, what an instance holds of it, and which instance is ended when it is short."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.needs import needs_root
from windlass.base import disk_reserve
from windlass.base.disk_reserve import Amount, DiskShare, DiskWatch, Room
from windlass.engines.process import files

MIB = 1 << 20


def room(free: int = 100 * MIB, lost: int = 0, unit: str = "bytes") -> Room:
    return Room(unit, free, whole=10_000 * MIB, reserve=500 * MIB, lost=lost)


def use(own: int = 0, changed: int = 0, *, files: int = 0, is_hidden: bool = False) -> DiskShare:
    return DiskShare(Amount(own, files, is_hidden), Amount(changed))


@pytest.mark.parametrize(
    ("seen", "uses", "ended"),
    [
        (room(), {"small": use(20 * MIB), "large": use(90 * MIB)}, "large"),
        (room(), {"small": use(15 * MIB)}, None),
        (room(free=10_000 * MIB), {"large": use(600 * MIB)}, None),
        (room(), {"database": use(0, 9_000 * MIB), "small": use(20 * MIB)}, "small"),
        (room(lost=90 * MIB), {"database": use(0, 9_000 * MIB), "small": use(20 * MIB)}, "database"),
        (room(lost=90 * MIB), {"database": use(0, 9_000 * MIB), "filler": use(90 * MIB)}, "filler"),
        (room(), {"large": use(90 * MIB), "hides": use(is_hidden=True)}, "hides"),
        (room(100, unit="files"), {"large": use(90 * MIB), "many": use(files=2000)}, "many"),
        (room(), {}, None),
    ],
    ids=[
        "the heaviest",
        "none whose files would not help",
        "none while much more is free than it holds",
        "a database that has always been large counts nothing",
        "a volume counts for what the disk lost meanwhile",
        "own folders count more than a volume",
        "an instance that hides files counts as the heaviest",
        "files count where files are short",
        "none if there is none",
    ],
)
def test_the_instance_that_holds_most_is_ended_if_that_helps(seen, uses, ended):
    assert disk_reserve.heaviest(seen, uses) == ended


def test_files_are_measured_wherever_a_program_puts_them(tmp_path: Path):
    deep = tmp_path / "home" / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "zeros").write_bytes(bytes(MIB))
    assert MIB <= disk_reserve.measure([tmp_path]).bytes < 2 * MIB
    assert disk_reserve.measure([tmp_path]).files == 4
    assert disk_reserve.measure([tmp_path], since=time.time() + 9) == Amount()
    assert disk_reserve.measure([tmp_path / "none"]) == Amount()


def test_an_open_file_without_a_name_is_measured(tmp_path: Path):
    """In a process of its own: this one may have other such files."""
    with (tmp_path / "zeros").open("wb") as file:
        file.write(bytes(MIB))
        file.flush()
        holder = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=file)
    with holder:
        assert disk_reserve.unlinked([holder.pid], tmp_path) == Amount()
        (tmp_path / "zeros").unlink()
        assert disk_reserve.unlinked([holder.pid], tmp_path) == Amount(MIB, 1)


MAPS = """
import mmap, os, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.write(file, bytes(1 << 20))
held = mmap.mmap(file, 1 << 20) if sys.argv[2] == "maps" else None
os.unlink(sys.argv[1])
os.close(file) if held is None else os.closerange(3, 64)
print("done", flush=True)
sys.stdin.read()
"""


@needs_root
@pytest.mark.parametrize(("how", "held"), [("maps", Amount(MIB, 1)), ("closes", Amount())])
def test_a_file_without_a_name_that_is_only_in_memory_is_measured(tmp_path: Path, how: str, held: Amount):
    command = [sys.executable, "-c", MAPS, str(tmp_path / "zeros"), how]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"done\n"
        assert disk_reserve.unlinked([holder.pid], tmp_path) == held


def test_a_folder_too_deep_to_be_measured_is_hidden(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(25):
        os.mkdir("d" * 200)  # noqa: PTH102 (longer than a path may be)
        os.chdir("d" * 200)
    assert disk_reserve.measure([tmp_path]).is_hidden


def test_a_reserve_is_a_twentieth_of_a_small_disk_in_bytes_and_in_files(tmp_path: Path):
    for seen in disk_reserve.rooms(tmp_path, 1 << 50):
        assert seen.reserve == pytest.approx(seen.whole / 20, abs=1)
    assert not any(seen.reserve for seen in disk_reserve.rooms(tmp_path, 0))


def test_measures_that_end_nothing_are_rare_until_more_is_written(tmp_path: Path):
    watch = DiskWatch(tmp_path, 0)
    assert watch.is_due(room())
    watch.postpone(room(), took=60)
    assert not watch.is_due(room())
    assert watch.is_due(room(free=90 * MIB))


def test_all_that_a_start_makes_again_is_discarded_and_no_link_is_followed(tmp_path: Path):
    home, cache, other = tmp_path / "home", tmp_path / "cache", tmp_path / "other"
    for folder in (home / "app", home / "tmp", home / "files", cache / "go", other):
        folder.mkdir(parents=True)
    (other / "kept").touch()
    (home / "record.json").touch()
    (cache / ".npm").symlink_to(other)
    files.discard(home, cache)
    assert sorted(path.name for path in tmp_path.rglob("*")) == [
        "cache",
        "home",
        "kept",
        "other",
        "record.json",
    ]


def test_a_run_that_fills_the_folder_of_its_recorder_keeps_no_more_than_that_it_began(tmp_path: Path):
    once, other = tmp_path / "home" / "once", tmp_path / "other"
    (once / "deep").mkdir(parents=True)
    other.touch()
    for name in ("began", "ended", "zeros", "deep/zeros"):
        (once / name).write_bytes(bytes(MIB))
    (once / "link").symlink_to(other)
    files.discard(tmp_path / "home", tmp_path / "cache")
    assert [(path.name, path.stat().st_size) for path in once.iterdir()] == [("began", 0)]
    assert other.exists()


def test_a_recorded_end_stays(tmp_path: Path):
    once = tmp_path / "home" / "once"
    once.mkdir(parents=True)
    (once / "ended").write_text("0 1 2")
    files.discard(tmp_path / "home", tmp_path / "cache")
    assert [path.read_text() for path in once.iterdir()] == ["0 1 2"]
