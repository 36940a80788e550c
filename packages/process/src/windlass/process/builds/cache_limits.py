"""Decides which build caches are erased: first the too old ones, then the least recently used ones."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

DAY: Final = 24 * 3600.0


class CacheLimits(Struct, frozen=True):
    """The limits of the caches of one organization, or of all toolchains."""

    most_bytes: int = 10 << 30
    days: int = 30


class CacheUnit(Struct, frozen=True):
    """A cache that is erased as a whole."""

    path: Path
    used: float
    """The time of the last use, in seconds."""
    size: int


def units_to_erase(units: Iterable[CacheUnit], limits: CacheLimits, now: float) -> list[CacheUnit]:
    """Returns the caches to erase, the least recently used first."""
    # Programs of a build can give their caches a time to come.
    oldest_first = sorted(units, key=lambda unit: min(unit.used, now))
    total = sum(unit.size for unit in oldest_first)
    erased = []
    for unit in oldest_first:
        if unit.used < now - limits.days * DAY or total > limits.most_bytes:
            erased.append(unit)
            total -= unit.size
    return erased


def size_of(top: Path) -> int:
    """Returns the bytes that a folder takes on the disk. Follows no link; files that vanish are left out."""
    total = 0
    ahead = [str(top)]
    while ahead:
        with suppress(OSError), os.scandir(ahead.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    ahead.append(entry.path)
                else:
                    with suppress(FileNotFoundError):
                        total += entry.stat(follow_symlinks=False).st_blocks * 512
    return total
