"""Decides which instance is ended when memory of the machine gets short. No I/O.

Each instance has a limit. Where no control group enforces it, the server sees what is memory of a process or
in files, and does not always see what the kernel holds for sockets and pipes: that is estimated here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from windlass.base.kernel_buffers import KernelBuffers
from windlass.process.records import InstanceKey

_RESERVE: Final = 8
"""The reserve is this fraction (one part in so many) of the memory, within these limits."""
_LEAST: Final = 256 << 20
_MOST: Final = 2 << 30
_LARGEST_PART: Final = 4
"""The reserve is one part in so many at most, so that small machines can be used."""


class MemoryUse(Struct, frozen=True):
    """The memory of an instance, as far as it is known."""

    limit: int
    used: int
    """Bytes of its processes and files."""
    buffers: KernelBuffers

    @property
    def size(self) -> int:
        return self.used + self.buffers.bytes


def is_short(available: int, whole: int) -> bool:
    return available < min(max(whole // _RESERVE, _LEAST), _MOST, whole // _LARGEST_PART)


def heaviest(uses: Mapping[InstanceKey, MemoryUse]) -> InstanceKey | None:
    """Returns the instance that is most above its limit; None if all are within theirs."""
    above = {key: use.size - use.limit for key, use in uses.items() if 0 < use.limit < use.size}
    return max(above, key=lambda key: above[key], default=None)
