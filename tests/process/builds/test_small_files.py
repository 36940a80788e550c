"""Files that a person writes are never read at any length: a repository may hold one of a gigabyte."""

import os
import stat
from contextlib import nullcontext

import pytest

from windlass.builders.builder import BuildError
from windlass.builders.node_packages import package
from windlass.builders.small_files import MAX_FILE_BYTES, read_small
from windlass.process.builds import tree
from windlass.process.builds.artifacts import ArtifactStore, is_complete, mark_complete
from windlass.process.builds.node_engines import OtherNode, check_packages
from windlass.process.builds.pyproject import read_pyproject
from windlass.process.builds.requirements import MAX_FILES, requirements_in
from windlass.process.builds.start import by_procfile
from windlass.process.builds.tree import digest
from windlass.process.tree_copy import copy_content

READERS = {
    "Procfile": by_procfile,
    "package.json": package,
    "pyproject.toml": read_pyproject,
    "requirements.txt": lambda top: list(requirements_in(top / "requirements.txt", top, lambda line: None)),
}


@pytest.mark.parametrize("name", READERS)
def test_an_oversized_manifest_file_is_refused(name, tmp_path):
    with (tmp_path / name).open("wb") as file:
        file.truncate(1 << 40)  # without a block on the disk; no machine here could read it whole
    with pytest.raises(BuildError, match=f"Shorten {name}: it is longer than 4 MiB"):
        READERS[name](tmp_path)


def test_a_file_of_the_longest_length_is_read(tmp_path):
    (tmp_path / "Procfile").write_bytes(b"#" * MAX_FILE_BYTES)
    assert len(read_small(tmp_path / "Procfile")) == MAX_FILE_BYTES


def test_a_fifo_in_place_of_a_manifest_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "package.json")
    with pytest.raises(BuildError, match=r"Make package\.json a file:"):
        read_small(tmp_path / "package.json")


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_a_folder_with_a_pipe_in_it_is_not_read(tmp_path, kind):
    (tmp_path / "a").write_text("1")
    assert digest(tmp_path) != digest(tmp_path / "a")  # the control: of files alone
    os.mknod(tmp_path / "b", 0o600 | (stat.S_IFIFO if kind == "pipe" else stat.S_IFSOCK))
    with pytest.raises(BuildError, match="Make b a file: it is something else"):
        digest(tmp_path)


def test_a_file_that_is_nested_too_deep_is_refused(tmp_path):
    (tmp_path / "package.json").write_text("[" * 100_000)
    with pytest.raises(BuildError, match=r"Fix package\.json, which cannot be read: it is nested too deep"):
        package(tmp_path)


def test_an_installed_package_that_cannot_be_read_asks_for_no_node(tmp_path):
    package_json = tmp_path / "node_modules/hostile/package.json"
    package_json.parent.mkdir(parents=True)
    for content in (b'{"else": ' + b"[" * 100_000, b'{"engines": {"node": "\xff"}}'):
        package_json.write_bytes(content)
        check_packages(tmp_path, ["hostile"], "22.1.0")
    package_json.write_text('{"engines": {"node": "18"}}')
    with pytest.raises(OtherNode):  # the control
        check_packages(tmp_path, ["hostile"], "22.1.0")


def test_requirements_files_that_include_each_other_very_often_are_refused(tmp_path):
    (tmp_path / "requirements.txt").write_text("-r more.txt\n" * MAX_FILES)
    (tmp_path / "more.txt").write_text("flask\n")
    with pytest.raises(BuildError, match=r"Shorten requirements\.txt: with all that it includes"):
        list(requirements_in(tmp_path / "requirements.txt", tmp_path, print))
    (tmp_path / "requirements.txt").write_text("-r more.txt\n" * 10)
    assert len([*requirements_in(tmp_path / "requirements.txt", tmp_path, print)]) == 10  # the control


def test_a_file_that_is_one_hole_is_copied_as_one(tmp_path):
    """A copy of zeros would fill the disk."""
    (tmp_path / "source").mkdir()
    with (tmp_path / "source/holes").open("wb") as file:
        file.write(b"begin")
        file.seek(64 << 20)
        file.write(b"end")
        file.truncate(1 << 30)
    tree.copy(tmp_path / "source", tmp_path / "built")
    (tmp_path / "copied").mkdir()
    copy_content(tmp_path / "source", tmp_path / "copied", None)
    for copy in (tmp_path / "built/holes", tmp_path / "copied/holes"):
        assert (copy.stat().st_size, copy.stat().st_blocks * 512 < 1 << 20) == (1 << 30, True)
        with copy.open("rb") as file:
            assert file.read(6) == b"begin\0"
            file.seek(64 << 20)
            assert file.read(4) == b"end\0"


def test_files_of_terabytes_have_no_digest(tmp_path):
    (tmp_path / "large").touch()
    assert digest(tmp_path)
    os.truncate(tmp_path / "large", 1 << 40)
    with pytest.raises(BuildError, match="Make large smaller"):
        digest(tmp_path)


def test_a_copy_that_would_use_up_the_reserve_of_the_disk_fails(tmp_path):
    (tmp_path / "source").mkdir()
    (tmp_path / "source/file").write_text("x")
    for number, least_free in enumerate([1, 1 << 60]):
        (tmp_path / str(number)).mkdir()
        outcome = nullcontext() if least_free == 1 else pytest.raises(OSError, match="No space left")
        with outcome:
            copy_content(tmp_path / "source", tmp_path / str(number), None, least_free)


def write_mark(folder, kind):
    mark = folder / "complete"
    if kind == "pipe":
        os.mkfifo(mark)
    elif kind == "endless file":
        mark.symlink_to("/dev/zero")
    elif kind == "link":
        (folder / "other").write_text(str(folder))
        mark.symlink_to("other")
    else:
        mark.write_text(str(folder))


@pytest.mark.parametrize("kind", ["pipe", "endless file", "link"])
def test_dependencies_whose_mark_a_step_has_made_into_something_else_are_not_kept(tmp_path, kind):
    store = ArtifactStore(tmp_path, "service")
    with store.depending("digest") as (folder, _):
        write_mark(folder, kind)
    assert not folder.exists()
    with store.depending("digest") as (folder, _):
        write_mark(folder, kind)
        mark_complete(folder)  # another step has succeeded
    assert is_complete(folder)


def test_a_link_in_place_of_the_mark_of_dependencies_is_not_followed(tmp_path):
    for kind, expected in (("file", True), ("link", False)):
        (tmp_path / kind).mkdir()
        write_mark(tmp_path / kind, kind)
        assert is_complete(tmp_path / kind) is expected
