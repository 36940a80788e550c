"""Chooses the instance to end when the machine's memory becomes short. Does no I/O.

Each instance has a memory limit. Without a control group, the server measures the memory of processes and
files, but can only estimate the kernel buffers of sockets and pipes.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from windlass.base.kernel_buffers import KernelBuffers
from windlass.process.records import InstanceKey


class MemoryUse(Struct, frozen=True):
    """The measured and estimated memory of an instance."""

    limit: int
    used: int
    """Bytes of memory in processes and files."""
    buffers: KernelBuffers

    @property
    def size(self) -> int:
        return self.used + self.buffers.bytes


def heaviest(uses: Mapping[InstanceKey, MemoryUse]) -> InstanceKey | None:
    """Returns the instance that exceeds its memory limit most, or None if all instances are within their
    limits."""
    above = {key: use.size - use.limit for key, use in uses.items() if 0 < use.limit < use.size}
    return max(above, key=lambda key: above[key], default=None)
