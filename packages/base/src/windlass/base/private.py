"""Makes files and folders of a data directory accessible to their owner only, regardless of the umask."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final

OTHERS_MODE: Final = 0o077
_LISTING_MODE: Final = 0o066


def private_folder(path: Path) -> Path:
    """Creates a folder and its missing parents with access for the owner only. Returns the folder."""
    for folder in reversed([path, *path.parents]):
        if not folder.is_dir():
            folder.mkdir(mode=0o700, exist_ok=True)
    return path


def private_file(path: Path) -> None:
    """Removes other users' access to a file. Creates an empty file if it is missing."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(descriptor, stat.S_IMODE(os.fstat(descriptor).st_mode) & ~OTHERS_MODE)
    finally:
        os.close(descriptor)


def is_read_only(file: Path | int) -> bool:
    """Returns whether the file system of a file or folder refuses changes.

    Sets the file's times to their current values. Mount options are not enough, because after an error the
    kernel may refuse changes without listing the file system as read-only.
    """
    try:
        times = os.stat(file)  # noqa: PTH116 (it may be a descriptor)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    except OSError as error:
        return error.errno == errno.EROFS
    return False


def owner_of(path: Path) -> str:
    """Returns the name of the user who owns a file or folder, or the user id if it has no name."""
    try:
        return path.owner()
    except KeyError:
        return str(path.stat().st_uid)


def is_traversable(folder: Path) -> bool:
    """Returns whether other users may traverse a folder."""
    return bool(folder.stat().st_mode & 0o011)


def close_to_others(folder: Path, passable: Collection[str] = ()) -> list[str]:
    """Removes other users' access to the direct entries of a folder, and thereby to everything below.

    Other users may still traverse the folders in `passable`, but not list them. Returns the names of the
    changed files, which others may have read.
    """
    read = []
    for entry in os.scandir(folder):
        if entry.is_symlink():
            continue
        mode = stat.S_IMODE(entry.stat(follow_symlinks=False).st_mode)
        allowed = mode & ~(_LISTING_MODE if entry.name in passable else OTHERS_MODE)
        if allowed == mode:
            continue
        with suppress(PermissionError):  # the entry belongs to another user, who decides about it
            os.chmod(entry.path, allowed)  # noqa: PTH101 (an entry of os.scandir)
            read += [entry.name] if entry.is_file() else []
    return sorted(read)
