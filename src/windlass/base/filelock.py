"""Locks between processes, each on a file. The kernel releases a lock when its holder ends, however it ends.

A lock belongs to the open file: processes that inherit the descriptor hold it, too.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from windlass.base.cleanup import on_failure


def open_lock_file(path: Path) -> int:
    """Opens a lock file; creates it if it is missing."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def wait_for(fd: int, *, shared: bool = False) -> None:
    """Locks an open file; waits until all other holders have released it. Shared locks do not exclude each
    other."""
    fcntl.flock(fd, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)


def try_lock(fd: int, *, shared: bool = False) -> bool:
    """Locks an open file, unless another holder has it. Shared locks do not exclude each other."""
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def release(fd: int) -> None:
    """Releases the lock of a file that stays open. Closing the file releases it, too."""
    fcntl.flock(fd, fcntl.LOCK_UN)


def is_at(fd: int, path: Path) -> bool:
    """Returns whether the path still leads to this open file, and not to another that replaced it."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(fd), path.stat())
    return False


def try_hold(path: Path) -> int | None:
    """Returns the descriptor of the locked file, to be closed; None if another holder has the lock."""
    fd = open_lock_file(path)
    with on_failure(partial(os.close, fd)):
        if try_lock(fd):
            return fd
    os.close(fd)
    return None


@contextmanager
def holding(path: Path) -> Iterator[None]:
    """Holds the lock of a file; waits for it first."""
    fd = open_lock_file(path)
    try:
        wait_for(fd)
        yield
    finally:
        os.close(fd)
