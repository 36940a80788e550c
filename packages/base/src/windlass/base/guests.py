"""Limits of what one organization makes the server run beside its instances, such as the steps of its builds.

All of it together has a limit of memory and of processes, and less weight at the processor than services. The
kernel sees to that by a control group. Where it has none for us, the memory is weighed every second, and all
steps of an organization that is above its limit are ended.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final
from weakref import finalize

from windlass.base import cgroups
from windlass.base.child_process import ChildProcess
from windlass.base.isolation.isolation import MOST_PROCESSES
from windlass.base.log import log
from windlass.base.process_memory import is_tree_above
from windlass.base.subprocesses import in_thread

_log = log("builds")
_EVERY: Final = 1.0
"""Seconds between two looks at the memory of steps."""
_LEAST: Final = 2048


def usual_memory() -> int:
    """Returns MiB: half of what this machine has, but enough for a build."""
    return max(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 21, _LEAST)


class Guests:
    def __init__(
        self, folder: Path, memory: int = 0, processes: int = MOST_PROCESSES, *, has_groups: bool = True
    ) -> None:
        """`memory` is in MiB; 0 is the half of the machine. `has_groups`: control groups may be used."""
        self.memory = memory or usual_memory()
        self._groups = cgroups.GuestGroups(folder, self.memory, processes) if has_groups else None
        self._organizations: dict[str, OrganizationSteps] = {}
        self._made: set[str] = set()
        self.close = finalize(self, cgroups.remove, self._made)
        """Removes control groups in which a process was left when they were removed first."""

    @asynccontextmanager
    async def of(self, name: str) -> AsyncIterator[OrganizationSteps]:
        """Yields the guests of an organization, while at least one may run."""
        organization = self._organizations.get(name) or OrganizationSteps(self.memory)
        self._organizations[name] = organization
        organization.users += 1
        try:
            if self._groups and not organization.groups:
                with suppress(OSError):
                    organization.groups = self._groups.make(name)
                    self._made.update(organization.groups)
            yield organization
        finally:
            organization.users -= 1
            if not organization.users:
                del self._organizations[name]
                self._remove(name, organization.groups)
                # A process that was just killed may still be in it.
                asyncio.get_running_loop().call_later(_EVERY, self._remove, name, organization.groups)

    def sweep(self) -> None:
        """Removes control groups that a killed server has left."""
        if self._groups:
            cgroups.remove(self._groups.left())

    def _remove(self, name: str, groups: Sequence[str]) -> None:
        if name not in self._organizations:
            cgroups.remove(groups)
            self._made.difference_update(group for group in groups if not Path(group).exists())


class OrganizationSteps:
    """The steps of one organization that run now."""

    def __init__(self, memory: int) -> None:
        self.groups: tuple[str, ...] = ()
        """Control groups that each step enters before it becomes a program."""
        self.users = 0
        self._memory = memory
        self._steps: set[ChildProcess] = set()
        self._too_heavy = 0
        """How often all steps were ended because of their memory."""
        self._weighing: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def watched(self, step: ChildProcess) -> AsyncIterator[None]:
        self._steps.add(step)
        if self._weighing is None and not cgroups.limits_memory(self.groups):
            self._weighing = asyncio.create_task(self._weigh())
        try:
            yield
        finally:
            self._steps.discard(step)
            if not self._steps and self._weighing is not None:
                self._weighing.cancel()
                self._weighing = None

    def kills(self) -> int:
        """Returns how often steps were ended because of the memory of all."""
        return self._too_heavy + cgroups.memory_kills(self.groups)

    async def _weigh(self) -> None:
        while True:
            await asyncio.sleep(_EVERY)
            try:
                is_above = await in_thread(
                    is_tree_above, [step.pid for step in self._steps], self._memory << 20
                )
            except (OSError, ValueError):  # one look that fails ends no other
                _log.exception("A look at the memory of build steps failed; the next one follows")
                continue
            if is_above:
                self._too_heavy += 1
                for step in self._steps:
                    step.kill()
