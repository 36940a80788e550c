"""The state of an instance that is only in memory: the variables, the watched process, and timers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from contextvars import Context

from msgspec.structs import replace

from windlass.base import kernel
from windlass.base.kernel import Process
from windlass.engines.workload import Workload
from windlass.process.records import InstanceKey


class Supervisor:
    __slots__ = (
        "_names",
        "_values",
        "_workload",
        "foreign",
        "handle",
        "heard",
        "is_limited",
        "process",
        "resume",
        "verdict",
    )

    def __init__(self) -> None:
        self._workload: Workload | None = None
        """The workload without its variables."""
        self._names: tuple[str, ...] = ()
        self._values: tuple[str, ...] = ()
        """The names and values of the variables. A service has several for each of its neighbours, and a
        dictionary for each of 600 services takes four times the memory of two tuples."""
        self.process: Process | None = None
        """The process that is watched, or whose end is being recorded."""
        self.is_limited = False
        """Whether a control group is known to limit the memory of the process."""
        self.handle: int | None = None
        self.resume: asyncio.TimerHandle | None = None
        self.heard: dict[int, int] = {}
        """The outer ports on which the process listens, by internal port."""
        self.verdict = ""
        """The reason why Windlass ends the process. On a full disk, it is recorded only after the end."""
        self.foreign: AbstractSet[int] = frozenset()
        """Inodes of sockets of other programs that listen on the instance's ports."""

    @property
    def has_workload(self) -> bool:
        return self._workload is not None

    @property
    def workload(self) -> Workload | None:
        """The workload with which the instance was started, for its restarts. Each read makes a new one."""
        if self._workload is None:
            return None
        return replace(self._workload, variables=dict(zip(self._names, self._values, strict=True)))

    @workload.setter
    def workload(self, workload: Workload) -> None:
        self._workload = replace(workload, variables={})
        self._names, self._values = tuple(workload.variables), tuple(workload.variables.values())

    def watch(self, process: Process, ended: Callable[[], None]) -> bool:
        """Watches a process and calls `ended` at its end. Returns False if it has already ended."""
        self.unwatch()
        self.process, self.heard, self.is_limited = process, {}, False
        if process.boot == kernel.boot():
            self.handle = kernel.handle(process.pid, process.start)
        if self.handle is None:
            return False
        # In an empty context: the caller's context contains its task, which would be kept while the process
        # runs.
        Context().run(asyncio.get_running_loop().add_reader, self.handle, ended)
        return True

    def reap(self, process: Process) -> int | None:
        """Returns the exit status of an ended process if it was a child of this process, or else None."""
        if self.process != process or self.handle is None:
            return None
        status = kernel.reap(self.handle)
        self.unwatch()
        self.process = process
        return status

    def unwatch(self) -> None:
        if self.handle is not None:
            asyncio.get_running_loop().remove_reader(self.handle)
            os.close(self.handle)
        self.handle = self.process = None

    def let_go(self) -> None:
        self.unwatch()
        if self.resume is not None:
            self.resume.cancel()


class Supervisors:
    """All supervisors of an engine, by instance."""

    def __init__(self) -> None:
        self._by_key: dict[InstanceKey, Supervisor] = {}

    def of(self, key: InstanceKey) -> Supervisor:
        return self._by_key.setdefault(key, Supervisor())

    def find(self, key: InstanceKey) -> Supervisor | None:
        return self._by_key.get(key)

    @property
    def keys(self) -> list[InstanceKey]:
        return [*self._by_key]

    def watched(self) -> list[InstanceKey]:
        return [key for key, supervisor in self._by_key.items() if supervisor.handle is not None]

    def perhaps_unlimited(self) -> list[InstanceKey]:
        """Returns the watched instances whose memory is not known to be limited."""
        return [
            key
            for key, supervisor in self._by_key.items()
            if supervisor.handle is not None and not supervisor.is_limited
        ]

    def note_limit(self, key: InstanceKey, process: Process | None) -> None:
        """Records that a control group limits the memory of a process. Groups keep their limits."""
        supervisor = self._by_key.get(key)
        if supervisor and supervisor.process == process:
            supervisor.is_limited = True

    def let_go(self, key: InstanceKey) -> None:
        if supervisor := self._by_key.pop(key, None):
            supervisor.let_go()
