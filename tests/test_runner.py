"""A test run that ends, or is interrupted, leaves no process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

RUNNER = Path(__file__).parent / "runner.py"
LEAVES = """
import subprocess, sys, time
sleep = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(1000)"]
left = subprocess.Popen(sleep, start_new_session=True, stdout=subprocess.DEVNULL)
try:
    print(left.pid, flush=True)
    time.sleep({seconds})
except KeyboardInterrupt:
    print("interrupted", flush=True)
sys.exit(3)
"""


def started(seconds: int) -> subprocess.Popen[str]:
    command = [sys.executable, str(RUNNER), sys.executable, "-I", "-S", "-c", LEAVES.format(seconds=seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def is_running(process: int) -> bool:
    return Path(f"/proc/{process}").exists()


def test_the_runner_returns_the_commands_status_and_kills_leftover_processes():
    with started(seconds=0) as runner:
        assert runner.stdout
        left = int(runner.stdout.readline())
        assert runner.wait() == 3
    assert not is_running(left)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_an_interrupted_command_reports_the_interruption_and_leaves_no_process(number):
    with started(seconds=1000) as runner:
        assert runner.stdout
        left = int(runner.stdout.readline())
        assert is_running(left)
        runner.send_signal(number)
        assert runner.stdout.readline() == "interrupted\n"
        assert runner.wait() == 3
    assert not is_running(left)


def test_without_the_runner_a_process_is_left():
    """The negative control."""
    command = [sys.executable, "-I", "-S", "-c", LEAVES.format(seconds=0)]
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    left = int(said.stdout)
    assert is_running(left)
    os.kill(left, signal.SIGKILL)
