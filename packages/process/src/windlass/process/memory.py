"""Measures the memory of instances, and finds instances that exceed a limit that no control group
enforces."""

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
        cpu_ms=sum(process.stat.cpu for process in processes) * kernel.TICK_MS, memory=_resident(processes)
    )


def looks_heavy(record: Record, processes: Collection[OwnedProcess], unseen_processes: int) -> bool:
    """Returns whether an instance may exceed its memory limit. A quick upper estimate counts shared memory
    once for each process and adds all `unseen_processes` memory of the machine."""
    return 0 < record.memory << 20 < _resident(processes) + unseen_processes


def is_heavy(record: Record, processes: InstanceProcesses) -> bool:
    """Returns whether an instance exceeds its memory limit, with shared memory counted once. Raises
    TooMuchToMeasure.

    This is slow, so it is called only if `looks_heavy` returns True.
    """
    return are_above(lambda: _sizes(processes), record.memory << 20)


def use(record: Record, processes: InstanceProcesses) -> MemoryUse:
    """Measures or estimates all memory of an instance. This is slow. Raises TooMuchToMeasure."""
    buffers = max(
        map(kernel_buffers.held_by, measure_until_stable(processes.find)), key=lambda buffers: buffers.bytes
    )
    return MemoryUse(record.memory << 20, used_by(lambda: _sizes(processes)), buffers)


def _sizes(processes: InstanceProcesses) -> Mapping[int, int]:
    return {pid: process.stat.memory for pid, process in processes.find().items()}


def _resident(processes: Collection[OwnedProcess]) -> int:
    return sum(process.stat.memory for process in processes)
