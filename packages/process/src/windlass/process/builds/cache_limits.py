"""Chooses the build caches to erase: first the caches that are too old, then the least recently used ones."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

SECONDS_PER_DAY: Final = 24 * 3600.0


class CacheLimits(Struct, frozen=True):
    """The cache limits of one organization, or of all toolchains together."""

    most_bytes: int = 10 << 30
    days: int = 30


class CacheUnit(Struct, frozen=True):
    """A cache that can only be erased completely."""

    path: Path
    used: float
    """The time of the last use, in seconds since the epoch."""
    size: int


def units_to_erase(units: Iterable[CacheUnit], limits: CacheLimits, now: float) -> list[CacheUnit]:
    """Returns the caches to erase, the least recently used first."""
    # The programs of a build can set the time of their caches to a time in the future.
    oldest_first = sorted(units, key=lambda unit: min(unit.used, now))
    total = sum(unit.size for unit in oldest_first)
    erased = []
    for unit in oldest_first:
        if unit.used < now - limits.days * SECONDS_PER_DAY or total > limits.most_bytes:
            erased.append(unit)
            total -= unit.size
    return erased


def size_of(root: Path) -> int:
    """Returns the disk space of a folder in bytes. Does not follow links, and ignores files that vanish
    meanwhile."""
    total = 0
    ahead = [str(root)]
    while ahead:
        with suppress(OSError), os.scandir(ahead.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    ahead.append(entry.path)
                else:
                    with suppress(FileNotFoundError):
                        total += entry.stat(follow_symlinks=False).st_blocks * 512
    return total
