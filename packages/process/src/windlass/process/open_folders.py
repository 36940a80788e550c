"""Reads and writes files in folders that a program may change at the same time.

Each function starts at an open folder and does not follow links. Windlass has more permissions than the
program. If each function resolved the whole path again, the program could replace a folder with a link
between two calls.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
NEW_FILE_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
UNCHANGED: Final = -1
"""A value for `owner` that does not change the owner."""


@contextmanager
def open_below(root: Path, parts: Sequence[str] = (), owner: int = UNCHANGED) -> Iterator[int]:
    """Opens a folder below `root`. Creates missing folders in the path."""
    at = os.open(root, FOLDER_FLAGS)
    try:
        for name in parts:
            below = folder(name, at, owner)
            os.close(at)
            at = below
        yield at
    finally:
        os.close(at)


def folder(name: str, folder_fd: int, owner: int = UNCHANGED) -> int:
    """Opens a subfolder, and creates it if it is missing. Raises an OSError if the name belongs to a link or
    a file."""
    is_new = False
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=folder_fd)
        is_new = True
    below = os.open(name, FOLDER_FLAGS, dir_fd=folder_fd)
    if is_new:
        os.fchown(below, owner, owner)
    return below


def write(name: str, folder_fd: int, content: bytes, owner: int = UNCHANGED) -> None:
    """Writes a new file. Removes an existing file or link of the same name first."""
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder_fd)
    with os.fdopen(os.open(name, NEW_FILE_FLAGS, 0o600, dir_fd=folder_fd), "wb") as file:
        file.write(content)
        os.fchown(file.fileno(), owner, owner)


def read(name: str, folder_fd: int, limit: int) -> bytes:
    """Returns the first `limit` bytes of a regular file. Raises an OSError for other kinds of files."""
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder_fd)
    with os.fdopen(file, "rb") as opened:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(errno.EINVAL, "it is no file")
        return opened.read(limit)
