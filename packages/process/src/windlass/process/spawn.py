"""Starts programs in such a way that no program runs without a record.

A new process enters the cell (sandbox) of its service and waits for a message on a pipe (base/isolation).
Windlass records the process, moves it into its control groups, and sends the message. Then the process
executes the program. If Windlass is killed earlier, the process reads the end of the pipe and exits.
"""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from windlass.base import cgroups, kernel
from windlass.base.cleanup import on_failure
from windlass.base.isolation import launcher_client
from windlass.base.isolation.cell import Cell
from windlass.base.isolation.launcher import LaunchRequest
from windlass.base.isolation.launcher_client import Launcher, StartedProgram
from windlass.base.kernel import Process
from windlass.base.oom_score import INSTANCES_SCORE
from windlass.engines.engine import EngineError
from windlass.process import tree_copy
from windlass.process.output import prepare
from windlass.process.process_table import MARK_VARIABLES


class SpawnRequest(Struct, frozen=True):
    """A program to be started."""

    command: Sequence[str]
    folder: Path
    environment: Mapping[str, str]
    output: Path
    cell: Cell | None = None
    groups: Sequence[str] = ()
    """The control groups of the program."""
    holder_file: str = ""
    """The file of a process that holds a network namespace. If it is set, no command is executed."""


class SpawnedProcess(NamedTuple):
    """The process of a started program."""

    process: Process
    first: Process | None
    """The first process of the cell if the cell has a process namespace."""
    space: int
    """The number of the cell's process namespace. 0 if it has none."""


class Spawner:
    """The launcher, and the thread that sends all requests to it."""

    def __init__(self, exit_program: Sequence[str] = ()) -> None:
        """`exit_program` is a module and the arguments of its `main`. The launcher runs them when the server
        ends."""
        self.thread = ThreadPoolExecutor(1, "windlass-starts")
        self._launcher = Launcher(INSTANCES_SCORE, exit_program)
        self._began: float | None = None
        """The time when the start in progress began. None if no start is in progress."""

    async def open(self) -> None:
        """Starts the launcher before its first request. Used if instances are already running."""
        await asyncio.get_running_loop().run_in_executor(self.thread, self._launcher.open)

    def close(self) -> None:
        self.thread.shutdown()
        self._launcher.close()

    def start_takes(self) -> float:
        """Returns the seconds that the start in progress has taken so far. 0 if no start is in progress."""
        began = self._began
        return 0.0 if began is None else time.monotonic() - began

    def start(self, request: SpawnRequest, record: Callable[[SpawnedProcess], None]) -> SpawnedProcess:
        """Starts a program. Calls `record` when the process exists, before it executes the program."""
        self._began = time.monotonic()
        try:
            return self._start(request, record)
        finally:
            self._began = None

    def _start(self, request: SpawnRequest, record: Callable[[SpawnedProcess], None]) -> SpawnedProcess:
        try:
            output = _open_output(request)
            try:
                started = self._launcher.start_program(_launch_request(request, waits=True), output)
            finally:
                os.close(output)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", error)
            raise EngineError(
                f"Ask the operator: no process can be started on this machine: {reason}"
            ) from error
        try:
            with on_failure(partial(launcher_client.end, started)):  # a program without a record must not run
                for pid in (started.first, started.pid):
                    if pid is not None:
                        cgroups.enter(request.groups, pid)
                first = None if started.first is None else _identify(started.first)
                spawned = SpawnedProcess(
                    _identify(started.pid),
                    first,
                    kernel.process_namespace(started.pid) if started.first else 0,
                )
                record(spawned)
                launcher_client.go(started)
        finally:
            launcher_client.close(started)
        return spawned

    def beside(
        self,
        request: SpawnRequest,
        output: int,
        process: int | None,
        input: int | None = None,
        *,
        has_terminal: bool = False,
    ) -> StartedProgram:
        """Starts a program in the cell of a process, without a record. Raises an OSError if this fails.

        Does not wait until the program runs, because other programs in the cell can delay that. It enters its
        control groups just before: a limit of the processor, which busy programs of the instance have used
        up, would delay all other starts on this machine as well.
        """
        launch = _launch_request(request, waits=True)
        launch["has_input"], launch["has_terminal"] = input is not None, has_terminal
        started = self._launcher.start_program(launch, output, process if request.cell else None, input)
        try:
            cgroups.enter(request.groups, started.pid)
        except OSError:
            launcher_client.end(started)
            launcher_client.close(started)
            raise
        launcher_client.release(started)
        return started

    def copy_content(
        self, groups: Sequence[str], least_free: int, source: Path, target: Path, owner: int | None
    ) -> None:
        """Copies the content of a folder in the given control groups, so that the copied files count as their
        memory. Blocks until the copy is complete. Raises an OSError if this fails."""
        words = (str(source), str(target), "" if owner is None else str(owner), str(least_free))
        request = _module_request(groups, tree_copy.__name__, *words)
        output = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        try:
            started = self.thread.submit(self._launcher.start_program, request, output).result()
        finally:
            os.close(output)
        try:
            _, status = os.waitpid(started.pid, 0)
            failure = launcher_client.reported_failure(started)
        finally:
            launcher_client.close(started)
        if failure is not None:  # the error's text contains paths of this machine
            raise OSError(failure.errno, os.strerror(failure.errno or errno.EIO)) from failure
        if status:
            raise EngineError(
                "Give the service more memory, or deploy again: its files could not be copied within its "
                "memory"
            )


def _open_output(request: SpawnRequest) -> int:
    output = os.open(request.output, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        if request.cell and request.cell["identity"] == "user":
            os.fchown(output, request.cell["uid"], request.cell["uid"])
        prepare(output)
    except OSError:
        os.close(output)
        raise
    return output


def _launch_request(request: SpawnRequest, *, waits: bool) -> LaunchRequest:
    for name, value in request.environment.items():
        if "\0" in name + value:
            raise ValueError(f"embedded null character in the variable {name}")
    launch = LaunchRequest(
        command=tuple(request.command),
        folder=str(request.folder),
        environment=dict(request.environment),
        marks={name: request.environment[name] for name in MARK_VARIABLES if name in request.environment},
        cell=request.cell,
        waits=waits,
        has_input=False,
        has_terminal=False,
        groups=(),
    )
    if request.holder_file:
        launch["holder_file"] = request.holder_file
    return launch


def _module_request(groups: Sequence[str], *module: str) -> LaunchRequest:
    return LaunchRequest(
        command=(),
        folder="/",
        environment={},
        marks={},
        cell=None,
        waits=False,
        has_input=False,
        has_terminal=False,
        groups=tuple(groups),
        module=module,
    )


def _identify(pid: int) -> Process:
    process = kernel.identify(pid)
    assert process is not None  # a child process exists until it is reaped
    return process
