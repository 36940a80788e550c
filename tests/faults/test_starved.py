"""The disk is full while something is built: it fails, says why, and everything else goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.grounds import end_all
from tests.faults.house import ROOT

pytestmark = pytest.mark.slow

APART = ["unshare", "--map-root-user", "--mount"]


def test_a_build_that_finds_the_disk_full_fails_leaves_nothing_and_the_next_one_succeeds(tmp_path: Path):
    if subprocess.run([*APART, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody mount a disk of his own to fill it up")
    try:
        program = [*APART, sys.executable, "-m", "tests.faults.starved", str(tmp_path)]
        done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    finally:
        end_all(tmp_path / "data")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["before"] == "SUCCEEDED"
    full = "Ask the operator to free disk space: the disk of the machine that runs Windlass is full. v1 "
    for step in ("fetched", "built"):
        status, message, *left = told[step]
        assert (status, message[: len(full)], left) == ("FAILED", full, [[[1, 0]], []])
    assert told["checked out"] == ["FAILED", told["checked out"][1], [[1, 0]], []]
    assert told["after"] == ["SUCCEEDED", "", [[5, 0]]]
