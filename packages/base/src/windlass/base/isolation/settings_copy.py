"""Copies the publicly readable files of /etc and /usr/local/etc, for services to see instead.

In the original folders, services that run as the user of Windlass would see private files that appear later.
In addition, a mount over a file, such as the hosts file, is lost when the machine replaces the file.
"""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

SETTINGS_FOLDERS: Final = ("/etc", "/usr/local/etc")
"""Folders that contain settings of programs and of users."""
_CACHE_SECONDS: Final = 60.0
"""The seconds after which the copies are compared with the originals again."""
_MAX_FILE_BYTES: Final = 8 << 20
_compared: dict[str, float] = {}


def settings_copies(target: str, folders: Iterable[str] = SETTINGS_FOLDERS) -> dict[str, str]:
    """Updates the copies unless they were updated recently. Returns the path of the copy for each folder."""
    copies = {folder: f"{target}{folder}" for folder in folders if os.path.isdir(folder)}  # noqa: PTH112
    now = time.monotonic()
    if target not in _compared or now - _compared[target] > _CACHE_SECONDS:
        for folder, copy in copies.items():
            os.makedirs(copy, exist_ok=True)  # noqa: PTH103 (this runs at starts)
            for folder_of_copy in (os.path.dirname(copy), copy):  # noqa: PTH120
                os.chmod(folder_of_copy, 0o755)  # noqa: PTH101, S103
            _update(folder, copy)
        _compared[target] = now
    return copies


def _update(source: str, target: str) -> None:
    present = {entry.name: entry for entry in os.scandir(target)}
    for entry in os.scandir(source):
        copy = f"{target}/{entry.name}"
        with suppress(OSError):  # the file was removed meanwhile, or is unreadable
            if _copy_entry(entry, copy, present.get(entry.name)):
                present.pop(entry.name, None)
    for gone in present.values():
        _remove(gone)


def _copy_entry(entry: os.DirEntry[str], copy: str, present: os.DirEntry[str] | None) -> bool:
    """Copies an entry if all users may read it. Returns whether they may.

    Overwrites files in place, so that mounts over them in running services remain.
    """
    status = entry.stat(follow_symlinks=False)
    mode = status.st_mode
    if present and stat.S_IFMT(present.stat(follow_symlinks=False).st_mode) != stat.S_IFMT(mode):
        _remove(present)
        present = None
    if stat.S_ISLNK(mode):
        leads = os.readlink(entry.path)  # noqa: PTH115
        if present and os.readlink(copy) != leads:  # noqa: PTH115
            os.unlink(copy)  # noqa: PTH108
            present = None
        if not present:
            os.symlink(leads, copy)  # noqa: PTH211
        return True
    if stat.S_ISDIR(mode) and mode & 0o005 == 0o005:
        os.makedirs(copy, exist_ok=True)  # noqa: PTH103
        os.chmod(copy, 0o755)  # noqa: PTH101, S103
        _update(entry.path, copy)
        return True
    if not stat.S_ISREG(mode) or not mode & stat.S_IROTH or status.st_size > _MAX_FILE_BYTES:
        return False
    known = present.stat(follow_symlinks=False) if present else None
    if known is None or (known.st_size, known.st_mtime_ns) != (status.st_size, status.st_mtime_ns):
        shutil.copyfile(entry.path, copy, follow_symlinks=False)
        os.chmod(copy, 0o644 | mode & 0o111)  # noqa: PTH101
        os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))
    return True


def _remove(entry: os.DirEntry[str]) -> None:
    if entry.is_dir(follow_symlinks=False):
        shutil.rmtree(entry.path, ignore_errors=True)
    else:
        os.unlink(entry.path)  # noqa: PTH108
