"""Finds files of the machine that the user of Windlass may read and other users may not.

Without root, services run as the user of Windlass, so their cells hide these files. Only files that all users
may read stay visible, as they are to a service with its own user.
"""

from __future__ import annotations

import os
import pwd
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Final

from windlass.base.isolation.mounts import KERNEL_FOLDERS, PROGRAM_FOLDERS
from windlass.base.isolation.settings_copy import SETTINGS_FOLDERS as SETTINGS

_MACHINE_DATA_FOLDERS: Final = ("/var/log", "/var/backups", "/var/mail", "/var/spool")
"""Folders that no program needs, with files that a group may read and other users may not."""
_SYSTEM_FOLDERS: Final = (*PROGRAM_FOLDERS, *KERNEL_FOLDERS)
SHARED_FOLDERS: Final = ("/var/lib/ca-certificates", "/var/cache/fontconfig")
"""Folders inside hidden folders that programs need."""
_DEPTH_OF_SETTINGS: Final = 3
_MAX_SETTINGS: Final = 20_000
_DEPTH_OF_PROGRAMS: Final = 50
_MAX_PROGRAMS: Final = 2_000_000
"""The maximum depths and numbers of files for searches for private files."""
_NIX_STORE: Final = "/nix"
"""The store of Nix, in which all files are readable for all users."""
_CACHE_SECONDS: Final = 60
"""The seconds for which a search result is cached."""


def private_paths(named: Iterable[str]) -> list[str]:
    """Returns the paths to hide. `named`: files and folders that are hidden whatever their mode."""
    home = ""
    with suppress(KeyError):
        home = pwd.getpwuid(os.geteuid()).pw_dir
    real = [os.path.realpath(path) for path in (home, *named, *_MACHINE_DATA_FOLDERS) if path.startswith("/")]
    chosen = [path for path in real if _may_be_hidden(path)]
    return [*dict.fromkeys(chosen)]


def _may_be_hidden(path: str) -> bool:
    """Returns whether the system works without a path. Rejects general folders, such as /etc."""
    if path.startswith(("/tmp/", "/dev/", "/proc/", "/sys/")):  # noqa: S108
        return False
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:
        return False
    if not stat.S_ISDIR(status.st_mode):
        return True
    is_of_system = f"{path}/".startswith(tuple(f"{folder}/" for folder in _SYSTEM_FOLDERS))
    is_top = path.count("/") < 2
    return path != "/" and not is_of_system and not (is_top and status.st_uid != os.geteuid())


def closed_settings() -> tuple[str, ...]:
    """Returns settings files that this user may read or write and other users may not.

    Landlock hides these files from cells without copies of the settings folders.
    """
    return _find_private_settings(int(time.monotonic() // _CACHE_SECONDS)) if os.geteuid() else ()


@lru_cache(maxsize=1)
def _find_private_settings(_: int) -> tuple[str, ...]:
    left = iter(range(_MAX_SETTINGS))
    return tuple(path for folder in SETTINGS for path in _find_private(folder, _DEPTH_OF_SETTINGS, left))


def private_programs(hidden_paths: Iterable[str]) -> list[str]:
    """Returns the paths below `/usr` and the like that this user may read or write and others may not.

    Cells can see these files, unless they are in `hidden_paths`. Takes seconds.
    """
    hidden_paths = {*hidden_paths}
    left = iter(range(_MAX_PROGRAMS))
    folders = [folder for folder in PROGRAM_FOLDERS if folder != _NIX_STORE and not os.path.islink(folder)]  # noqa: PTH114
    found = (path for folder in folders for path in _find_private(folder, _DEPTH_OF_PROGRAMS, left))
    copied = tuple(f"{folder}/" for folder in SETTINGS)
    return [path for path in found if path not in hidden_paths and not f"{path}/".startswith(copied)]


def _find_private(folder: str, depth: int, remaining_tries: Iterator[int]) -> Iterator[str]:
    """Yields the paths below a folder that this user may read or write and other users may not.

    `remaining_tries`: an iterator with an item for each file that may still be checked.
    """
    try:
        entries = [*os.scandir(folder)]
    except OSError:
        return
    for entry in entries:
        if next(remaining_tries, None) is None:
            continue
        try:
            mode = entry.stat(follow_symlinks=False).st_mode
        except OSError:
            continue
        if stat.S_ISDIR(mode):
            if not mode & stat.S_IXOTH:
                if os.access(entry.path, os.X_OK):
                    yield entry.path
            elif depth > 1:
                yield from _find_private(entry.path, depth - 1, remaining_tries)
        elif not stat.S_ISLNK(mode) and _is_for_us_alone(entry.path, mode):
            yield entry.path


def _is_for_us_alone(path: str, mode: int) -> bool:
    """Returns whether this user may read or write a file, socket, pipe or device and others may not."""
    reads = os.access(path, os.R_OK) and not mode & stat.S_IROTH
    return reads or (not stat.S_ISREG(mode) and os.access(path, os.W_OK) and not mode & stat.S_IWOTH)
