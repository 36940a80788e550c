"""Files and folders of a data directory are for their owner alone, whatever the umask says."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final

OTHERS: Final = 0o077
_LISTING: Final = 0o066


def private_folder(path: Path) -> Path:
    """The folder, made for its owner alone if it is not there, as are those above it that are missing."""
    for each in reversed([path, *path.parents]):
        if not each.is_dir():
            each.mkdir(mode=0o700, exist_ok=True)
    return path


def private_file(path: Path) -> None:
    """An empty file for its owner alone, or the file as it is, closed to others."""
    made = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(made, stat.S_IMODE(os.fstat(made).st_mode) & ~OTHERS)
    finally:
        os.close(made)


def is_passable(folder: Path) -> bool:
    """True if other users may enter the folder."""
    return bool(folder.stat().st_mode & 0o011)


def close_to_others(folder: Path, passable: Collection[str] = ()) -> list[str]:
    """Takes the rights of others from what lies directly in a folder, and so from all below. Answers the
    names of the files that were open. Others may pass through the folders named, but not list them."""
    read = []
    for entry in os.scandir(folder):
        if entry.is_symlink():
            continue
        mode = stat.S_IMODE(entry.stat(follow_symlinks=False).st_mode)
        wanted = mode & ~(_LISTING if entry.name in passable else OTHERS)
        if wanted == mode:
            continue
        with suppress(PermissionError):  # of another user, who decides about it
            os.chmod(entry.path, wanted)  # noqa: PTH101 (an entry of os.scandir)
            read += [entry.name] if entry.is_file() else []
    return sorted(read)
