"""Files that a person writes are never read at any length: a repository may hold one of a gigabyte."""

import os
import stat

import pytest

from windlass.builders.builder import BuildError
from windlass.builders.node_packages import package
from windlass.builders.small_files import MAX_FILE_BYTES, read_small
from windlass.process.builds.node_engines import OtherNode, check_packages
from windlass.process.builds.pyproject import read_pyproject
from windlass.process.builds.requirements import requirements_in
from windlass.process.builds.start import by_procfile
from windlass.process.builds.tree import digest

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
