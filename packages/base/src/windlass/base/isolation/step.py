"""Runs a build step in its cell, in a process that the launcher has forked. Exits with the step's status.

All processes that the step leaves behind end with it, even if they changed their session or environment. If
the cell has a pid namespace, the kernel kills them. Otherwise this process adopts the step's orphans, kills
them, and exits after the last of them has ended. This process also ends with the server. If it is killed
itself, the server finds the remaining processes by the build's mark (marks.py).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NoReturn, TypedDict

from windlass.base.isolation import calls, cell_entry
from windlass.base.isolation.cell import Cell

_STANDARD_STREAMS: Final = 3
_MAX_FDS: Final = 1024


class StepRequest(TypedDict):
    command: Sequence[str]
    folder: str
    environment: Mapping[str, str]
    cell: Cell
    groups: Sequence[str]
    """The control groups that the step enters first."""


def run(request: StepRequest, output: int, errors: int, server: int) -> NoReturn:
    """Runs the step in this process and exits with its status. `server`: the pid of this process's parent."""
    os.setsid()
    _take_streams(output, errors)
    cell = request["cell"]
    try:
        cell_entry.enter_groups(request["groups"])
        cell_entry.enter(cell)
        end_with(server)
        if not cell["processes"]:
            calls.prctl(calls.PR_SET_CHILD_SUBREAPER, 1)
        first = os.fork()
        if not first:
            calls.run_to_exit(lambda: _become_step(request), _report_isolation_error, 1)
        status = os.waitpid(first, 0)[1]
        _kill_descendants()
        _exit_with_status(status)
    except OSError as error:
        _report_isolation_error(error)
        os._exit(1)


def _take_streams(output: int, errors: int) -> None:
    """Sets the standard streams and closes all other descriptors.

    This process does not execute another program, which would have closed them.
    """
    null = os.open(os.devnull, os.O_RDONLY)
    for ours, theirs in ((null, 0), (output, 1), (errors, 2)):
        os.dup2(ours, theirs)
    os.closerange(_STANDARD_STREAMS, _MAX_FDS)


def end_with(server: int) -> None:
    """Makes the kernel kill this process when its parent, the server, ends."""
    calls.prctl(calls.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != server:  # the parent ended before this call
        os._exit(1)


def _report_isolation_error(error: BaseException) -> None:
    os.write(2, f"ERROR: this program could not be isolated: {error}\n".encode())


def _kill_descendants() -> None:
    """Kills all descendants. The children of a killed process become children of this process."""
    with suppress(ChildProcessError):
        while True:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)  # raises if no child is left
            for child in _child_pids():
                os.kill(child, signal.SIGKILL)
            os.wait()


def _child_pids() -> Iterator[int]:
    """Yields the pids of this process's children. They are not reused before this process waits for them."""
    own = str(os.getpid())
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 (pathlib takes long to load)
        with suppress(OSError), open(f"/proc/{name}/stat", errors="replace") as file:  # noqa: PTH123 (likewise)
            if file.read().rpartition(")")[2].split()[1] == own:
                yield int(name)


def _become_step(request: StepRequest) -> NoReturn:
    cell = request["cell"]
    if cell["processes"]:
        _run_first_process(request)
    cell_entry.confine(cell, leads=False)
    calls.prctl(calls.PR_SET_PDEATHSIG, signal.SIGKILL)
    _execute_step_command(request)


def _run_first_process(request: StepRequest) -> NoReturn:
    """Runs as the first process of the cell: reaps orphans and exits with the program's status.

    A program that controlled this process with ptrace could outlive the build, so tracing is forbidden.
    """
    cell_entry.mount_own_proc()
    cell_entry.confine(request["cell"], leads=False, guarded=True)
    program = os.fork()
    if not program:
        calls.keep_capabilities()
        _execute_step_command(request)
    calls.prctl(calls.PR_SET_PDEATHSIG, signal.SIGKILL)
    while True:
        ended, status = os.wait()
        if ended == program:
            # The first process of a pid namespace cannot kill itself by a signal, so it exits with a status.
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


def _execute_step_command(request: StepRequest) -> NoReturn:
    error = cell_entry.execute_program(request["command"], request["folder"], request["environment"])
    cell_entry.give_up(request["command"], error)


def _exit_with_status(status: int) -> NoReturn:
    code = os.waitstatus_to_exitcode(status)
    number = -code if code < 0 else code - 128
    if number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS):
        os.kill(os.getpid(), number)
    os._exit(code if code >= 0 else 128 - code)
