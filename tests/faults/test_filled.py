"""An application that fills the disk is ended, and everybody else can write again."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.faults.filled import SIZE
from tests.faults.grounds import end_all
from tests.faults.house import ROOT

pytestmark = pytest.mark.slow

APART = ["unshare", "--map-root-user", "--mount"]


def test_an_application_that_fills_the_disk_is_ended_and_writes_continue(tmp_path: Path):
    seen = fill(tmp_path, 1 << 30)
    assert seen["deployed"] == ["SUCCEEDED", "SUCCEEDED"]
    assert re.match(r"wrote \d+ MiB, and the disk of the machine is full: store less", seen["reason"])
    assert seen["stop"] == 202
    assert seen["writes"] == [True] * 5
    assert seen["neighbour"] == [[1, 0]]


def test_on_a_full_disk_one_service_can_be_stopped_and_another_continues_to_run(tmp_path: Path):
    seen = fill(tmp_path, 0)
    assert seen["stop"] == 202
    assert seen["neighbour"] == [[1, 0]]


@pytest.mark.nightly
def test_an_application_that_fills_the_disk_from_its_output_is_ended_and_writes_go_on(tmp_path: Path):
    seen = fill(tmp_path, 1 << 30, "reserves")
    assert re.match(r"wrote \d+ MiB, and the disk of the machine is full: store less", seen["reason"])
    assert seen["stop"] == 202
    assert seen["neighbour"] == [[1, 0]]


@pytest.mark.nightly
def test_an_application_that_fills_the_disk_with_a_file_in_a_message_is_ended(tmp_path: Path):
    seen = fill(tmp_path, 1 << 30, "sends")
    assert re.match(r"wrote \d+ MiB, and the disk of the machine is full: store less", seen["reason"])
    assert seen["stop"] == 202
    assert seen["neighbour"] == [[1, 0]]


@pytest.mark.nightly
def test_an_application_that_fills_the_disk_from_its_volume_is_ended(tmp_path: Path):
    seen = fill(tmp_path, 1 << 30, "stores")
    assert re.match(r"wrote \d+ MiB, and the disk of the machine is full: store less", seen["reason"])
    assert seen["stop"] == 202
    assert seen["neighbour"] == [[1, 0]]


def test_an_organization_above_its_share_is_ended_before_the_reserve_of_the_disk_is_used(tmp_path: Path):
    seen = fill(tmp_path, 1 << 30, "shares")
    assert re.match(r"wrote \d+ MiB, its organization holds more than its share of the disk", seen["reason"])
    assert seen["free"] > SIZE / 20 * (1 << 20), "others still build"
    assert (seen["deploy"], seen["stop"]) == (409, 202)


@pytest.mark.nightly
def test_a_service_that_ends_while_others_fill_the_disk_runs_again_when_there_is_room(tmp_path: Path):
    seen = fill(tmp_path, 1 << 30, "sleeps")
    assert seen["ended for it"] == []  # its end would not help
    assert seen["runs again"]


def fill(folder: Path, reserve: int, program: str = "fills") -> Any:
    if subprocess.run([*APART, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody mount a small disk to fill it")
    try:
        command = [*APART, sys.executable, "-m", "tests.faults.filled", str(folder), str(reserve), program]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    finally:
        end_all(folder / "data")
    lines = done.stdout.splitlines()
    assert lines, done.stderr
    return json.loads(lines[-1])
