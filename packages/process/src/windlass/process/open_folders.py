"""Reads and writes in folders that a program may change meanwhile: each call starts at an open folder and
follows no link.

Windlass has more rights than the program. If each call resolved the whole path again, the program could
replace a folder by a link between two calls.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
UNCHANGED: Final = -1
"""An owner id that leaves the owner of a file unchanged."""


@contextmanager
def open_below(top: Path, parts: Sequence[str] = (), owner: int = UNCHANGED) -> Iterator[int]:
    """Opens a folder below `top`. Makes missing folders on the way."""
    at = os.open(top, FOLDER)
    try:
        for name in parts:
            below = folder(name, at, owner)
            os.close(at)
            at = below
        yield at
    finally:
        os.close(at)


def folder(name: str, at: int, owner: int = UNCHANGED) -> int:
    """Opens the folder of this name; makes it if it is missing. Raises an OSError for a link or a file."""
    is_new = False
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=at)
        is_new = True
    below = os.open(name, FOLDER, dir_fd=at)
    if is_new:
        os.fchown(below, owner, owner)
    return below


def write(name: str, at: int, content: bytes, owner: int = UNCHANGED) -> None:
    """Writes a new file. Removes a file or link of the same name first."""
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=at)
    with os.fdopen(os.open(name, NEW_FILE, 0o600, dir_fd=at), "wb") as file:
        file.write(content)
        os.fchown(file.fileno(), owner, owner)


def read(name: str, at: int, most: int) -> bytes:
    """Returns the beginning of a plain file. Raises an OSError for anything else."""
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
    with os.fdopen(file, "rb") as opened:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(errno.EINVAL, "it is no file")
        return opened.read(most)
