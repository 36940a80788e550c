"""Manages the copy of the installed packages that a build works with, and keeps an unchanged copy for the
next build of the service.

If the build has not changed its copy, the artifact links to the original packages instead. A build after a
change of only the code therefore copies no packages, of which there may be thousands.
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
"""Folders in which build tools store caches. They are not part of the comparison."""
_FILE_TIME_SECONDS: Final = 0.02
"""Seconds after which the file system certainly records a later time."""


class _CopyNote(Struct, frozen=True):
    """A record of the last copy."""

    packages: str
    """The name of the folder that was copied."""
    finished: int
    """The time when the copy was complete, in nanoseconds of the file system's clock."""


class PackageCopy:
    """The copy of the packages for one build. During the build, it is at `folder`/node_modules."""

    def __init__(self, caches: BuildCaches, packages: Path, folder: Path) -> None:
        self._kept, self._file = caches.kept / "packages", caches.own / "packages.json"
        self._packages, self._place = packages, folder / "node_modules"

    def put_in(self) -> bool:
        """Moves the kept copy into the build's folder, if it was made of the same packages. Returns whether
        it was."""
        self._place.unlink(missing_ok=True)
        note = self._note()
        if note and note.packages == self._packages.name and _is_folder(self._kept):
            self._kept.rename(self._place)
            return True
        erase(self._kept)
        return False

    def note_copied(self) -> None:
        """Records the time at which the packages have been copied."""
        time.sleep(_FILE_TIME_SECONDS)
        self._file.unlink(missing_ok=True)
        self._file.touch()
        note = _CopyNote(self._packages.name, self._file.stat().st_ctime_ns)
        write_whole(self._file, msgspec.json.encode(note), durable=False)

    def take_out(self) -> bool:
        """Keeps the copy for the next build if the build has not changed it. Returns whether it was kept."""
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
        """Returns whether the copy has changed since it was made.

        Each write, rename or new entry sets the change time (ctime) of a file or folder. A program cannot set
        this time back.
        """
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
    """Yields the change times of a path and everything below it. Does not follow links."""
    yield path.lstat().st_ctime_ns
    if _is_folder(path):
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    yield from _times(Path(entry.path))
                else:
                    yield entry.stat(follow_symlinks=False).st_ctime_ns
