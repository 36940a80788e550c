"""`windlass doctor` on a disk that is nearly full: of bytes, or of files."""

from __future__ import annotations

import errno
import os
from types import SimpleNamespace

import pytest

from windlass.config import Settings
from windlass.operate.disk import disk
from windlass.operate.doctor import _folder
from windlass.operate.first_steps import way_to_write

GIB = 1 << 30
MANY = 1_000_000


def refuses(fault):
    """Returns a system call that fails so."""

    def call(*_args, **_options):
        raise OSError(fault, os.strerror(fault))

    return call


@pytest.fixture
def look(tmp_path, monkeypatch):
    """Finds out about a disk with so many free bytes and files. `of` is 0 where none are counted."""
    builds = tmp_path / "builds"
    (builds / "cache" / "small").mkdir(parents=True)
    (builds / "one").mkdir()
    (builds / "one" / "large").write_bytes(os.urandom(3 << 20))
    os.link(builds / "one" / "large", builds / "one" / "the same file")
    for number in range(20):
        (builds / "cache" / "small" / str(number)).touch()

    def found(free, files=MANY, of=MANY, reserve=0, whole=100 * GIB, uploads=0):
        facts = SimpleNamespace(
            f_bavail=free // 4096, f_frsize=4096, f_blocks=whole // 4096, f_favail=files, f_files=of
        )
        monkeypatch.setattr(os, "statvfs", lambda path: facts)
        return disk(tmp_path, tmp_path, reserve, uploads)

    return found


@pytest.mark.parametrize(
    ("free", "files", "of", "level"),
    [
        (5 * GIB, MANY, MANY, "ok"),
        (GIB, MANY, MANY, "warn"),
        (0, MANY, MANY, "fail"),
        (5 * GIB, 50_000, MANY, "warn"),
        (5 * GIB, 0, MANY, "fail"),
        (5 * GIB, 0, 0, "ok"),
    ],
)
def test_free_bytes_and_free_inodes_determine_the_level_of_the_disk_check(look, free, files, of, level):
    assert look(free, files, of).level == level


def test_a_full_disk_is_reported_with_its_largest_folders_and_what_can_be_deleted(look):
    told = look(0)
    assert told.found.startswith("0.0 GiB free; most is in builds (3 MiB)")
    assert told.advice.startswith("free disk space: ")
    assert "builds/cache, git and work can be deleted" in told.advice


def test_a_disk_without_free_inodes_is_reported_with_the_folders_that_have_most_files(look):
    assert "most is in builds/cache (22 files)" in look(GIB, 0).found
    told = look(5 * GIB, 0)
    assert told.found.startswith(
        "5.0 GiB free, and 0 more files; most is in builds/cache (22 files), builds (3 files)"
    )


@pytest.mark.parametrize(("whole", "is_small"), [(2 * GIB, True), (100 * GIB, False)])
def test_an_empty_small_disk_has_no_advice_to_delete_anything(look, whole, is_small):
    told = look(GIB, whole=whole)
    assert ("; the whole disk has 2.0 GiB" in told.found) is is_small
    assert ("move the data directory to a larger one" in told.advice) is is_small
    assert ("can be deleted" in told.advice) is not is_small


@pytest.mark.parametrize("uploads", [4 * GIB, GIB])
def test_a_disk_that_has_no_room_for_uploads_is_reported(look, uploads):
    told = look(3 * GIB, uploads=uploads)
    is_refused = uploads > 3 * GIB
    assert told.level == ("warn" if is_refused else "ok")
    assert ("uploads are refused" in told.found) is is_refused


@pytest.mark.parametrize(
    ("fault", "way"), [(errno.EROFS, "read-only"), (errno.EPERM, "change its permissions")]
)
def test_an_unwritable_folder_on_a_read_only_disk_is_not_reported_as_a_permission_problem(
    monkeypatch, tmp_path, fault, way
):
    monkeypatch.setattr(os, "utime", refuses(fault))
    assert way in way_to_write(tmp_path)


@pytest.mark.parametrize(("fault", "level"), [(errno.EROFS, "fail"), (0, "ok")])
def test_doctor_says_that_the_disk_of_the_data_directory_is_read_only(monkeypatch, tmp_path, fault, level):
    """Such as one that the kernel made read-only after an error, whose folders look writable."""
    if fault:
        monkeypatch.setattr(os, "utime", refuses(fault))
    folder = next(iter(_folder(Settings(data_dir=str(tmp_path)))))
    assert (folder.level, "mount its disk writable" in folder.advice) == (level, bool(fault))


def test_doctor_does_not_measure_folders_on_a_disk_with_enough_space(look):
    assert look(5 * GIB).found == "5.0 GiB free"


def test_a_disk_short_of_its_reserve_is_reported_with_the_setting(look):
    assert look(4 * GIB, reserve=4 * GIB).level == "ok"
    told = look(3 * GIB, reserve=4 * GIB)
    assert told.level == "warn"
    assert told.advice.startswith("free disk space: less than the reserve (disk_reserve_bytes) is free")
    assert look(3 * GIB, reserve=0).level == "ok"
