"""Measures the memory of processes and their descendants, including their in-memory files."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Final

from windlass.base.isolation import calls
from windlass.base.live_thread import has_ended, live_thread
from windlass.base.message_files import UnseenFiles
from windlass.base.open_files import open_files
from windlass.base.repeated_measurement import measure_until_stable, newest_first
from windlass.base.unnamed_files import unnamed_files

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
_BLOCK_BYTES: Final = 512
_IN_MEMORY: Final = b"tmpfs"
_RESERVE_DIVISOR: Final = 8
"""The reserve is 1/8 of the memory, but at least `_MIN_RESERVE` and at most `_MAX_RESERVE`."""
_MIN_RESERVE: Final = 256 << 20
_MAX_RESERVE: Final = 2 << 30
_MAX_RESERVE_DIVISOR: Final = 4
"""The reserve is at most 1/4 of the memory, so that small machines can be used."""
FindSizes = Callable[[], Mapping[int, int]]
"""A function that lists processes: their pids, each with its resident bytes."""
MAX_OPEN_FILES: Final = 500_000
"""The maximum number of open files that are inspected."""
_MAX_MOUNTINFO_BYTES: Final = 8 << 20
"""The maximum size of all mount tables of an instance that are read, in bytes: some 80,000 mounts. Reading
more would take too long."""


class TooMuchToMeasure(Exception):
    """The processes have too many mounts or files to measure their memory."""


class TooManyMounts(TooMuchToMeasure):
    pass


class TooManyFiles(TooMuchToMeasure):
    pass


class HiddenFiles(TooMuchToMeasure):
    """Some files in socket messages could not be read."""


def is_tree_above(roots: Collection[int], limit: int) -> bool:
    """Returns whether these processes and their descendants use more than `limit` bytes of memory."""
    find = partial(_resident_bytes_by_pid, roots)
    try:
        return sum(find().values()) + hidden_memory() > limit and are_above(find, limit)
    except TooMuchToMeasure:
        return True


def measure_tree(root: int) -> tuple[int, int]:
    """Returns the bytes that a process and its descendants use, where memory that processes share counts
    once, and the milliseconds of processor time that they have used."""
    pids = _resident_bytes_by_pid([root])
    return sum(sum(_read_proportional_set_size(pid)) for pid in pids), sum(map(_processor_time, pids))


def _processor_time(pid: int) -> int:
    """Returns the milliseconds that a process and its children that have ended have used."""
    with suppress(OSError, ValueError, IndexError):
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, words[11:15])) * 1000 // _TICKS_PER_SECOND
    return 0


def with_descendants(roots: Collection[int]) -> Collection[int]:
    """Returns the pids of these processes and all their descendants."""
    return _resident_bytes_by_pid(roots).keys()


def have_too_many_files(pids: Collection[int]) -> bool:
    """Returns whether these processes have more open files than can be inspected within a second or two."""
    return sum(map(open_files, pids)) > MAX_OPEN_FILES


def hidden_memory() -> int:
    """Returns the upper bound of memory that processes of this machine use in addition to resident memory.

    It consists of `hidden_files` and all page tables. Fast.
    """
    return hidden_files() + _read_meminfo().get("PageTables", 0)


def hidden_files() -> int:
    """Returns the bytes of this machine's in-memory files outside the file systems that this process sees.

    It is the upper bound of what services can store in such files. Fast.
    """
    seen = _visible_memory_file_systems()
    return max(0, _read_meminfo().get("Shmem", 0) - sum(map(_used_bytes, seen.items())))


def available_memory() -> tuple[int, int]:
    """Returns the available memory and the total memory of this machine, in bytes."""
    machine = _read_meminfo()
    whole = machine.get("MemTotal", 0)
    return machine.get("MemAvailable", whole), whole


def is_memory_short(available: int, total_bytes: int) -> bool:
    """Returns whether the reserve of the machine's memory is in use."""
    return available < min(
        max(total_bytes // _RESERVE_DIVISOR, _MIN_RESERVE), _MAX_RESERVE, total_bytes // _MAX_RESERVE_DIVISOR
    )


def _read_meminfo() -> dict[str, int]:
    with suppress(OSError, ValueError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        return {
            name: int(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in lines)
        }
    return {}


def are_above(find_sizes: FindSizes, limit: int) -> bool:
    """Returns whether processes use more than `limit` bytes. May raise TooMuchToMeasure.

    Does the slow measurement, which counts shared memory once, only if a fast estimate exceeds `limit`.
    """
    known = max(
        sum(sizes.values()) + sum(map(_page_tables, sizes)) for sizes in measure_until_stable(find_sizes)
    )
    if known + hidden_files() <= limit:
        return False
    files = max(map(_measure_memory_files, measure_until_stable(find_sizes)))
    return known + files > limit and _with_shared_once(find_sizes, files) > limit


def used_by(find_sizes: FindSizes) -> int:
    """Returns the bytes that processes use. Slow, because it counts shared memory only once. May raise
    TooMuchToMeasure."""
    return _with_shared_once(find_sizes, max(map(_measure_memory_files, measure_until_stable(find_sizes))))


def _with_shared_once(find_sizes: FindSizes, files: int) -> int:
    return max(_sum_with(files, pids) for pids in measure_until_stable(find_sizes))


def _sum_with(files: int, pids: Collection[int]) -> int:
    parts = [_read_proportional_set_size(pid) for pid in pids]
    # Mapped in-memory files are part of both sums.
    shared = max(files, sum(shared for _, shared in parts))
    return sum(own for own, _ in parts) + sum(map(_page_tables, pids)) + shared


def _measure_memory_files(pids: Collection[int]) -> int:
    """Returns the bytes of processes' in-memory files: open unnamed files, and the content of in-memory file
    systems that this process does not see."""
    files: dict[int, int] = {}
    systems: dict[str, bytes] = {}
    views: dict[tuple[int, ...], int] = {}
    """Different mount tables, each with the pid of a process that has it."""
    if have_too_many_files(pids):
        raise TooManyFiles
    in_memory = _device_of_memory_files()
    try:
        for found in unnamed_files(pids):
            if found.st_dev == in_memory:
                files[found.st_ino] = found.st_blocks * _BLOCK_BYTES
    except UnseenFiles as error:
        raise HiddenFiles from error
    for pid in map(live_thread, pids):
        with suppress(OSError):
            views.setdefault(_mount_view(pid), pid)
    room = _MAX_MOUNTINFO_BYTES
    for pid in views.values():
        for line in _read_mountinfo(str(pid)):
            room -= len(line)
            if room < 0:
                raise TooManyMounts
            systems.update(_memory_file_systems(str(pid), line))
    seen = _visible_memory_file_systems()
    own = (system for system in systems.items() if system[0] not in seen)
    return sum(files.values()) + sum(map(_used_bytes, own))


@cache
def _device_of_memory_files() -> int:
    """Returns the device of all unnamed in-memory files, including shared memory."""
    file = os.memfd_create("windlass")
    try:
        return os.fstat(file).st_dev
    finally:
        os.close(file)


def _mount_view(pid: int) -> tuple[int, ...]:
    """Identifies the mount table of a process by its mount namespace and its root folder."""
    root = os.stat(f"/proc/{pid}/root")  # noqa: PTH116 (of thousands)
    return os.stat(f"/proc/{pid}/ns/mnt").st_ino, root.st_dev, root.st_ino  # noqa: PTH116 (likewise)


def _read_mountinfo(process: str) -> Iterator[bytes]:
    with suppress(OSError), open(f"/proc/{process}/mountinfo", "rb") as file:  # noqa: PTH123
        yield from file


def _memory_file_systems(process: str, line: bytes) -> Iterator[tuple[str, bytes]]:
    """Yields the device and the path of an in-memory file system, if a line of a mount table shows one."""
    if b" - %b " % _IN_MEMORY in line:
        device = line.split(b" ", 3)[2].decode()
        yield device, b"/proc/%b/root%b" % (process.encode(), calls.mount_path(line))


def _visible_memory_file_systems() -> dict[str, bytes]:
    """Returns the in-memory file systems that this process sees: their devices, each with a path."""
    return dict(system for line in _read_mountinfo("self") for system in _memory_file_systems("self", line))


def _used_bytes(system: tuple[str, bytes]) -> int:
    device, path = system
    with suppress(OSError):
        major, minor = device.split(":")
        if os.stat(path).st_dev == os.makedev(int(major), int(minor)):  # noqa: PTH116 (not hidden by a mount)
            found = os.statvfs(path)
            return (found.f_blocks - found.f_bfree) * found.f_frsize
    return 0


def _read_proportional_set_size(pid: int) -> tuple[int, int]:
    """Returns the proportional set size of a process in bytes: first without in-memory files, then its share
    of in-memory files."""
    pid = live_thread(pid)
    with suppress(OSError, ValueError, KeyError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
        sizes = {words[0]: int(words[1]) * 1024 for line in lines if (words := line.split())}
        shared = sizes.get("Pss_Shmem:", 0)
        return sizes["Pss:"] - shared, shared
    return resident(pid), 0


def resident(pid: int) -> int:
    """Returns the resident bytes of a process, including shared memory."""
    with suppress(OSError, ValueError):
        return int(Path(f"/proc/{live_thread(pid)}/statm").read_text().split()[1]) * _PAGE_BYTES
    return 0


def _page_tables(pid: int) -> int:
    """Returns the bytes of a process's page tables."""
    with suppress(OSError, ValueError, IndexError):
        status = Path(f"/proc/{live_thread(pid)}/status").read_text()
        return int(status.partition("VmPTE:")[2].split(maxsplit=1)[0]) * 1024
    return 0


def _resident_bytes_by_pid(roots: Collection[int]) -> dict[int, int]:
    """Returns the resident bytes of these processes and their descendants, by pid."""
    sizes: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for pid in newest_first():
        with suppress(OSError), open(f"/proc/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123
            words = file.read(2048).rpartition(b")")[2].split()
            children.setdefault(int(words[1]), []).append(pid)
            lost_first = has_ended(words) and int(words[17]) > 1
            sizes[pid] = resident(pid) if lost_first else int(words[21]) * _PAGE_BYTES
    ahead = [pid for pid in roots if pid in sizes]
    for pid in ahead:
        ahead += children.get(pid, [])
    return {pid: sizes[pid] for pid in ahead}
