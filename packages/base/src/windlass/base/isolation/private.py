"""Files of the machine that the user of Windlass may read and other users may not.

Services of an ordinary user run as the same user, so their cells hide these files. Only what all users may
read stays visible, as it does to a service that has its own user.
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

from windlass.base.isolation.mounts import KERNEL, PROGRAMS
from windlass.base.isolation.settings_copy import FOLDERS as SETTINGS

_OF_THE_MACHINE: Final = ("/var/log", "/var/backups", "/var/mail", "/var/spool")
"""Folders that no program needs and that a group may read, but not all users."""
_SYSTEM: Final = (*PROGRAMS, *KERNEL)
SHARED: Final = ("/var/lib/ca-certificates", "/var/cache/fontconfig")
"""Parts of hidden folders that programs need."""
_DEPTH_OF_SETTINGS: Final = 3
_MOST_SETTINGS: Final = 20_000
_DEPTH_OF_PROGRAMS: Final = 50
_MOST_PROGRAMS: Final = 2_000_000
"""Maximum depth and number of files for the search for private files."""
_STORE: Final = "/nix"
"""All users may read everything in it."""
_STAYS: Final = 60
"""Seconds for which an answer is kept."""


def private_paths(named: Iterable[str]) -> list[str]:
    """Returns the paths to hide. `named`: files and folders that are hidden whatever their mode is."""
    home = ""
    with suppress(KeyError):
        home = pwd.getpwuid(os.geteuid()).pw_dir
    real = [os.path.realpath(path) for path in (home, *named, *_OF_THE_MACHINE) if path.startswith("/")]
    chosen = [path for path in real if _may_be_hidden(path)]
    return [*dict.fromkeys(chosen)]


def _may_be_hidden(path: str) -> bool:
    """Returns whether the system works without a path: it is not a folder that holds all kinds of things."""
    if path.startswith(("/tmp/", "/dev/", "/proc/", "/sys/")):  # noqa: S108
        return False
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:
        return False
    if not stat.S_ISDIR(status.st_mode):
        return True
    is_of_system = f"{path}/".startswith(tuple(f"{folder}/" for folder in _SYSTEM))
    is_top = path.count("/") < 2
    return path != "/" and not is_of_system and not (is_top and status.st_uid != os.geteuid())


def closed_settings() -> tuple[str, ...]:
    """Returns files among the settings that we may read or write and others may not. Landlock hides them
    where cells see no copies of the settings."""
    return _closed_settings(int(time.monotonic() // _STAYS)) if os.geteuid() else ()


@lru_cache(maxsize=1)
def _closed_settings(_: int) -> tuple[str, ...]:
    left = iter(range(_MOST_SETTINGS))
    return tuple(path for folder in SETTINGS for path in _find_private(folder, _DEPTH_OF_SETTINGS, left))


def private_programs(hidden: Iterable[str]) -> list[str]:
    """Returns files and folders below `/usr` and the like that we may read or write, and others may not.
    Cells show them, but for those that are hidden. Takes seconds."""
    hidden = {*hidden}
    left = iter(range(_MOST_PROGRAMS))
    folders = [folder for folder in PROGRAMS if folder != _STORE and not os.path.islink(folder)]  # noqa: PTH114
    found = (path for folder in folders for path in _find_private(folder, _DEPTH_OF_PROGRAMS, left))
    copied = tuple(f"{folder}/" for folder in SETTINGS)
    return [path for path in found if path not in hidden and not f"{path}/".startswith(copied)]


def _find_private(folder: str, depth: int, left: Iterator[int]) -> Iterator[str]:
    """Yields files that this user may read or write and others may not, down to `depth`. `left`: one item
    for each file that may still be checked."""
    try:
        entries = [*os.scandir(folder)]
    except OSError:
        return
    for entry in entries:
        if next(left, None) is None:
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
                yield from _find_private(entry.path, depth - 1, left)
        elif not stat.S_ISLNK(mode) and _is_for_us_alone(entry.path, mode):
            yield entry.path


def _is_for_us_alone(path: str, mode: int) -> bool:
    """Returns whether we may read or write a file, socket, pipe or device, and others may not."""
    reads = os.access(path, os.R_OK) and not mode & stat.S_IROTH
    return reads or (not stat.S_ISREG(mode) and os.access(path, os.W_OK) and not mode & stat.S_IWOTH)
