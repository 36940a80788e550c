"""Measures the memory of processes, and of all that they have started."""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def is_tree_above(roots: Collection[int], most: int) -> bool:
    """Returns whether these processes and their descendants use more bytes of memory than `most`. Shared
    memory is counted once, which is slow, and so is done only where they look heavy."""
    sizes = _sizes_below(roots)
    return sum(sizes.values()) > most and sum(map(proportional, sizes)) > most


def proportional(pid: int) -> int:
    """Returns the bytes that a process uses, with its share of what it has in common with others."""
    with suppress(OSError, ValueError, StopIteration):
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        line = next(line for line in text.splitlines() if line.startswith("Pss:"))
        return int(line.split()[1]) * 1024
    with suppress(OSError, ValueError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    return 0


def _sizes_below(roots: Collection[int]) -> dict[int, int]:
    """Returns the resident bytes of these processes and their descendants."""
    sizes: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):  # noqa: PTH208 (names, not paths)
        with suppress(OSError), open(f"/proc/{name}/stat", "rb", buffering=0) as file:  # noqa: PTH123
            words = file.read(2048).rpartition(b")")[2].split()
            children.setdefault(int(words[1]), []).append(int(name))
            sizes[int(name)] = int(words[21]) * _PAGE
    ahead = [pid for pid in roots if pid in sizes]
    for pid in ahead:
        ahead += children.get(pid, [])
    return {pid: sizes[pid] for pid in ahead}
