"""Build caches: the downloads of build tools and the folders that a service keeps between builds.

    <folder>/cache/.services/<organization>/<service>/<number>/    for one build at a time

Build steps write to the caches, and later steps execute files in them. Services never share a cache, because
a user who may deploy only one service could otherwise run code in the builds of another.

A build uses the first free number of its service. Consecutive builds therefore share a folder, and concurrent
builds do not. The build holds the lock file beside the folder until it ends in any way. The file `.busy`
beside the folder exists until the build has ended normally. If it is left over, the next build deletes the
kept folders but not the downloads, because build tools write those safely.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Final

from windlass.base import filelock, subprocesses
from windlass.base.atomic_files import write_whole
from windlass.base.folder_removal import erase
from windlass.base.private import private_folder
from windlass.builders.builder import BuildError, Say
from windlass.process.builds.artifacts import CACHE_FOLDER, REMOVED_PREFIX, name_of
from windlass.process.builds.cache_limits import CacheLimits, CacheUnit, size_of, units_to_erase
from windlass.process.builds.tools import ToolFailed

SERVICES_FOLDER: Final = ".services"
_DOWNLOADS: Final = "downloads"
_BUSY_SUFFIX: Final = ".busy"
_KEPT_FOLDER: Final = "kept"
CACHE_DELETED_WARNING: Final = (
    "The build cache of this service is deleted: the last build was killed while it wrote to it."
)


class BuildCaches:
    """The caches that one build uses."""

    def __init__(self, folder: Path) -> None:
        self.own = folder
        self.downloads = folder / _DOWNLOADS
        """The folder with one cache for each build tool. A cache includes files that the tool has built, such
        as wheels."""
        self.source = folder / "source"
        """The folder of the code. The path is the same for each build, because tools recognize files by their
        path."""
        self.kept = folder / _KEPT_FOLDER
        """Folders that are kept for the next build of this service."""
        self.times = folder / "times.json"
        self.is_whole = False
        """Whether all programs of the build ended without being killed, so that the kept files are
        complete."""

    @contextmanager
    def trusted_at_the_end(self) -> Iterator[None]:
        """Sets `is_whole` when the build ends, unless a program of the build was killed."""
        try:
            yield
        except BuildError as error:
            failed = error if isinstance(error, ToolFailed) else error.__cause__
            self.is_whole = not (isinstance(failed, ToolFailed) and failed.was_killed)
            raise
        self.is_whole = True

    def throw_away(self, names: Iterable[str]) -> None:
        """Empties the caches of the named tools, and the kept folders."""
        erase(self.kept)
        private_folder(self.kept)
        for name in names:
            _remove(self.downloads / name, self.own)


class CacheStore:
    """The build caches of all organizations."""

    def __init__(self, folder: Path, limits: CacheLimits) -> None:
        """Uses caches below `folder`, the folder of the builder."""
        self._folder = folder / CACHE_FOLDER
        self._limits = limits
        self._sizes: dict[Path, tuple[float, int]] = {}
        """For each cache, the time of its last use and its size at that time."""

    @contextmanager
    def using(self, org: str, service: str, home: Path, write_line: Say) -> Iterator[BuildCaches]:
        """Yields the caches for a build and keeps them locked, so that no sweep removes them. `home` is the
        home folder of the build's programs."""
        own, held = _lock_free_folder(
            private_folder(self._folder / SERVICES_FOLDER / name_of(org) / name_of(service))
        )
        try:
            caches = BuildCaches(own)
            _begin(caches, home, write_line)
            try:
                yield caches
            finally:
                erase(caches.source)
                with suppress(FileNotFoundError):  # an operator may delete caches to free disk space
                    os.utime(_path_beside(own, ".lock"))
                if caches.is_whole:
                    _path_beside(own, _BUSY_SUFFIX).unlink(missing_ok=True)
        finally:
            os.close(held)

    def discard(self, service: str) -> None:
        """Erases the caches of a service."""
        for folder in (self._folder / SERVICES_FOLDER).glob(f"*/{name_of(service)}"):
            _remove(folder, self._folder)

    def sweep(self) -> None:
        """Erases caches that are too old, and the least recently used caches of an organization that exceeds
        its limit. Caches of running builds stay until the next sweep."""
        for left in self._folder.glob(f"{REMOVED_PREFIX}*"):
            erase(left)
        for org in sorted((self._folder / SERVICES_FOLDER).glob("*")):
            for unit in units_to_erase(self._units(org), self._limits, time.time()):
                self._erase(unit)

    def _units(self, org: Path) -> Iterator[CacheUnit]:
        for service in sorted(org.glob("*")):
            with suppress(FileNotFoundError):  # the service's folder was deleted
                for lock in service.glob("*.lock"):
                    yield self._unit(lock.with_suffix(""), lock.stat().st_mtime)

    def _unit(self, path: Path, used_at: float) -> CacheUnit:
        measured, size = self._sizes.get(path, (0.0, 0))
        if measured != used_at:
            size = size_of(path)
            self._sizes[path] = (used_at, size)
        return CacheUnit(path, used_at, size)

    def _erase(self, unit: CacheUnit) -> None:
        with _alone(_path_beside(unit.path, ".lock")) as is_alone:
            if not is_alone:
                return
            gone = _set_aside(unit.path, self._folder)
            for ending in (_BUSY_SUFFIX, ".lock"):
                _path_beside(unit.path, ending).unlink(missing_ok=True)
            with suppress(OSError):
                unit.path.parent.rmdir()
        self._sizes.pop(unit.path, None)
        erase(gone)


def _lock_free_folder(folder: Path) -> tuple[Path, int]:
    """Returns the first folder that no build uses, and the file descriptor of its lock."""
    for number in count():
        own = folder / str(number)
        private_folder(folder)  # a sweep removes this folder if it is empty
        held = filelock.try_hold(_path_beside(own, ".lock"))
        if held is None:
            continue
        if filelock.is_at(held, _path_beside(own, ".lock")):
            return own, held
        os.close(held)
    raise AssertionError


def _begin(caches: BuildCaches, home: Path, write_line: Say) -> None:
    busy = _path_beside(caches.own, _BUSY_SUFFIX)
    if busy.exists():
        if killed := busy.read_text():
            subprocesses.end_all_of(Path(killed))
        for path in caches.own.glob("*"):
            if path != caches.downloads:
                _remove(path, caches.own)
        write_line(CACHE_DELETED_WARNING)
    write_whole(busy, str(home).encode(), durable=False)
    for folder in (caches.own, caches.kept, caches.downloads):
        private_folder(folder)
    erase(caches.source)


@contextmanager
def _alone(lock: Path) -> Iterator[bool]:
    """Yields whether the lock file could be locked exclusively. Releases the lock afterwards."""
    held = filelock.try_hold(lock)
    try:
        yield held is not None and filelock.is_at(held, lock)
    finally:
        if held is not None:
            os.close(held)


def _path_beside(folder: Path, ending: str) -> Path:
    return folder.with_name(folder.name + ending)


def _remove(path: Path, destination: Path) -> None:
    erase(_set_aside(path, destination))


def _set_aside(path: Path, destination: Path) -> Path:
    """Renames a folder that is to be erased, so that a partly erased cache is never used."""
    gone = destination / f"{REMOVED_PREFIX}{uuid.uuid4().hex}"
    with suppress(FileNotFoundError):
        path.rename(gone)
    return gone
