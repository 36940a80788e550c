"""Erases folders of untrusted programs, even if a tree is deep, unreadable, or still written to."""

from __future__ import annotations

import errno
import os
import secrets
import time
from pathlib import Path
from typing import Final

_MAX_ATTEMPTS: Final = 50
_RETRY_PAUSE: Final = 0.02
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def erase(path: Path) -> None:
    """Erases a folder, a file or a link. Accepts a missing path, and a path that another process erases."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    for attempt in range(1, _MAX_ATTEMPTS + 1):
        try:
            _erase_tree(path)
            return
        except FileNotFoundError:
            if not path.exists():
                return
        except OSError as error:
            # A program that is ending may have created one more file.
            if error.errno != errno.ENOTEMPTY or attempt == _MAX_ATTEMPTS:
                raise
            time.sleep(_RETRY_PAUSE)


def _erase_tree(path: Path) -> None:
    """Erases a folder tree. Moves each folder up to the top level first.

    A program may have made a tree that is deeper than the maximum length of a path, or than the maximum
    number of open files.
    """
    top = _open_folder(path)
    try:
        while folders := _unlink_files(top):
            for name in folders:
                folder = _open_folder(name, top)
                try:
                    for below in _unlink_files(folder):
                        os.close(_open_folder(below, folder))  # a folder without permissions cannot be moved
                        os.rename(below, secrets.token_hex(8), src_dir_fd=folder, dst_dir_fd=top)
                finally:
                    os.close(folder)
                os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    path.rmdir()


def _open_folder(name: Path | str, folder_fd: int | None = None) -> int:
    """Opens a folder and makes it readable first. Never follows a link.

    A running program could replace the folder by a link, so that Windlass would change the link's target.
    """
    pinned = os.open(name, _FOLDER | os.O_PATH, dir_fd=folder_fd)
    try:
        itself = f"/proc/self/fd/{pinned}"
        os.chmod(itself, 0o700)  # noqa: PTH101 (changes the opened folder, even if its name was reused)
        return os.open(itself, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    finally:
        os.close(pinned)


def _unlink_files(folder: int) -> list[str]:
    """Unlinks the files of a folder. Returns the names of its subfolders."""
    with os.scandir(folder) as listing:
        entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in listing]
    for name, is_folder in entries:
        if not is_folder:
            os.unlink(name, dir_fd=folder)
    return [name for name, is_folder in entries if is_folder]
