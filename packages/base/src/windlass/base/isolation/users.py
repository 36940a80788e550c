"""Users of the machine for services: each service gets a user id of a range, forever.

A user id is never assigned twice, because files of a service may outlive it, set aside or in a backup. Ids
that own a folder here are skipped, too, in case the file of assignments was lost. Several installations on
one machine use the same range independently, so each starts at a random id.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from windlass.base import filelock
from windlass.base.atomic_files import write_whole

_RANGE: Final = re.compile(r"([0-9]{1,10})-([0-9]{1,10})\Z")
_READ: Final = stat.S_IROTH
_READ_FOLDER: Final = stat.S_IROTH | stat.S_IXOTH
NAME: Final = "windlass-{0}"
_FOLDERS: Final = ("run/*/*", "run/*/*/*", "run/services/*/*/*", "set-aside/*/*", "set-aside/*/*/*")
_LAST: Final = ".last"
"""Key of the last assigned number, beside the names. No service has this name."""


_PATIENCE: Final = 5.0
"""Seconds to wait for another server that holds the lock."""


class NoUserLeft(Exception):
    """All users of the range are assigned. The message is for the operator."""


def range_of(text: str) -> range:
    match = _RANGE.match(text)
    first, last = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1000 <= first < last < 2**32 - 2:
        raise ValueError("must be the first and the last of a range of users, such as 1900000000-1999999999")
    return range(first, last + 1)


class Users:
    def __init__(self, folder: Path, numbers: range) -> None:
        self._file, self._numbers = folder / "users.json", numbers
        self._known: dict[str, int] = {}

    def of(self, name: str) -> int:
        if name not in self._known:
            with self._locked() as file:
                numbers = _read(file)
                if name not in numbers:
                    numbers[name] = numbers[_LAST] = self._next(numbers)
                    write_whole(file, json.dumps(numbers).encode())
            self._known[name] = numbers[name]
        return self._known[name]

    def all(self) -> dict[str, int]:
        """Returns all assignments: user ids by name."""
        numbers = _read(self._file) if self._file.exists() else {}
        return {name: number for name, number in numbers.items() if name != _LAST}

    def merge(self, added: Mapping[str, int]) -> None:
        """Adds assignments from elsewhere, for example from a backup.

        A number that is assigned to another service here stays so, and the added service gets a new one. A
        number that its service does not need here is never assigned again.
        """
        with self._locked() as file:
            numbers = _read(file)
            taken = set(numbers.values())
            for name, number in added.items():
                if number not in taken:
                    numbers[name if name not in numbers else f"{name} {number}"] = number
                    taken.add(number)
            write_whole(file, json.dumps(numbers).encode())

    def _next(self, assigned: dict[str, int]) -> int:
        """Returns the number after the last one. The first of all is random, so that two installations
        with one range seldom begin alike."""
        numbers, taken = self._numbers, set(assigned.values())
        last = assigned.get(_LAST, -1)
        first = last + 1 - numbers[0] if last in numbers else secrets.randbelow(len(numbers))
        for step in range(len(numbers)):
            number = numbers[(first + step) % len(numbers)]
            if number not in taken:
                return number
        raise NoUserLeft("isolation_users: set a larger range: every user of this one is assigned")

    def _owners(self) -> list[int]:
        """Returns the users of the range who own folders of services, in place or set aside."""
        data = self._file.parent
        owners = (path.lstat().st_uid for parts in _FOLDERS for path in data.glob(parts))
        return sorted({number for number in owners if number in self._numbers})

    @contextmanager
    def _locked(self) -> Iterator[Path]:
        """Holds a lock: several servers may use one folder."""
        with filelock.holding(self._file.with_suffix(".lock"), _PATIENCE):
            if not self._file.exists():
                write_whole(
                    self._file, json.dumps({f"former {owner}": owner for owner in self._owners()}).encode()
                )
            yield self._file


def _read(file: Path) -> dict[str, int]:
    """Raises an OSError for a damaged file: if it counted as empty, ids would be assigned twice."""
    with suppress(ValueError):
        numbers = json.loads(file.read_text())
        if isinstance(numbers, dict) and all(isinstance(number, int) for number in numbers.values()):
            return numbers
    raise OSError(errno.EIO, f"bring back {file.name} of the data directory from a backup: it is damaged")


def change_owner(top: Path, uid: int) -> None:
    """Gives a folder and its contents to a user, without following links, even while a program changes it.
    The folder itself comes last: its owner shows that all is done."""
    if not top.is_dir() or top.stat().st_uid == uid:
        return
    for _, folders, files, at in os.fwalk(top, topdown=False, follow_symlinks=False):
        for name in (*folders, *files):
            os.chown(name, uid, uid, dir_fd=at, follow_symlinks=False)
    os.chown(top, uid, uid)


def give_ours(top: Path, uid: int) -> None:
    """Changes the owner of a folder and of our files in it; files of other users are not changed."""
    ours = os.geteuid()
    for _, folders, files, at in os.fwalk(top, topdown=False, follow_symlinks=False):
        for name in (*folders, *files):
            if os.stat(name, dir_fd=at, follow_symlinks=False).st_uid == ours:
                os.chown(name, uid, uid, dir_fd=at, follow_symlinks=False)
    if top.stat().st_uid == ours:
        os.chown(top, uid, uid)


def make_readable(top: Path) -> None:
    """Makes a folder and its contents readable by all users that may enter its parents. The folder itself
    comes last: its mode shows that all is done. Only for folders that do not change meanwhile."""
    if not top.is_dir() or top.stat().st_mode & _READ_FOLDER == _READ_FOLDER:
        return
    for _, folders, files, at in os.fwalk(top, topdown=False, follow_symlinks=False):
        for name, rights in (*((path, _READ_FOLDER) for path in folders), *((path, _READ) for path in files)):
            mode = os.stat(name, dir_fd=at, follow_symlinks=False).st_mode
            rights |= mode >> 6 & stat.S_IXOTH
            if not stat.S_ISLNK(mode) and mode & rights != rights:
                os.chmod(name, stat.S_IMODE(mode) | rights, dir_fd=at)
    top.chmod(stat.S_IMODE(top.stat().st_mode) | _READ_FOLDER)
