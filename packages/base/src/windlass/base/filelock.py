"""Locks files between processes. The kernel releases a lock when its process ends, for whatever reason.

A lock belongs to the open file, so processes that inherit its descriptor hold the lock, too.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

from windlass.base.cleanup import on_failure

_FIRST_PAUSE: Final = 0.001
_MAX_PAUSE: Final = 0.05
"""The longest pause between two attempts to lock, in seconds."""
_LOCK_TABLE_READS: Final = 3
"""The kernel returns its table of locks in pieces, and leaves out a lock if others end between two pieces."""


def open_lock_file(path: Path) -> int:
    """Opens a lock file; creates it if it is missing."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


class LockTimeout(Exception):
    """The process that holds a lock did not release it in time: it is paused, or hangs."""

    def __init__(self, holder: int | None) -> None:
        """`holder` is the id of the process that holds the lock, if known."""
        self.holder = holder
        super().__init__(
            f"Ask the operator to resume or end the process {holder or 'of another server'}: it "
            "holds a lock that this server waits for, and does not release it"
        )


def wait_for(fd: int, *, shared: bool = False, timeout: float | None = None) -> None:
    """Locks an open file. Waits until no other process holds a conflicting lock.

    Shared locks do not exclude each other. Raises LockTimeout after `timeout` seconds.
    """
    if timeout is None:
        fcntl.flock(fd, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        return
    deadline, pause = time.monotonic() + timeout, _FIRST_PAUSE
    while not try_lock(fd, shared=shared):
        if time.monotonic() > deadline:
            raise LockTimeout(holder_of(fd))
        time.sleep(pause)
        pause = min(pause * 2, _MAX_PAUSE)


def holder_of(fd: int) -> int | None:
    """Returns the id of a process that holds the lock of an open file, if known."""
    file = os.fstat(fd)
    place = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"
    for _ in range(_LOCK_TABLE_READS):
        with suppress(OSError):
            for line in Path("/proc/locks").read_text().splitlines():
                # 1: FLOCK  ADVISORY  WRITE 4242 00:1b:99 0 EOF; a waiting process has -> after the number
                words = line.split()
                if words[1:2] == ["FLOCK"] and words[5:6] == [place] and words[4] > "0":
                    return int(words[4])
    return None


def try_lock(fd: int, *, shared: bool = False) -> bool:
    """Tries to lock an open file without waiting, and returns its success. Shared locks are compatible."""
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def release(fd: int) -> None:
    """Releases the lock of a file and leaves the file open. Closing the file releases the lock, too."""
    fcntl.flock(fd, fcntl.LOCK_UN)


def is_at(fd: int, path: Path) -> bool:
    """Returns whether a path still refers to an open file, and not to a file that replaced it."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(fd), path.stat())
    return False


def try_hold(path: Path) -> int | None:
    """Locks a file without waiting. Returns its descriptor, which the caller closes; None if it is locked."""
    fd = open_lock_file(path)
    with on_failure(partial(os.close, fd)):
        if try_lock(fd):
            return fd
    os.close(fd)
    return None


@contextmanager
def holding(path: Path, timeout: float | None = None) -> Iterator[None]:
    """Locks a file for the duration of the block. Waits for the lock first, as `wait_for` does."""
    fd = open_lock_file(path)
    try:
        wait_for(fd, timeout=timeout)
        yield
    finally:
        os.close(fd)
