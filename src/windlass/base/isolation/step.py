"""A program that runs one build step in a cell of its own and exits as the step does.

Everything that the step leaves running ends with it, whatever session or environment it has given itself. If
the cell has its own processes, the kernel does that. Otherwise this program becomes the parent of all orphans
of the step, and does not exit before the last of them.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NoReturn

from windlass.base.isolation import calls, inside
from windlass.base.isolation.cell import Cell


def main(_: int) -> NoReturn:
    """Takes the cell and then the command as arguments; passes its environment on to the program."""
    cell: Cell = json.loads(sys.argv[3])
    command, folder = sys.argv[4:], os.getcwd()  # noqa: PTH109 (as it is given on)
    try:
        inside.enter(cell)
        if not cell["processes"]:
            calls.prctl(calls.PR_SET_CHILD_SUBREAPER, 1)
        first = os.fork()
        if not first:
            if cell["processes"]:
                _first(cell, command, folder)
            inside.confine(cell, leads=False)
            _become(command, folder)
        status = os.waitpid(first, 0)[1]
        _end_orphans()
        _end_like(status)
    except OSError as error:
        sys.stderr.write(f"ERROR: this program could not be isolated: {error}\n")
        sys.exit(1)


def _end_orphans() -> None:
    """Kills all descendants: the children of one that was killed become our own."""
    with suppress(ChildProcessError):
        while True:
            for child in _children():
                os.kill(child, signal.SIGKILL)
            os.wait()


def _children() -> Iterator[int]:
    """Yields our child processes. Their numbers stay theirs until we wait for them."""
    own = str(os.getpid())
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 (pathlib takes long to load)
        with suppress(OSError), open(f"/proc/{name}/stat", errors="replace") as file:  # noqa: PTH123 (likewise)
            if file.read().rpartition(")")[2].split()[1] == own:
                yield int(name)


def _first(cell: Cell, command: Sequence[str], folder: str) -> NoReturn:
    """The first process of the cell: reaps orphans and reports how the program ended."""
    inside.own_processes()
    program = os.fork()
    if not program:
        inside.confine(cell, leads=False)
        _become(command, folder)
    inside.leave(cell)
    calls.prctl(calls.PR_SET_NO_NEW_PRIVS, 1)
    calls.prctl(calls.PR_SET_PDEATHSIG, signal.SIGKILL)
    while True:
        ended, status = os.wait()
        if ended == program:
            # The first process of a cell cannot be ended by a signal of its own, so it reports a number.
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


def _become(command: Sequence[str], folder: str) -> NoReturn:
    inside.give_up(command, inside.become(command, folder, dict(os.environ)))  # noqa: TID251 (what it was given)


def _end_like(status: int) -> NoReturn:
    code = os.waitstatus_to_exitcode(status)
    number = -code if code < 0 else code - 128
    if number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS):
        os.kill(os.getpid(), number)
    sys.exit(code if code >= 0 else 128 - code)
