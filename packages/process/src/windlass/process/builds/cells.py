"""Runs each step of a build in a cell, which is a sandbox (base/isolation). The step can read the system and
its own build, and can write only to its own build.

All builds of one service run as the same system user, so that they can share download caches. Other services
cannot write to these caches. Instances have read-only access to the result of a build.
"""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

from windlass.base import cgroups, subprocesses
from windlass.base.child_process import ChildProcess
from windlass.base.isolation.cell import Cell
from windlass.base.isolation.isolation import Isolation, programs
from windlass.base.isolation.step import StepRequest
from windlass.base.isolation.step_launcher import StepLauncher
from windlass.base.isolation.users import change_owner, give_ours
from windlass.base.marks import mark_of
from windlass.base.process_memory import measure_tree
from windlass.base.step_limits import StepLimits
from windlass.builders.builder import BuildError
from windlass.builders.usage import BuildUsage

_MAX_MEMORY: Final = 8 << 30
_MAX_FILE_BYTES: Final = 8 << 30
_MEASURE_INTERVAL: Final = 1.0
"""The seconds between two measurements of the memory of the steps of a build."""


class BuildStep(NamedTuple):
    """A program to run, with its variables. `operators` are variables that the operator has set; their values
    may be paths of files."""

    argv: Sequence[str]
    folder: Path
    environment: Mapping[str, str]
    operators: Mapping[str, str]


class Cells:
    def __init__(
        self,
        isolation: Isolation,
        owner: str,
        temporary: Path,
        *writable: Path,
        kept_paths: Sequence[Path] = (),
        launcher: StepLauncher | None = None,
        step_limits: StepLimits | None = None,
        org: str = "",
        environment: str = "",
        usage: BuildUsage | None = None,
    ) -> None:
        """Defines the cells of one build. All cells of the same `owner`, such as a service, run as the same
        system user. `step_limits` apply to all steps in the `environment` of the organization `org`. `usage`
        is what the steps use together."""
        self.usage = usage or BuildUsage()
        self._isolation, self._name, self._org = isolation, f"builds of {owner}", org or owner
        self._environment = environment
        self.step_limits = step_limits or StepLimits(temporary)
        self.launcher = launcher or StepLauncher()
        self._temporary = temporary
        self.writable = list(writable)
        """Folders that steps may write to."""
        self.readable: list[Path] = []
        """Folders and files that steps may read, in addition to the system's."""
        self._kept = tuple(kept_paths)
        """Caches that steps may write to. Their files belong to the user of earlier steps."""
        self._cpu_so_far: dict[int, int] = {}
        """Milliseconds of processor time of the running steps when they were last measured."""
        self.pids: set[int] = set()
        """The first process id of each running step."""

    @asynccontextmanager
    async def running(self, step: BuildStep) -> AsyncIterator[tuple[ChildProcess, bool]]:
        """Runs a program in a cell. Yields the process, and whether all processes that it leaves behind end
        with it.

        Raises BuildError if the steps of the environment or the organization exceeded their memory limit.
        """
        async with self.step_limits.of(self._org, self._environment) as steps:
            before = steps.kills()
            async with (
                self._measured(),
                self._start(step, steps.groups) as (process, ends_all),
                steps.watched(process),
            ):
                self.pids.add(process.pid)
                try:
                    yield process, ends_all
                finally:
                    self.pids.discard(process.pid)
            if process.returncode and steps.kills() > before:
                most = self.step_limits.memory
                together = cgroups.of_organization(most)
                raise BuildError(
                    "Make the build need less memory, or ask the operator to raise build_memory: the build "
                    f"steps of the environment together used more than {most} MiB, or those of "
                    f"all environments of the organization more than {together} MiB."
                )

    @asynccontextmanager
    async def _measured(self) -> AsyncIterator[None]:
        """Measures the memory of the steps during the block, now and then."""
        measuring = asyncio.create_task(self._measure_memory())
        try:
            yield
        finally:
            measuring.cancel()
            await asyncio.gather(measuring, return_exceptions=True)

    async def _measure_memory(self) -> None:
        while True:
            await asyncio.sleep(_MEASURE_INTERVAL)
            pids = tuple(self.pids)
            measured = await subprocesses.in_thread(_measure_trees, pids)
            self.usage.note_memory(sum(memory for memory, _ in measured))
            self._cpu_so_far |= {pid: cpu for pid, (_, cpu) in zip(pids, measured, strict=True)}

    @asynccontextmanager
    async def _counted(self, least_memory: int = 0) -> AsyncIterator[Callable[[ChildProcess], None]]:
        """Yields a function that takes a process. Adds what the process used, once it has ended. No more than
        `least_memory` bytes say nothing about its program: the kernel counts what was there before it."""
        counted: list[ChildProcess] = []
        try:
            yield counted.append
        finally:
            for process in counted:
                # The kernel does not count the processes of a step that was killed.
                cpu_so_far = self._cpu_so_far.pop(process.pid, 0)
                if process.usage is not None:
                    self.usage.add_cpu(max(process.usage.cpu_ms, cpu_so_far))
                    if process.usage.largest_bytes > least_memory:
                        self.usage.note_memory(process.usage.largest_bytes)

    @asynccontextmanager
    async def _start(
        self, step: BuildStep, groups: Sequence[str]
    ) -> AsyncIterator[tuple[ChildProcess, bool]]:
        cell = await subprocesses.in_thread(self.cell, step.operators)
        if cell is None:
            # The child begins as a copy of this process.
            copied = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
            async with (
                self._counted(copied) as count,
                subprocesses.running(step.argv, cwd=step.folder, env=step.environment) as process,
            ):
                count(process)
                cgroups.enter(groups, process.pid)
                yield process, False
            return
        request = StepRequest(
            command=step.argv,
            folder=str(step.folder),
            environment=step.environment,
            cell=cell,
            groups=groups,
        )
        async with (
            self._counted() as count,
            self.launcher.running(request, self._org, self._environment) as started,
        ):
            count(started)
            yield started, cell["processes"]

    def cell(self, environment: Mapping[str, str]) -> Cell | None:
        """Returns the cell of a step, or None if isolation is off. The cell can read files that variables of
        the operator point to."""
        owner = self._isolation.owner(self._name)
        folders = [folder for folder in self.writable if folder.exists()]
        if owner is not None:
            for folder in folders:
                give_ours(folder, owner)
            for folder in self._kept:
                change_owner(folder, owner)
        folders += self._kept
        path = programs(environment.get("PATH", ""), self._isolation.folders)
        return self._isolation.cell(
            self._name,
            readable=dict.fromkeys((*path, *self.readable, *_named_files(environment, folders))),
            writable=folders,
            temporary=self._temporary,
            most_memory=_MAX_MEMORY,
            largest_file=_MAX_FILE_BYTES,
            shared_memory=self.step_limits.memory << 20,
            mark=mark_of(self._temporary),
        )


def _measure_trees(pids: Collection[int]) -> list[tuple[int, int]]:
    return [measure_tree(pid) for pid in pids]


def _named_files(environment: Mapping[str, str], own_files: Sequence[Path]) -> Iterator[str]:
    """Yields the existing files and folders that are values of the operator's variables, such as
    certificates.

    Folders that steps can change, such as a cache, are left out. Steps can read them anyway, and may have put
    a link there.
    """
    for value in environment.values():
        path = value.removeprefix("file://")
        if (
            path.startswith("/")
            and len(Path(path).parts) > 2
            and os.pathsep not in path
            and not any(Path(path).is_relative_to(folder) for folder in own_files)
            and Path(path).exists()
        ):
            yield path
