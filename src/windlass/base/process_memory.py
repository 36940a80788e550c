"""Measures the memory of processes, of all that they have started, and of the memory files that they hold."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from windlass.base.isolation import calls

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_BLOCK: Final = 512
_MEMORY_FILE: Final = "/memfd:"
_IN_MEMORY: Final = b"tmpfs"


def is_tree_above(roots: Collection[int], most: int) -> bool:
    """Returns whether these processes and their descendants use more bytes of memory than `most`."""
    sizes = _sizes_below(roots)
    return sum(sizes.values()) + hidden_files() > most and are_above(sizes, most)


def hidden_files() -> int:
    """Returns the bytes of all memory files of this machine that are in no file system which we see: all that
    services can hold in files of their own. Fast."""
    total = 0
    with suppress(OSError, StopIteration, ValueError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        total = int(next(line for line in lines if line.startswith("Shmem:")).split()[1]) * 1024
    seen = dict(_file_systems("self"))
    return max(0, total - sum(map(_used, seen.items())))


def are_above(sizes: Mapping[int, int], most: int) -> bool:
    """Returns whether processes, given with their resident bytes, use more bytes than `most`. Shared memory
    is counted once, which is slow, and so is done only where they look heavy."""
    files = _files_held(sizes)
    if sum(sizes.values()) + files <= most:
        return False
    parts = [_proportional(pid) for pid in sizes]
    # Files that are mapped are in both sums.
    return sum(own for own, _ in parts) + max(files, sum(shared for _, shared in parts)) > most


def _files_held(pids: Collection[int]) -> int:
    """Returns the bytes of memory files: those without a name that processes have open, and file systems in
    memory that none but they see."""
    files: dict[tuple[int, int], int] = {}
    systems: dict[str, bytes] = {}
    for pid in pids:
        with suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208 (names, not paths)
                path = f"/proc/{pid}/fd/{name}"
                with suppress(OSError):
                    if os.readlink(path).startswith(_MEMORY_FILE):  # noqa: PTH115 (of thousands)
                        found = os.stat(path)  # noqa: PTH116 (likewise)
                        files[found.st_dev, found.st_ino] = found.st_blocks * _BLOCK
        systems.update(_file_systems(str(pid)))
    seen = dict(_file_systems("self"))
    own = (system for system in systems.items() if system[0] not in seen)
    return sum(files.values()) + sum(map(_used, own))


def _file_systems(process: str) -> Iterator[tuple[str, bytes]]:
    """Yields the file systems in memory that a process sees: the device, and a path of any bytes."""
    with suppress(OSError), open(f"/proc/{process}/mountinfo", "rb") as file:  # noqa: PTH123
        for line in file:
            if b" - %b " % _IN_MEMORY in line:
                device = line.split(b" ", 3)[2].decode()
                yield device, b"/proc/%b/root%b" % (process.encode(), calls.mount_path(line))


def _used(system: tuple[str, bytes]) -> int:
    device, path = system
    with suppress(OSError):
        major, minor = device.split(":")
        if os.stat(path).st_dev == os.makedev(int(major), int(minor)):  # noqa: PTH116 (no other is above it)
            found = os.statvfs(path)
            return (found.f_blocks - found.f_bfree) * found.f_frsize
    return 0


def _proportional(pid: int) -> tuple[int, int]:
    """Returns the bytes that a process uses, with its share of what it has in common with others: those of
    its own and of files on the disk, and those of memory files."""
    with suppress(OSError, ValueError, KeyError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
        sizes = {words[0]: int(words[1]) * 1024 for line in lines if (words := line.split())}
        shared = sizes.get("Pss_Shmem:", 0)
        return sizes["Pss:"] - shared, shared
    with suppress(OSError, ValueError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE, 0
    return 0, 0


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
