"""Measures the memory of instances, and finds those above their limit where no cgroup enforces it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from windlass.base import cgroups, kernel, kernel_buffers
from windlass.base.process_memory import are_above, used_by
from windlass.base.repeated_measurement import measure_until_stable
from windlass.engines.workload import Usage
from windlass.process.memory_shares import MemoryUse
from windlass.process.process_table import InstanceProcesses, OwnedProcess
from windlass.process.records import Record


def usage(record: Record, processes: Collection[OwnedProcess]) -> Usage:
    counted = cgroups.usage_of(record.groups)
    if counted is not None:
        return Usage(cpu_ms=counted[0], memory=counted[1])
    return Usage(
        cpu_ms=sum(process.stat.cpu for process in processes) * kernel.TICK, memory=_resident(processes)
    )


def looks_heavy(record: Record, processes: Collection[OwnedProcess], hidden: int) -> bool:
    """Returns whether an instance may be above its limit: adds up the memory of its processes, with shared
    memory counted for each of them, and all `hidden_memory`."""
    return 0 < record.memory << 20 < _resident(processes) + hidden


def is_heavy(record: Record, processes: InstanceProcesses) -> bool:
    """Returns whether an instance is above its limit, with shared memory counted once. This is slow, so it is
    called only for those that look heavy. May raise TooMuchToMeasure."""
    return are_above(lambda: _sizes(processes), record.memory << 20)


def use(record: Record, processes: InstanceProcesses) -> MemoryUse:
    """Measures all memory of an instance that can be known or estimated. Slow. May raise TooMuchToMeasure."""
    buffers = max(
        map(kernel_buffers.held_by, measure_until_stable(processes.find)), key=lambda buffers: buffers.bytes
    )
    return MemoryUse(record.memory << 20, used_by(lambda: _sizes(processes)), buffers)


def _sizes(processes: InstanceProcesses) -> Mapping[int, int]:
    return {pid: process.stat.memory for pid, process in processes.find().items()}


def _resident(processes: Collection[OwnedProcess]) -> int:
    return sum(process.stat.memory for process in processes)
