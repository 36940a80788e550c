"""What services may read, by the path on which their programs are looked up."""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from windlass.base.isolation.isolation import programs

NOBODY = 65_534


def look_as_an_ordinary_user(path: str, answer: Any) -> None:
    if not os.geteuid():
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    refused = []
    for folder in path.split(os.pathsep):
        try:
            Path(folder).stat()
        except PermissionError:
            refused.append(folder)
    answer.send((refused, list(programs(path, sys.executable))))


@pytest.fixture
def passable():
    """A folder that every user gets to."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_folders_of_the_path_that_may_not_be_entered_are_left_out(passable):
    closed, readable = passable / "closed", passable / "open" / "bin"
    for folder in (closed / "bin", closed / "lib", readable):
        folder.mkdir(parents=True)
    closed.chmod(0)
    processes = multiprocessing.get_context("forkserver")
    ours, theirs = processes.Pipe()
    asked = processes.Process(target=look_as_an_ordinary_user, args=(f"{closed / 'bin'}:{readable}", theirs))
    asked.start()
    theirs.close()
    refused, named = ours.recv()
    asked.join()
    closed.chmod(0o700)
    assert refused == [str(closed / "bin")]  # the other side of it: whoever looks there is refused
    assert str(readable) in named
    assert not [folder for folder in named if folder.startswith(str(closed))]
