"""A folder that came from a stranger, with its .git, runs nothing when the command line looks at it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from windlass.cli.git_folder import git_folder


def git(folder: Path, *words: str) -> None:
    author = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *author, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def folder(tmp_path):
    top = tmp_path / "shop"
    top.mkdir()
    git(top, "init", "-q")
    (top / "app.py").write_text("print()\n")
    git(top, "add", ".")
    git(top, "commit", "-qm", "first")
    return top


SETTINGS = {
    "core.fsmonitor": "touch {canary}; false",
    "filter.x.clean": "touch {canary}; cat",
    "filter.x.process": "touch {canary}; false",
    "filter.a=b.clean": "touch {canary}; cat",
}


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("place", ["config", "included"])
def test_reading_a_git_folder_runs_no_program_of_its_git_config(folder, tmp_path, name, place):
    canary = tmp_path / "canary"
    file = folder / ".git" / place
    git(folder, "config", "--file", str(file), name, SETTINGS[name].format(canary=canary))
    if place == "included":
        git(folder, "config", "include.path", "included")
    driver = name.removeprefix("filter.").rpartition(".")[0]
    (folder / ".git/info/attributes").write_text(f"* filter={driver}\n")
    (folder / "app.py").touch()
    found = git_folder(folder)
    assert found is not None
    assert found.commit
    assert not canary.exists()
    subprocess.run(["git", "status"], cwd=folder, capture_output=True, check=False)  # the control
    assert canary.exists() or name == "filter.a=b.clean"


def test_an_unchanged_git_folder_has_no_changes(folder):
    found = git_folder(folder)
    assert found is not None
    assert not found.has_changes
    (folder / "app.py").write_text("print(1)\n")
    changed = git_folder(folder)
    assert changed is not None
    assert changed.has_changes
