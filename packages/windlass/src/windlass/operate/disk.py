"""Checks the disk of the data directory for free bytes and files. Measures folders if the disk is nearly
full."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from windlass.base.disk_reserve import MAX_RESERVE_FRACTION, is_short
from windlass.engines.findings import TIMEOUT, Finding, fail, ok, warn

MIB: Final = 1 << 20
GIB: Final = 1 << 30
_AMPLE_BYTES, _SCANT_BYTES = 2 * GIB, GIB // 4
_SMALL_DISK_BYTES: Final = 2 * _AMPLE_BYTES
"""Size below which a nearly full disk is reported as too small."""
_AMPLE_FILES, _SCANT_FILES = 100_000, 10_000
_MAX_SHOWN_PARTS: Final = 4
_PARTS: Final = (
    "builds/cache",
    "builds",
    "logs",
    "uploads",
    "repositories",
    "run",
    "databases",
    "sites",
    "usage",
    "git",
    "work",
    "set-aside",
)
"""Folders that may grow large. A file in several folders counts only for the first."""


class UsedSpace(Struct):
    """The disk space that a folder uses."""

    bytes: int = 0
    files: int = 0


_RESERVE: Final = (
    "free disk space: less than the reserve (disk_reserve_bytes) is free, so the process engine builds "
    "nothing and ends the service that holds most"
)


def disk(folder: Path, nearest: Path, reserve: int, uploads: int = 0) -> Finding:
    """Checks free bytes and free files of the data directory's disk.

    `nearest`: the data directory, or its nearest existing parent. `reserve`: bytes of the disk that services
    must leave free. `uploads`: further bytes that uploads must leave free.
    """
    facts = os.statvfs(nearest)
    free, whole = facts.f_bavail * facts.f_frsize, facts.f_blocks * facts.f_frsize
    files = facts.f_favail if facts.f_files else _AMPLE_FILES  # some file systems have no limit for files
    space = f"{free / GIB:.1f} GiB free"
    if files < _AMPLE_FILES:
        space += f", and {files} more files"
    short = is_short(nearest, reserve)
    refuses_uploads = free < uploads + min(reserve, int(whole * MAX_RESERVE_FRACTION))
    if refuses_uploads:
        space += f"; uploads are refused, as they leave {uploads / GIB:.1f} GiB free (upload_reserve_bytes)"
    if free >= _AMPLE_BYTES and files >= _AMPLE_FILES and not short and not refuses_uploads:
        return ok("Disk", space)
    taken = _largest(folder, by_files=files / _AMPLE_FILES < free / _AMPLE_BYTES)
    if taken:
        space += f"; most is in {taken}"
    if whole < _SMALL_DISK_BYTES:
        space += f"; the whole disk has {whole / GIB:.1f} GiB"
        deleted = "move the data directory to a larger one (docs/moving.md)"
    else:
        deleted = "while nothing is built, builds/cache, git and work can be deleted"
    if free < _SCANT_BYTES or files < _SCANT_FILES:
        return fail("Disk", space, f"free disk space: soon, nothing more can be stored; {deleted}")
    if short:
        return warn("Disk", space, f"{_RESERVE}; {deleted}")
    return warn("Disk", space, f"free disk space soon: builds and logs need it; {deleted}")


def _largest(folder: Path, *, by_files: bool) -> str:
    """Returns the largest folders, as text. Folders that cannot be measured in the time of a check may be
    missing."""
    until, seen = time.monotonic() + TIMEOUT, set[tuple[int, int]]()
    used = {part: _measure(folder / part, until, seen) for part in _PARTS}
    sizes = [(space.files if by_files else space.bytes, part) for part, space in used.items()]
    return ", ".join(
        f"{part} ({size} files)" if by_files else f"{part} ({size / MIB:.0f} MiB)"
        for size, part in sorted(sizes, reverse=True)[:_MAX_SHOWN_PARTS]
        if size
    )


def _measure(root: Path, until: float, seen_files: set[tuple[int, int]]) -> UsedSpace:
    """Measures a folder. Hard links to files in `seen_files` are not counted again."""
    used = UsedSpace()
    for path in _paths(root):
        if time.monotonic() > until:
            break
        with suppress(OSError):
            facts = os.lstat(path)
            if (facts.st_dev, facts.st_ino) not in seen_files:
                seen_files.add((facts.st_dev, facts.st_ino))
                used.bytes += facts.st_blocks * 512
                used.files += 1
    return used


def _paths(root: Path) -> Iterator[str]:
    for folder, _, names in os.walk(root):
        yield folder
        yield from (os.path.join(folder, name) for name in names)  # noqa: PTH118 (names may be of any bytes)
