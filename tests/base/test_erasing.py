"""A folder is erased whatever a program has made in it."""

import os
import shutil

import pytest

from windlass.base.folder_removal import _open_folder, erase

DEEP = 3000
"""More levels than a process may have files open, than Python may recurse, and than a path may name."""


def deepened(folder, levels=DEEP):
    at = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(os.open("file", os.O_CREAT, dir_fd=at))
    os.close(at)


def test_a_folder_of_any_depth_is_erased(tmp_path):
    (tmp_path / "it").mkdir()
    deepened(tmp_path / "it")
    erase(tmp_path / "it")
    assert list(tmp_path.iterdir()) == []


def test_a_recursive_library_fails_to_erase_a_deep_folder(tmp_path):
    """Otherwise the test above would show nothing."""
    (tmp_path / "it").mkdir()
    deepened(tmp_path / "it")
    with pytest.raises((RecursionError, OSError)):
        shutil.rmtree(tmp_path / "it")
    erase(tmp_path / "it")


def test_links_are_erased_and_what_they_lead_to_stays(tmp_path):
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "kept").write_text("x")
    (tmp_path / "it" / "in").mkdir(parents=True)
    (tmp_path / "it" / "in" / "folder").symlink_to(tmp_path / "else")
    (tmp_path / "it" / "file").symlink_to(tmp_path / "else" / "kept")
    (tmp_path / "link").symlink_to(tmp_path / "else")
    erase(tmp_path / "it")
    erase(tmp_path / "link")
    erase(tmp_path / "absent")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["else", "kept"]


def test_folders_without_write_permission_are_erased(tmp_path):
    """As a user who is stopped by closed folders, which root is not."""
    made = tmp_path / "it" / "a" / "b"
    made.mkdir(parents=True)
    (made / "file").write_text("x")
    for folder in (made, made.parent, tmp_path / "it"):
        folder.chmod(0o500)
    erase(tmp_path / "it")
    assert list(tmp_path.iterdir()) == []


def test_a_link_that_took_the_place_of_a_folder_changes_nothing_elsewhere(tmp_path):
    (tmp_path / "else").mkdir(mode=0o755)
    (tmp_path / "it").symlink_to(tmp_path / "else")
    with pytest.raises(OSError, match="Not a directory"):
        _open_folder(tmp_path / "it")
    assert (tmp_path / "else").stat().st_mode & 0o777 == 0o755
