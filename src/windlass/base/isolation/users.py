"""Users of the machine for services: each service gets one of a range, for ever.

A number is never given twice, because files of a service may outlive it, set aside or in a backup.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from windlass.base import filelock
from windlass.base.moving import write_whole

_RANGE: Final = re.compile(r"([0-9]{1,10})-([0-9]{1,10})\Z")
_READ: Final = stat.S_IROTH
_READ_FOLDER: Final = stat.S_IROTH | stat.S_IXOTH
NAME: Final = "windlass-{0}"


class NoUserLeft(Exception):
    """All users of the range are taken; the message is for the operator."""


def range_of(text: str) -> range:
    found = _RANGE.match(text)
    first, last = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1000 <= first < last < 2**32 - 2:
        raise ValueError("must be the first and the last of a range of users, as 1900000000-1999999999")
    return range(first, last + 1)


class Users:
    def __init__(self, folder: Path, numbers: range) -> None:
        self._file, self._numbers = folder / "users.json", numbers
        self._known: dict[str, int] = {}

    def of(self, name: str) -> int:
        if name not in self._known:
            with self._held() as file:
                known: dict[str, int] = json.loads(file.read_text() or "{}")
                if name not in known:
                    known[name] = self._next(known)
                    write_whole(file, json.dumps(known).encode())
            self._known[name] = known[name]
        return self._known[name]

    def _next(self, known: dict[str, int]) -> int:
        number = (
            max((each for each in known.values() if each in self._numbers), default=self._numbers[0] - 1) + 1
        )
        if number not in self._numbers:
            raise NoUserLeft("isolation_users: every user of the range was given away: name a larger one")
        return number

    @contextmanager
    def _held(self) -> Iterator[Path]:
        """Holds a lock: several servers may use one folder."""
        with filelock.held(self._file.with_suffix(".lock")):
            if not self._file.exists():
                write_whole(self._file, b"{}")
            yield self._file


def give(top: Path, uid: int) -> None:
    """Gives a folder and its contents to a user, without following links, also while a program changes
    it. The folder itself comes last: its owner tells that all is done."""
    if not top.is_dir() or top.stat().st_uid == uid:
        return
    for _, folders, files, at in os.fwalk(top, topdown=False, follow_symlinks=False):
        for name in (*folders, *files):
            os.chown(name, uid, uid, dir_fd=at, follow_symlinks=False)
    os.chown(top, uid, uid)


def give_ours(top: Path, uid: int) -> None:
    """Gives our own files in a folder, and the folder, to a user; files of others stay theirs."""
    ours = os.geteuid()
    for _, folders, files, at in os.fwalk(top, topdown=False, follow_symlinks=False):
        for name in (*folders, *files):
            if os.stat(name, dir_fd=at, follow_symlinks=False).st_uid == ours:
                os.chown(name, uid, uid, dir_fd=at, follow_symlinks=False)
    if top.stat().st_uid == ours:
        os.chown(top, uid, uid)


def show(top: Path) -> None:
    """Makes a folder and its contents readable by everybody who may enter its parents. The folder itself
    comes last: its mode tells that all is done. Only for folders that nothing changes meanwhile."""
    if not top.is_dir() or top.stat().st_mode & _READ_FOLDER == _READ_FOLDER:
        return
    for _, folders, files, at in os.fwalk(top, topdown=False, follow_symlinks=False):
        for name, wanted in (*((each, _READ_FOLDER) for each in folders), *((each, _READ) for each in files)):
            mode = os.stat(name, dir_fd=at, follow_symlinks=False).st_mode
            wanted |= mode >> 6 & stat.S_IXOTH
            if not stat.S_ISLNK(mode) and mode & wanted != wanted:
                os.chmod(name, stat.S_IMODE(mode) | wanted, dir_fd=at)
    top.chmod(stat.S_IMODE(top.stat().st_mode) | _READ_FOLDER)
