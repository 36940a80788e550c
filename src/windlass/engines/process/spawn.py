"""Starts programs so that none ever runs without a record.

A new process comes into the cell of its service and waits for a word (base/isolation). Meanwhile its
identity is recorded and its cgroup is entered; then the word is said and it becomes the program. If Windlass
is killed before, it reads the end of the pipe and ends without having done anything. So every program that
runs is one that a record names.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from windlass.base.cleanup import on_failure
from windlass.base.isolation import launching
from windlass.base.isolation.cell import Cell
from windlass.base.isolation.launcher import LaunchRequest
from windlass.base.isolation.launching import Begun, Launcher
from windlass.engines.engine import EngineError
from windlass.engines.process import cgroups, kernel
from windlass.engines.process.kernel import Process
from windlass.engines.process.output import prepare
from windlass.engines.process.process_table import MARKS


class Birth(Struct, frozen=True):
    """A program to be started."""

    command: Sequence[str]
    folder: Path
    environment: Mapping[str, str]
    output: Path
    cell: Cell | None = None
    cgroup: str = ""


class Born(NamedTuple):
    process: Process
    first: Process | None
    """The first process of its cell, where it has processes of its own."""
    space: int
    """See `Record.space`."""


class Spawner:
    """The thread that everything is started from, and the launcher that it asks."""

    def __init__(self) -> None:
        self.thread = ThreadPoolExecutor(1, "windlass-starts")
        self._launcher = Launcher()

    def close(self) -> None:
        self.thread.shutdown()
        self._launcher.close()

    def start(self, birth: Birth, record: Callable[[Born], None]) -> Born:
        """`record` is called between the birth and the first instruction of the program."""
        try:
            output = _opened(birth)
            try:
                begun = self._launcher.begin(_request(birth, waits=True), output)
            finally:
                os.close(output)
        except (OSError, ValueError) as error:
            raise EngineError(f"no process can be started: {getattr(error, 'strerror', error)}") from error
        try:
            with on_failure(partial(launching.end, begun)):  # no program runs without a record
                for pid in (begun.first, begun.pid):
                    if pid is not None:
                        cgroups.enter(birth.cgroup, pid)
                first = None if begun.first is None else _identified(begun.first)
                born = Born(_identified(begun.pid), first, kernel.space(begun.pid) if begun.first else 0)
                record(born)
                launching.go(begun)
        finally:
            launching.close(begun)
        return born

    def beside(self, birth: Birth, output: int, process: int | None) -> Begun:
        """Starts a program without a record, in the cell of this process. Does not wait until it runs,
        because programs of the cell can delay that. May raise an OSError."""
        request = _request(birth, waits=False)
        return self._launcher.begin(request, output, process if birth.cell else None)


def _opened(birth: Birth) -> int:
    output = os.open(birth.output, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        if birth.cell and birth.cell["identity"] == "user":
            os.fchown(output, birth.cell["uid"], birth.cell["uid"])
        prepare(output)
    except OSError:
        os.close(output)
        raise
    return output


def _request(birth: Birth, *, waits: bool) -> LaunchRequest:
    for name, value in birth.environment.items():
        if "\0" in name + value:
            raise ValueError(f"embedded null character in the variable {name}")
    return LaunchRequest(
        command=tuple(birth.command),
        folder=str(birth.folder),
        environment=dict(birth.environment),
        marks={name: birth.environment[name] for name in MARKS if name in birth.environment},
        cell=birth.cell,
        waits=waits,
    )


def _identified(pid: int) -> Process:
    process = kernel.identify(pid)
    assert process is not None  # a child is there until we bury it
    return process
