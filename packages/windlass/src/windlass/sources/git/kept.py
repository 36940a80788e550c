"""Working copies that stay for the next fetch of the same service: the store of the last commit, with its
files checked out once more.

    <home>/kept/<name>/copy      no build sees this folder before a fetch takes it away
    <home>/kept/<name>/note      there only while the copy is complete
    <home>/kept/<name>.lock      held from the beginning of a fetch until the copy is ready for the next one

A fetch removes the note before it takes the copy, so that nothing is trusted that a kill has left. A note
counts until the machine starts again, because git does not sync what it writes here.
"""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

import msgspec
from msgspec import Struct

from windlass.base import filelock, subprocesses
from windlass.base.atomic_files import write_whole
from windlass.base.private import private_folder
from windlass.sources.git.limits import measure
from windlass.sources.git.remote import Remote

FOLDER: Final = "kept"
_DAYS: Final = 7
"""Days for which a copy is kept without use."""
_MOST_BYTES: Final = 256 * 1024**2
"""Bytes of a store that is kept."""
_MOST_PACKS: Final = 20
"""Maximum number of packs in a kept copy. Each fetch adds one, and git searches objects in all of them."""
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")


class KeptCommit(Struct, frozen=True):
    """The note about a copy: the commit that is checked out."""

    url: str
    commit: str
    boot: str
    """The id of the start of the machine in which the copy was written."""
    attributes: Mapping[str, str]
    """The files `.gitattributes`, which decide how git writes all others."""


class KeptCopy:
    """The kept copy with one name, which is locked against other fetches."""

    def __init__(self, folder: Path, lock: int) -> None:
        self._folder, self._lock = folder, lock
        self._copy, self._note = folder / "copy", folder / "note"
        self._times: dict[str, int] = {}
        self._next: KeptCommit | None = None
        """The note about the copy that is prepared for the next fetch."""
        self.taken: KeptCommit | None = None
        """The note of the copy that this fetch continues; None if it begins with an empty folder."""

    @classmethod
    def hold(cls, home: Path, name: str) -> Self | None:
        """Returns None if another fetch of this name is in progress."""
        folder = private_folder(home / FOLDER) / name
        lock = filelock.try_hold(folder.with_name(f"{name}.lock"))
        if lock is None:
            return None
        os.utime(lock)
        return cls(folder, lock)

    def take(self, url: str, into: Path) -> None:
        """Moves the copy to this empty folder, if it is one of this repository that can be trusted."""
        note = self._read()
        self._note.unlink(missing_ok=True)
        if note and note.url == url and note.boot == _boot() and (self._copy / ".git").is_dir():
            into.rmdir()
            if _try_move(self._copy, into):
                self.taken = note
                return
            into.mkdir(mode=0o700)
        self.forget()

    def forget(self) -> None:
        """Erases the copy."""
        self.taken = self._next = None
        self._note.unlink(missing_ok=True)
        shutil.rmtree(self._folder, ignore_errors=True)

    def leave_store(self, copy: Path, url: str, commit: str, attributes: Mapping[str, str]) -> None:
        """Moves the store out of a copy that a build gets, and notes the times of its files: tools take files
        with other times for changed ones."""
        private_folder(self._folder)
        shutil.rmtree(self._copy, ignore_errors=True)
        self._copy.mkdir(mode=0o700)
        if not _try_move(copy / ".git", self._copy / ".git"):
            shutil.rmtree(copy / ".git")
            self.forget()
            return
        self._times = dict(_times(copy))
        self._next = KeptCommit(url, commit, _boot(), attributes)

    async def prepare(self, remote: Remote) -> None:
        """Checks the files out once more, for the next fetch."""
        if self._next is None:
            return
        if not await subprocesses.in_thread(self._is_small_enough):
            await subprocesses.in_thread(self.forget)
            return
        await subprocesses.in_thread((self._copy / ".git" / "index").unlink, True)
        words = ("checkout", "--quiet", "--force", "--detach", self._next.commit)
        await remote.run(*words, copy=self._copy, watched=self._copy)
        await subprocesses.in_thread(self._set_times)
        await remote.run("update-index", "-q", "--refresh", copy=self._copy)
        await subprocesses.in_thread(write_whole, self._note, msgspec.json.encode(self._next))

    def close(self) -> None:
        os.close(self._lock)

    def _is_small_enough(self) -> bool:
        packs = len([*(self._copy / ".git" / "objects" / "pack").glob("*.pack")])
        return packs <= _MOST_PACKS and measure(self._copy / ".git")[0] <= _MOST_BYTES

    def _set_times(self) -> None:
        for path, modified in self._times.items():
            with suppress(FileNotFoundError):
                os.utime(self._copy / path, ns=(modified, modified), follow_symlinks=False)

    def _read(self) -> KeptCommit | None:
        try:
            return msgspec.json.decode(self._note.read_bytes(), type=KeptCommit)
        except (FileNotFoundError, msgspec.DecodeError):
            return None


def discard(home: Path, name: str) -> None:
    """Erases a kept copy. A copy that a fetch is using is erased later, when it is unused."""
    if kept := KeptCopy.hold(home, name):
        kept.forget()
        (home / FOLDER / f"{name}.lock").unlink(missing_ok=True)
        kept.close()


def sweep(home: Path) -> None:
    """Erases copies that no fetch has used for days."""
    for lock in (home / FOLDER).glob("*.lock"):
        if time.time() - lock.stat().st_mtime > _DAYS * 86_400:
            discard(home, lock.stem)


def _times(top: Path, below: str = "") -> list[tuple[str, int]]:
    times: list[tuple[str, int]] = []
    with os.scandir(top / below) as entries:
        for entry in entries:
            path = f"{below}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                times += _times(top, f"{path}/")
            else:
                times.append((path, entry.stat(follow_symlinks=False).st_mtime_ns))
    return times


def _try_move(folder: Path, to: Path) -> bool:
    """Moves a folder. False if that is on another disk: a copy would cost more than a whole fetch."""
    try:
        folder.rename(to)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        return False
    return True


def _boot() -> str:
    return _BOOT.read_text().strip()
