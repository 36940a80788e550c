"""Limits the output files of the process engine's instances while no server reads them.

The launcher starts this process, which needs only the standard library and runs after the server has ended.
If an output file exceeds the allowed backlog of unread output, the process erases all but the end of the
file. A restarted server would skip the older output anyway, and reports the skipped amount in the service's
log, so this process neither needs nor changes reading positions. It holds the reader's lock while it erases.
It exits when a server holds that lock, or when no instance runs.
"""

from __future__ import annotations

import ctypes
import json
import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from windlass.base import filelock
from windlass.base.isolation import calls

READER_LOCK: Final = "keeper.lock"
"""Lock file for the process that reads or erases output."""
LEADING_HOLE: Final = 16 * 1024 * 1024
"""Size in bytes of the hole at the beginning of each output file; see output.py of the process engine."""
PUNCH_HOLE_FLAGS: Final = 0x03  # FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE
BLOCK_BYTES: Final = 4096
CHECK_INTERVAL: Final = 1.0
"""Seconds between two checks while much output is written; otherwise up to eight times as long."""
_MAX_SLOWDOWN: Final = 8
_SECTOR_BYTES: Final = 512
_MAX_LOCKED_CHECKS: Final = 10
"""Number of consecutive checks with a locked reader lock after which a server counts as running."""


def main(folder: str, backlog: str) -> None:
    with suppress(OSError):  # the folder was erased or moved
        services = os.open(Path(folder) / "services", os.O_RDONLY | os.O_CLOEXEC)
        if filelock.try_lock(services):  # otherwise, another such process is running
            _bound_until_read(Path(folder), int(backlog))


def _bound_until_read(folder: Path, backlog: int) -> None:
    refused, slower, before = 0, 1, 0
    while refused < _MAX_LOCKED_CHECKS and any(map(_is_running, folder.glob("services/*/*"))):
        time.sleep(CHECK_INTERVAL if refused else CHECK_INTERVAL * slower)
        lock = os.open(folder / READER_LOCK, os.O_RDWR | os.O_CLOEXEC)  # never made in a folder being erased
        try:
            refused = 0 if filelock.try_lock(lock) else refused + 1
            if refused:
                continue
            written = sum(bound(output, backlog) for output in folder.glob("services/*/*/output"))
            slower = 1 if written > before + backlog // 4 else min(slower * 2, _MAX_SLOWDOWN)
            before = written
        finally:
            os.close(lock)


def bound(output: Path, backlog: int) -> int:
    """Erases the oldest part of a file that is larger than the backlog. Returns the file's length."""
    try:
        pinned = os.open(output, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return 0  # removed meanwhile
    try:
        facts = os.fstat(pinned)
        until = (facts.st_size - backlog) // BLOCK_BYTES * BLOCK_BYTES
        if until > LEADING_HOLE and facts.st_blocks * _SECTOR_BYTES > backlog and stat.S_ISREG(facts.st_mode):
            with suppress(OSError):  # the program holds a lease; the next check follows
                _erase_until(f"/proc/self/fd/{pinned}", until)
        return facts.st_size
    finally:
        os.close(pinned)


def _erase_until(output: str, until: int) -> None:
    os.chmod(output, 0o600)  # noqa: PTH101 (an open file; the program may have removed our permission)
    file = os.open(output, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        calls.libc.fallocate(
            file, PUNCH_HOLE_FLAGS, ctypes.c_int64(LEADING_HOLE), ctypes.c_int64(until - LEADING_HOLE)
        )
    finally:
        os.close(file)


def _is_running(home: Path) -> bool:
    """Returns whether a process of an instance is alive, according to the instance's record."""
    with suppress(OSError, ValueError):
        record = json.loads((home / "record.json").read_bytes())
        return any(map(_is_alive, _processes(record)))
    return False


def _processes(record: Any) -> Iterator[Any]:
    yield from (process for name in ("process", "first") if (process := record.get(name)))


def _is_alive(process: Any) -> bool:
    with suppress(OSError):
        line = Path(f"/proc/{process['pid']}/stat").read_bytes()
        words = line[line.rindex(b")") + 2 :].split()
        return int(words[19]) == process["start"] and words[0] not in (b"Z", b"X")
    return False
