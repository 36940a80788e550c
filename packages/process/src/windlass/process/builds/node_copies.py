"""The copy of installed packages that a build works with: it stays for the next build of the service, unless
this one has changed it.

A copy that nothing has changed is the same as the packages that it was made of, which the artifact then names
instead. So a change of the code copies no package, of which there may be thousands.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from windlass.base.atomic_files import write_whole
from windlass.base.folder_removal import erase
from windlass.process.builds.caches import BuildCaches

_CACHES: Final = {".cache", ".vite"}
"""Folders that tools write to, which are stored separately."""
_TICK: Final = 0.02
"""Seconds after which the file system certainly assigns another modification time."""


class _CopyNote(Struct, frozen=True):
    packages: str
    """The name of the folder that was copied."""
    finished: int
    """The time at which the copy was whole, in nanoseconds of the file system."""


class PackageCopy:
    """The copy of one build, at `folder`/node_modules while it runs."""

    def __init__(self, caches: BuildCaches, packages: Path, folder: Path) -> None:
        self._kept, self._file = caches.kept / "packages", caches.own / "packages.json"
        self._packages, self._place = packages, folder / "node_modules"

    def put_in(self) -> bool:
        """Returns whether the copy of an earlier build is in its place now. Otherwise nothing is there."""
        self._place.unlink(missing_ok=True)
        note = self._note()
        if note and note.packages == self._packages.name and _is_folder(self._kept):
            self._kept.rename(self._place)
            return True
        erase(self._kept)
        return False

    def note_copied(self) -> None:
        """Notes the time after the packages were copied."""
        time.sleep(_TICK)
        self._file.unlink(missing_ok=True)
        self._file.touch()
        note = _CopyNote(self._packages.name, self._file.stat().st_ctime_ns)
        write_whole(self._file, msgspec.json.encode(note), durable=False)

    def take_out(self) -> bool:
        """Returns whether nothing has changed the copy, which is kept now. Otherwise it stays in its
        place."""
        note = self._note()
        if note is None or self._is_changed(note.finished):
            return False
        erase(self._kept)
        self._place.rename(self._kept)
        return True

    def _note(self) -> _CopyNote | None:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=_CopyNote)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def _is_changed(self, finished: int) -> bool:
        """A file that was written, renamed or linked, and a folder that lost or got one, has another time,
        which no program can set back."""
        if not _is_folder(self._place) or _names(self._place) != _names(self._packages / "node_modules"):
            return True
        return any(
            changed_at >= finished
            for name in _names(self._place)
            for changed_at in _times(self._place / name)
        )


def _is_folder(path: Path) -> bool:
    return os.path.lexists(path) and stat.S_ISDIR(path.lstat().st_mode)


def _names(folder: Path) -> set[str]:
    return set(os.listdir(folder)) - _CACHES  # noqa: PTH208 (there may be thousands)


def _times(path: Path) -> Iterator[int]:
    """Yields the time of the last change of everything at this path. Links are not followed."""
    yield path.lstat().st_ctime_ns
    if _is_folder(path):
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    yield from _times(Path(entry.path))
                else:
                    yield entry.stat(follow_symlinks=False).st_ctime_ns
