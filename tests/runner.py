"""Runs a command and ends every process that it leaves: `python tests/runner.py .venv/bin/pytest …`.

Tests start servers, and those start programs in sessions of their own, which would outlive an interrupted
run. They become children of this process as soon as their parent ends (a subreaper, see prctl(2)).
Containers are not its children: `docker ps --filter label=windlass.installation` lists them. Files and
control groups of a Kubernetes cluster are removed by `tests/kubernetes/leftovers.py`.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER."""
ROOT = Path(__file__).parents[1]
SECONDS_TO_END = 20
"""An interrupted command has so long to report what has failed so far."""


def main(*command: str) -> int:
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    process = subprocess.Popen(command)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: interrupt(process, number))
    try:
        return status_of(process.pid)
    finally:
        end_all()
        if any(Path("/var/tmp").glob("windlass-cluster-*")):
            subprocess.run([sys.executable, "-m", "tests.kubernetes.leftovers"], cwd=ROOT, check=False)


def interrupt(process: subprocess.Popen[bytes], number: int) -> None:
    """A terminal has sent SIGINT to the command too, and a second one would stop it from reporting."""
    if number != signal.SIGINT:
        process.send_signal(signal.SIGINT)
    signal.signal(signal.SIGALRM, lambda *_: process.kill())
    signal.alarm(SECONDS_TO_END)


def status_of(child: int) -> int:
    """Waits for the command, and for everything that was orphaned meanwhile."""
    while True:
        ended, status = os.wait()
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def end_all() -> None:
    """Repeats, because a process may have started another one just before it was ended."""
    while left := [*descendants(os.getpid())]:
        for process in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.02)


def descendants(ancestor: int) -> Iterator[int]:
    parents = dict(_parents())
    for process in parents:
        parent = process
        while parent := parents.get(parent, 0):
            if parent == ancestor:
                yield process
                break


def _parents() -> Iterator[tuple[int, int]]:
    """See proc_pid_stat(5): field 4, after the name, which may hold anything."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            yield int(stat.parent.name), int(stat.read_text().rpartition(")")[2].split()[1])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
