"""The state of an instance that is only in memory: the variables, the watched process, and timers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from contextvars import Context
from typing import Final
from weakref import WeakValueDictionary

from msgspec.structs import replace

from windlass.base import kernel
from windlass.base.kernel import Process
from windlass.engines.workload import Workload
from windlass.process.records import InstanceKey

_LEAST_OWN_VARIABLES: Final = 16
"""An instance may differ from its neighbours by so many variables, however few variables they have."""


class CommonVariables:
    """Variables that instances of an environment have in common, none of them secret."""

    __slots__ = ("__weakref__", "values")

    def __init__(self, workload: Workload) -> None:
        self.values = {
            name: value for name, value in workload.variables.items() if name not in workload.hidden
        }


class Supervisor:
    __slots__ = (
        "_absent",
        "_common",
        "_common_of",
        "_own",
        "_workload",
        "foreign",
        "handle",
        "heard",
        "is_limited",
        "own_sockets",
        "process",
        "resume",
        "verdict",
    )

    def __init__(self, common_of: WeakValueDictionary[str, CommonVariables]) -> None:
        self._common_of = common_of
        """The common variables of each environment, for as long as an instance uses them."""
        self._workload: Workload | None = None
        """The workload without its variables. A service has several variables for each of its neighbours, so
        a copy for each instance would take memory by the square of the number of services."""
        self._common: CommonVariables | None = None
        self._own: dict[str, str] = {}
        """The variables that are secret or differ from the common ones."""
        self._absent: tuple[str, ...] = ()
        """The names of common variables that the instance does not have."""
        self.process: Process | None = None
        """The process that is watched, or whose end is being recorded."""
        self.is_limited = False
        """Whether a control group is known to limit the memory of the process."""
        self.handle: int | None = None
        self.resume: asyncio.TimerHandle | None = None
        self.heard: dict[int, int] = {}
        """The outer ports on which the process listens, by internal port."""
        self.own_sockets: Mapping[int, AbstractSet[int]] = {}
        """The inodes of the sockets that listen there, by outer port. Only in the network of the machine."""
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
        common = {**self._common.values} if self._common else {}
        for name in self._absent:
            del common[name]
        return replace(self._workload, variables=common | self._own)

    @workload.setter
    def workload(self, workload: Workload) -> None:
        self._workload = replace(workload, variables={})
        common = self._common_of.get(workload.environment)
        if common is None or not self._keep_difference(workload, common):
            common = self._common_of[workload.environment] = CommonVariables(workload)
            self._keep_difference(workload, common)
        self._common = common

    def _keep_difference(self, workload: Workload, common: CommonVariables) -> bool:
        """Keeps how the workload's variables differ from the common ones. Returns False if they differ too
        much: then the workload should become the common one."""
        self._own = {
            name: value
            for name, value in workload.variables.items()
            if name in workload.hidden or common.values.get(name) != value
        }
        self._absent = tuple(name for name in common.values if name not in workload.variables)
        differing = len(self._own.keys() - workload.hidden) + len(self._absent)
        return differing <= max(_LEAST_OWN_VARIABLES, len(workload.variables) // 4)

    def watch(self, process: Process, on_end: Callable[[], None]) -> bool:
        """Watches a process and calls `on_end` at its end. Returns False if it has already ended."""
        self.unwatch()
        self.process, self.heard, self.is_limited = process, {}, False
        if process.boot == kernel.boot():
            self.handle = kernel.handle(process.pid, process.start)
        if self.handle is None:
            return False
        # In an empty context: the caller's context contains its task, which would be kept while the process
        # runs.
        Context().run(asyncio.get_running_loop().add_reader, self.handle, on_end)
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
        self._common: WeakValueDictionary[str, CommonVariables] = WeakValueDictionary()

    def of(self, key: InstanceKey) -> Supervisor:
        return self._by_key.setdefault(key, Supervisor(self._common))

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
