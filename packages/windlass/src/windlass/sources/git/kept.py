"""Working copies that are kept for the next fetch of the same service: a git store with checked out files.

    <home>/kept/<name>/copy      the working copy, which no build uses before a fetch has moved it away
    <home>/kept/<name>/note      exists only while the copy is complete
    <home>/kept/<name>.lock      locked from the start of a fetch until the next copy is prepared

A fetch removes the note before it moves the copy, so that a copy without a note, left by a killed server, is
not trusted. A note is valid until the machine is rebooted, because git does not sync the copy to the disk.
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

KEPT_FOLDER: Final = "kept"
_UNUSED_DAYS: Final = 7
"""Days without use after which a kept copy is deleted."""
_MAX_BYTES: Final = 256 * 1024**2
"""Largest git store that is kept, in bytes."""
_MAX_PACKS: Final = 20
"""Largest number of packs in a kept store. Each fetch adds a pack, and git searches all packs for an
object."""
_BOOT_ID_FILE: Final = Path("/proc/sys/kernel/random/boot_id")


class KeptCommit(Struct, frozen=True):
    """The note of a kept copy, with the commit that is checked out."""

    url: str
    commit: str
    boot: str
    """The boot id of the machine when the copy was written."""
    attributes: Mapping[str, str]
    """Digests of all `.gitattributes` files, which determine how git writes the other files."""


class KeptCopy:
    """The kept copy of one service. Its lock excludes other fetches for the same service."""

    def __init__(self, folder: Path, lock: int) -> None:
        self._folder, self._lock = folder, lock
        self._copy, self._note = folder / "copy", folder / "note"
        self._times: dict[str, int] = {}
        self._next: KeptCommit | None = None
        """The note for the next fetch, of the copy that is being prepared."""
        self.taken: KeptCommit | None = None
        """The note of the copy that this fetch continues; None if the fetch starts with an empty folder."""

    @classmethod
    def hold(cls, home: Path, name: str) -> Self | None:
        """Locks the kept copy of a name. Returns None if another fetch has the lock."""
        folder = private_folder(home / KEPT_FOLDER) / name
        lock = filelock.try_hold(folder.with_name(f"{name}.lock"))
        if lock is None:
            return None
        os.utime(lock)
        return cls(folder, lock)

    def take(self, url: str, destination: Path) -> None:
        """Moves the kept copy into an empty folder, if it is a trustworthy copy of the same repository.
        Deletes it otherwise."""
        note = self._read()
        self._note.unlink(missing_ok=True)
        if note and note.url == url and note.boot == _boot() and (self._copy / ".git").is_dir():
            destination.rmdir()
            if _try_move(self._copy, destination):
                self.taken = note
                return
            destination.mkdir(mode=0o700)
        self.forget()

    def forget(self) -> None:
        """Deletes the kept copy."""
        self.taken = self._next = None
        self._note.unlink(missing_ok=True)
        shutil.rmtree(self._folder, ignore_errors=True)

    def leave_store(self, copy: Path, url: str, commit: str, attributes: Mapping[str, str]) -> None:
        """Moves the git store out of a working copy that a build gets, and records the modification times of
        its files.

        The next working copy gets the same times, because build tools take a file with another time for a
        changed one.
        """
        private_folder(self._folder)
        shutil.rmtree(self._copy, ignore_errors=True)
        self._copy.mkdir(mode=0o700)
        if not _try_move(copy / ".git", self._copy / ".git"):
            shutil.rmtree(copy / ".git")
            self.forget()
            return
        self._times = dict(_modification_times(copy))
        self._next = KeptCommit(url, commit, _boot(), attributes)

    async def prepare(self, remote: Remote) -> None:
        """Checks out the files again for the next fetch, and writes the note."""
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
        return packs <= _MAX_PACKS and measure(self._copy / ".git")[0] <= _MAX_BYTES

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
    """Deletes a kept copy. Does nothing while a fetch uses the copy."""
    if kept := KeptCopy.hold(home, name):
        kept.forget()
        (home / KEPT_FOLDER / f"{name}.lock").unlink(missing_ok=True)
        kept.close()


def sweep(home: Path) -> None:
    """Deletes kept copies that have not been used for days."""
    for lock in (home / KEPT_FOLDER).glob("*.lock"):
        if time.time() - lock.stat().st_mtime > _UNUSED_DAYS * 86_400:
            discard(home, lock.stem)


def _modification_times(root: Path, folder: str = "") -> list[tuple[str, int]]:
    times: list[tuple[str, int]] = []
    with os.scandir(root / folder) as entries:
        for entry in entries:
            path = f"{folder}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                times += _modification_times(root, f"{path}/")
            else:
                times.append((path, entry.stat(follow_symlinks=False).st_mtime_ns))
    return times


def _try_move(folder: Path, target: Path) -> bool:
    """Moves a folder. Returns False if the target is on another disk, because copying would take longer than
    a fetch."""
    try:
        folder.rename(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        return False
    return True


def _boot() -> str:
    return _BOOT_ID_FILE.read_text().strip()
