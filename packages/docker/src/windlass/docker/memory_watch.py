"""Ends a service when the machine of the Docker engine runs short of memory.

Each container is within its limit, but the sum of the limits may exceed the memory of the machine. The kernel
would then kill the largest process, whoever has filled the memory with many small ones. So the organization
that uses most is chosen before, then its environment and its service that use most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final

from windlass.base import subprocesses
from windlass.base.kernel_shares import KernelUse, Scarce, heaviest, is_unexplained
from windlass.base.log import log
from windlass.base.process_memory import available_memory, is_memory_short
from windlass.docker import names
from windlass.docker.client import Away, EngineRefused
from windlass.docker.descriptions import ContainerSummary

CHECK_INTERVAL: Final = 1.0
AFTER_END_SECONDS: Final = 3.0
"""Seconds after the end of a service until the next check: the kernel gives its memory back meanwhile."""
_AT_ONCE: Final = 16
OVERHEAD_BYTES: Final = 4 << 20
"""Memory that the engine needs for each container, outside of its limit."""
_log = log("engines.docker")


class MemoryWatch:
    def __init__(
        self,
        list_running: Callable[[], Awaitable[Sequence[ContainerSummary]]],
        measure: Callable[[ContainerSummary], Coroutine[Any, Any, int]],
        end_container: Callable[[ContainerSummary, str], Coroutine[Any, Any, None]],
    ) -> None:
        """`list_running` returns nothing if another server watches the engine. `measure` returns the bytes of
        memory of a container. `end_container` ends a container for a reason; it is started again later."""
        self._list_running, self._measure, self._end = list_running, measure, end_container

    async def run(self) -> None:
        while True:
            await asyncio.sleep(CHECK_INTERVAL)
            try:
                if await self.check():
                    await asyncio.sleep(AFTER_END_SECONDS)
            except (Away, EngineRefused, TimeoutError, LookupError, TypeError, ValueError) as error:
                _log.warning("the memory of services cannot be compared", extra={"reason": repr(error)})

    async def check(self) -> bool:
        """Returns whether a service was ended."""
        available, whole = available_memory()
        if not is_memory_short(available, whole):
            return False
        running = await self._list_running()
        if len({container["Labels"].get(names.ORGANIZATION_LABEL, "") for container in running}) < 2:
            return False
        sizes = await subprocesses.run_some(_AT_ONCE, [self._measure(container) for container in running])
        uses: dict[str, KernelUse] = {}
        for container, size in zip(running, sizes, strict=True):
            labels = container["Labels"]
            service = labels[names.SERVICE_LABEL]
            before = uses[service].count if service in uses else 0
            uses[service] = KernelUse(
                labels.get(names.ORGANIZATION_LABEL, ""),
                before + size + OVERHEAD_BYTES,
                labels.get(names.ENVIRONMENT_LABEL) or service,
            )
        scarce = Scarce("memory", whole, whole - available)
        most = heaviest(uses, scarce)
        if most is None or is_unexplained(uses, scarce):
            return False
        _log.warning(
            "memory of this machine gets short: a service of the organization with most is ended",
            extra={"service": most, "bytes": uses[most].count, "present": scarce.present},
        )
        why = (
            f"held {uses[most].count >> 20} MB of memory with all its instances, the most of its "
            "environment, and the machine ran short of memory: use less, or ask the operator for a larger "
            "machine"
        )
        chosen = [container for container in running if container["Labels"][names.SERVICE_LABEL] == most]
        await subprocesses.run_some(_AT_ONCE, [self._end(container, why) for container in chosen])
        return True
