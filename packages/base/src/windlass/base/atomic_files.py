"""Moves and writes files and folders atomically."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path


def move(source: Path, target: Path) -> None:
    """Renames a file or folder. Raises FileExistsError if the target exists.

    Accepts a missing source, so that an interrupted move can be repeated.
    """
    if not os.path.lexists(source):
        return
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.path.lexists(target):
        raise FileExistsError(f"{target} is there already, and {source} is not moved over it")
    source.rename(target)


def write_whole(file: Path, content: bytes, *, durable: bool = True, draft: str = "new") -> None:
    """Replaces the content of a file atomically: the file is never partial, even on a full disk.

    `durable` syncs the file to disk, so that it survives a power cut. `draft` is the suffix of the temporary
    file's name; concurrent writers need different suffixes.
    """
    temporary = file.with_name(f"{file.name}.{draft}")
    with os.fdopen(
        os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb"
    ) as stream:
        stream.write(content)  # writes all bytes or raises; os.write may write only a part of them
        stream.flush()
        if durable:
            os.fsync(stream.fileno())
    temporary.replace(file)
    if durable:
        sync(file.parent)


def sync(folder: Path) -> None:
    """Syncs a folder, so that renames in it survive a power cut."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def sync_file_system(folder: Path) -> None:
    """Syncs a whole file system. For many small files, this is much faster than a sync of each file."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(opened):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(opened)
