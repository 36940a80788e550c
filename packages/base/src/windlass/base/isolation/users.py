"""Assigns users of the machine to services. Each service keeps its user id permanently.

A user id is never assigned twice, because files of a service may outlive the service, set aside or in a
backup. If the file of assignments is lost, ids that own folders of services are not assigned again. Several
installations on one machine can use the same range independently, so each starts at a random id.
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

_RANGE_PATTERN: Final = re.compile(r"([0-9]{1,10})-([0-9]{1,10})\Z")
_READ: Final = stat.S_IROTH
_READ_FOLDER: Final = stat.S_IROTH | stat.S_IXOTH
USER_NAME: Final = "windlass-{0}"
_FOLDERS: Final = ("run/*/*", "run/*/*/*", "run/services/*/*/*", "set-aside/*/*", "set-aside/*/*/*")
_LAST_ID_KEY: Final = ".last"
"""The key of the last assigned user id, among the names. No service has this name."""


_LOCK_TIMEOUT: Final = 5.0
"""The seconds to wait for the lock while another server holds it."""


class NoUserLeft(Exception):
    """All users of the range are assigned. The message is for the operator."""


def range_of(text: str) -> range:
    match = _RANGE_PATTERN.match(text)
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
            with self._lock_assignments() as file:
                numbers = _read(file)
                if name not in numbers:
                    numbers[name] = numbers[_LAST_ID_KEY] = self._next_free_id(numbers)
                    write_whole(file, json.dumps(numbers).encode())
            self._known[name] = numbers[name]
        return self._known[name]

    def all(self) -> dict[str, int]:
        """Returns all assigned user ids by name."""
        numbers = _read(self._file) if self._file.exists() else {}
        return {name: number for name, number in numbers.items() if name != _LAST_ID_KEY}

    def merge(self, added_counts: Mapping[str, int]) -> None:
        """Adds assignments from elsewhere, for example from a backup.

        If a user id already belongs to another service, that service keeps it, and the added service gets
        another id. If the added service already has an id, its added id is reserved and not assigned.
        """
        with self._lock_assignments() as file:
            numbers = _read(file)
            taken = set(numbers.values())
            for name, number in added_counts.items():
                if number not in taken:
                    numbers[name if name not in numbers else f"{name} {number}"] = number
                    taken.add(number)
            write_whole(file, json.dumps(numbers).encode())

    def _next_free_id(self, assigned: dict[str, int]) -> int:
        """Returns the next free user id after the last assigned one. The very first id is random, so that two
        installations with the same range rarely have the same ids."""
        numbers, taken = self._numbers, set(assigned.values())
        last = assigned.get(_LAST_ID_KEY, -1)
        first = last + 1 - numbers[0] if last in numbers else secrets.randbelow(len(numbers))
        for step in range(len(numbers)):
            number = numbers[(first + step) % len(numbers)]
            if number not in taken:
                return number
        raise NoUserLeft("isolation_users: set a larger range: every user of this one is assigned")

    def _folder_owners(self) -> list[int]:
        """Returns the users of the range that own folders of services, in use or set aside."""
        data = self._file.parent
        owners = (path.lstat().st_uid for parts in _FOLDERS for path in data.glob(parts))
        return sorted({number for number in owners if number in self._numbers})

    @contextmanager
    def _lock_assignments(self) -> Iterator[Path]:
        """Locks the file of assignments, which several servers may use. Creates the file if it is missing."""
        with filelock.holding(self._file.with_suffix(".lock"), _LOCK_TIMEOUT):
            if not self._file.exists():
                write_whole(
                    self._file,
                    json.dumps({f"former {owner}": owner for owner in self._folder_owners()}).encode(),
                )
            yield self._file


def _read(file: Path) -> dict[str, int]:
    """Reads the assignments. Raises an OSError for a damaged file, because ids must not be assigned twice."""
    with suppress(ValueError):
        numbers = json.loads(file.read_text())
        if isinstance(numbers, dict) and all(isinstance(number, int) for number in numbers.values()):
            return numbers
    raise OSError(errno.EIO, f"bring back {file.name} of the data directory from a backup: it is damaged")


def change_owner(root: Path, uid: int) -> None:
    """Makes a user the owner of a folder and its contents, without following links, even if programs run.

    The folder itself comes last, so that its owner shows that the work is complete.
    """
    if not root.is_dir() or root.stat().st_uid == uid:
        return
    for _, folders, files, at in os.fwalk(root, topdown=False, follow_symlinks=False):
        for name in (*folders, *files):
            os.chown(name, uid, uid, dir_fd=at, follow_symlinks=False)
    os.chown(root, uid, uid)


def give_ours(root: Path, uid: int) -> None:
    """Makes a user the owner of a folder and its contents, except files that belong to other users."""
    ours = os.geteuid()
    for _, folders, files, at in os.fwalk(root, topdown=False, follow_symlinks=False):
        for name in (*folders, *files):
            if os.stat(name, dir_fd=at, follow_symlinks=False).st_uid == ours:
                os.chown(name, uid, uid, dir_fd=at, follow_symlinks=False)
    if root.stat().st_uid == ours:
        os.chown(root, uid, uid)


def make_readable(root: Path) -> None:
    """Makes a folder and its contents readable by all users who may enter its parents.

    The folder itself comes last, so that its mode shows that all work is done. It must not change meanwhile.
    """
    if not root.is_dir() or root.stat().st_mode & _READ_FOLDER == _READ_FOLDER:
        return
    for _, folders, files, at in os.fwalk(root, topdown=False, follow_symlinks=False):
        for name, rights in (*((path, _READ_FOLDER) for path in folders), *((path, _READ) for path in files)):
            mode = os.stat(name, dir_fd=at, follow_symlinks=False).st_mode
            rights |= mode >> 6 & stat.S_IXOTH
            if not stat.S_ISLNK(mode) and mode & rights != rights:
                os.chmod(name, stat.S_IMODE(mode) | rights, dir_fd=at)
    root.chmod(stat.S_IMODE(root.stat().st_mode) | _READ_FOLDER)
