"""CI keeps what an earlier run has made of the same locks, and nothing else."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

KEEP = Path(__file__).parents[1] / ".ci/keep"


class Clone:
    """A clone with a lock, on a machine that keeps a folder."""

    def __init__(self, folder: Path, kept: Path, lock: str) -> None:
        self.folder, self._kept = folder, kept
        folder.mkdir()
        (folder / "lock").write_text(lock)

    def keep(self, deed: str, name: str) -> None:
        command = ["bash", str(KEEP), deed, name, "lock"]
        environment = {**os.environ, "WINDLASS_TOOLS": str(self._kept)}
        subprocess.run(command, cwd=self.folder, env=environment, check=True)

    def make_environment(self) -> None:
        packages = self.folder / ".venv/lib/python3.11/site-packages"
        (packages / "windlass.dist-info").mkdir(parents=True)
        (packages / "windlass.pth").write_text(f"{self.folder}/packages\n")
        (packages / "windlass.dist-info/direct_url.json").write_text(f"file://{self.folder}/packages")
        (self.folder / ".venv/bin").mkdir()
        for name, text in {"pyvenv.cfg": "", "bin/pytest": f"#!{self.folder}/.venv/bin/python\n"}.items():
            (self.folder / ".venv" / name).write_text(text)
        for stamp in (".setup", ".dev"):
            (self.folder / ".venv" / stamp).touch()


@pytest.fixture
def first(tmp_path: Path) -> Clone:
    made = Clone(tmp_path / "first", tmp_path / "kept", "one")
    made.make_environment()
    made.keep("leave", ".venv")
    return made


def test_an_environment_of_the_same_locks_is_that_of_the_new_clone(first: Clone, tmp_path: Path) -> None:
    second = Clone(tmp_path / "second", tmp_path / "kept", "one")
    second.keep("take", ".venv")
    for file in ("bin/pytest", "lib/python3.11/site-packages/windlass.pth"):
        text = (second.folder / ".venv" / file).read_text()
        assert str(second.folder) in text
        assert str(first.folder) not in text
    stamp, lock = second.folder / ".venv/.dev", second.folder / "lock"
    assert stamp.stat().st_mtime_ns >= lock.stat().st_mtime_ns, "make would install all of it again"


def test_an_environment_of_other_locks_is_not_taken(first: Clone, tmp_path: Path) -> None:
    second = Clone(tmp_path / "second", tmp_path / "kept", "two")
    second.keep("take", ".venv")
    assert not (second.folder / ".venv").exists()


def test_a_folder_that_is_there_is_not_replaced(first: Clone, tmp_path: Path) -> None:
    second = Clone(tmp_path / "second", tmp_path / "kept", "one")
    (second.folder / ".venv").mkdir()
    second.keep("take", ".venv")
    assert not [*(second.folder / ".venv").iterdir()]
