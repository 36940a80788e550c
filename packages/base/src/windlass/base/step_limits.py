"""Limits on the memory and processes of build steps, for each environment and organization.

All build steps of an environment share a memory limit and a process limit, and have a lower processor weight
than services. All environments of an organization share a larger limit. Control groups enforce these limits.
If no control groups are available, memory is measured every second, and all steps of an environment above its
memory limit are ended.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final
from weakref import finalize

from windlass.base import cgroups
from windlass.base.child_process import ChildProcess
from windlass.base.isolation.isolation import MAX_PROCESSES
from windlass.base.log import log
from windlass.base.process_memory import is_tree_above
from windlass.base.subprocesses import in_thread

_log = log("builds")
_CHECK_INTERVAL: Final = 1.0
"""The seconds between two measurements of the memory of build steps."""
_MIN_MEMORY_MIB: Final = 2048
_RESOLUTION: Final = 8
"""The resolution for comparing the memory of environments: the limit divided by this number."""


def usual_memory() -> int:
    """Returns the default limit in MiB: half of the machine's memory, but at least enough for a build."""
    return max(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 21, _MIN_MEMORY_MIB)


class StepLimits:
    def __init__(
        self, folder: Path, memory: int = 0, processes: int = MAX_PROCESSES, *, has_groups: bool = True
    ) -> None:
        """Sets the limits of an environment: `memory` in MiB and the number of `processes`.

        A `memory` of 0 selects half of the machine's memory, but at least 2 GiB. Without `has_groups`, there
        are no control groups, and the number of processes is not limited here.
        """
        self.memory = memory or usual_memory()
        self._groups = cgroups.StepGroups(folder, self.memory, processes) if has_groups else None
        self._organizations: dict[str, OrganizationSteps] = {}
        self._made: set[str] = set()
        self.close = finalize(self, cgroups.remove, self._made)
        """Removes control groups that could not be removed earlier because a process was still inside."""

    @asynccontextmanager
    async def of(self, org: str, environment: str = "") -> AsyncIterator[EnvironmentSteps]:
        """Yields the shared state of an environment's build steps, for the duration of one build."""
        organization = self._organizations.setdefault(org, OrganizationSteps(self.memory))
        steps = organization.environments.setdefault(environment, EnvironmentSteps(organization))
        steps.users += 1
        try:
            if self._groups and not steps.groups:
                with suppress(OSError):
                    steps.groups = self._groups.make(org, environment)
                    self._made.update(steps.groups, steps.groups_around)
            yield steps
        finally:
            steps.users -= 1
            if not steps.users:
                del organization.environments[environment]
                if not organization.environments:
                    del self._organizations[org]
                self._remove(org, environment, steps)
                # A killed process may still be in the groups, so they are removed again a moment later.
                asyncio.get_running_loop().call_later(_CHECK_INTERVAL, self._remove, org, environment, steps)

    def sweep(self) -> None:
        """Removes control groups that a killed server has left behind."""
        if self._groups:
            cgroups.remove(self._groups.left())

    def _remove(self, org: str, environment: str, steps: EnvironmentSteps) -> None:
        organization = self._organizations.get(org)
        if organization is None or environment not in organization.environments:
            groups = {*steps.groups, *(() if organization else steps.groups_around)}
            cgroups.remove(groups)
            self._made.difference_update(group for group in groups if not Path(group).exists())


class OrganizationSteps:
    """The running build steps of one organization. Measures their memory if no control group limits it."""

    def __init__(self, memory: int) -> None:
        self.environments: dict[str, EnvironmentSteps] = {}
        self._memory = memory << 20
        self._weighing: asyncio.Task[None] | None = None

    def begin_weighing(self) -> None:
        self._weighing = self._weighing or asyncio.create_task(self._measure_memory())

    def end_weighing(self) -> None:
        """Stops measuring when no step is left."""
        if self._weighing is not None and not any(steps.pids for steps in self.environments.values()):
            self._weighing.cancel()
            self._weighing = None

    async def _measure_memory(self) -> None:
        while True:
            await asyncio.sleep(_CHECK_INTERVAL)
            pids = {steps: steps.pids for steps in self.environments.values() if steps.pids}
            try:
                heavy = await in_thread(self._find_heavy, pids)
            except (OSError, ValueError):  # a failed check must not stop later checks
                _log.exception("the memory of build steps could not be measured; it is measured again")
                continue
            if heavy is not None:
                heavy.end()

    def _find_heavy(self, pids: Mapping[EnvironmentSteps, Sequence[int]]) -> EnvironmentSteps | None:
        """Returns an environment above its limit. If only the sum is above the organization's limit, returns
        the environment with most memory."""
        for steps, own in pids.items():
            if is_tree_above(own, self._memory):
                return steps
        together = [pid for own in pids.values() for pid in own]
        if len(pids) < 2 or not is_tree_above(together, cgroups.of_organization(self._memory)):
            return None
        for part in range(_RESOLUTION, 0, -1):
            for steps, own in pids.items():
                if is_tree_above(own, self._memory * part // _RESOLUTION):
                    return steps
        return None


class EnvironmentSteps:
    """The running build steps of one environment."""

    def __init__(self, organization: OrganizationSteps) -> None:
        self.groups: tuple[str, ...] = ()
        """The control groups that each step enters before it executes its program."""
        self.users = 0
        self._organization = organization
        self._steps: set[ChildProcess] = set()
        self._ended = 0
        """The number of times that all steps were ended because of their memory."""

    @property
    def groups_around(self) -> tuple[str, ...]:
        """The parent control groups, which belong to the organization."""
        return tuple(str(Path(group).parent) for group in self.groups)

    @property
    def pids(self) -> Sequence[int]:
        return [step.pid for step in self._steps]

    @asynccontextmanager
    async def watched(self, step: ChildProcess) -> AsyncIterator[None]:
        self._steps.add(step)
        if not cgroups.limits_memory(self.groups):
            self._organization.begin_weighing()
        try:
            yield
        finally:
            self._steps.discard(step)
            self._organization.end_weighing()

    def kills(self) -> int:
        """Returns how often steps were ended because the environment exceeded its memory limit."""
        return self._ended + cgroups.memory_kills(self.groups)

    def end(self) -> None:
        """Ends all steps, because the environment exceeds its memory limit."""
        self._ended += 1
        for step in self._steps:
            step.kill()
