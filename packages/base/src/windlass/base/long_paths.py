"""Lists folders whose paths are longer than the kernel takes at once.

A program can make such folders, one inside the other, and hide files there from whoever measures its disk
space.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_MAX_PATH_LENGTH: Final = 4000
"""Maximum number of bytes of a path that is given to the kernel at once: fewer than PATH_MAX, 4096."""
MAX_DEPTH_BYTES: Final = 32 * 1024
"""Maximum length of a path. To list all folders of a longer one would take too long."""
HIDDEN_BYTES: Final = 1 << 40
"""Number of bytes as which a folder counts that is not listed for its long path."""
_STEP: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LAST: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class PathTooLong(Exception):
    """Raised for a folder whose path is longer than MAX_DEPTH_BYTES."""


@contextmanager
def folder_entries(path: str) -> Iterator[Iterator[os.DirEntry[str]]]:
    """Yields the entries of a folder. Their `path` is not complete if that of the folder is long. Raises
    OSError and PathTooLong."""
    length = len(os.fsencode(path))
    if length > MAX_DEPTH_BYTES:
        raise PathTooLong
    if length <= _MAX_PATH_LENGTH:
        with os.scandir(path) as entries:
            yield entries
        return
    folder = _open(path)
    try:
        with os.scandir(folder) as entries:
            yield entries
    finally:
        os.close(folder)


def _open(path: str) -> int:
    left, folder = os.fsencode(path), -1
    try:
        while len(left) > _MAX_PATH_LENGTH:
            first, _, rest = left[:_MAX_PATH_LENGTH].rpartition(b"/")
            folder, before = _open_step(first, folder, _STEP), folder
            _close(before)
            left = rest + left[_MAX_PATH_LENGTH:]
        return _open_step(left, folder, _LAST)
    finally:
        _close(folder)


def _open_step(path: bytes, folder: int, flags: int) -> int:
    return os.open(path, flags) if folder < 0 else os.open(path, flags, dir_fd=folder)


def _close(folder: int) -> None:
    if folder >= 0:
        os.close(folder)
