"""Build caches: the downloads and the kept files of one service.

    <folder>/cache/.services/<organization>/<service>/<number>/    for one build at a time

Steps write to them, and later steps run what is in them. So no two services share one: otherwise, a user
who may deploy one service could run code in another.

A build takes the first free number of its service: it is in the same folder as the build before, and two at
the same time are in different ones. The lock beside the folder is held until the build ends in any way; the
file `.busy` beside it is there if it did not end by itself, and then its kept files are not trusted. The
downloads are: tools write them so that a kill does no harm.
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
from windlass.process.builds.artifacts import CACHE, GONE, name_of
from windlass.process.builds.cache_limits import CacheLimits, CacheUnit, size_of, units_to_erase
from windlass.process.builds.tools import ToolFailed

SERVICES: Final = ".services"
_DOWNLOADS: Final = "downloads"
_BUSY: Final = ".busy"
_KEPT: Final = "kept"
TORN: Final = "The build cache of this service is deleted: the last build was killed while it wrote to it."


class BuildCaches:
    """The caches that one build uses."""

    def __init__(self, own: Path) -> None:
        self.own = own
        self.downloads = own / _DOWNLOADS
        """The folder of the caches of tools, one for each: also of what they built of it, such as wheels."""
        self.source = own / "source"
        """The place of the code: the same for each build, because tools recognize files by their path."""
        self.kept = own / _KEPT
        """Folders that stay for the next build of this service."""
        self.times = own / "times.json"
        self.is_whole = False
        """True if no program of the build was killed while it wrote here."""

    @contextmanager
    def trusted_at_the_end(self) -> Iterator[None]:
        """Marks the caches as trusted when the build has ended, unless one of its programs was killed."""
        try:
            yield
        except BuildError as error:
            failed = error if isinstance(error, ToolFailed) else error.__cause__
            self.is_whole = not (isinstance(failed, ToolFailed) and failed.was_killed)
            raise
        self.is_whole = True

    def throw_away(self, names: Iterable[str]) -> None:
        """Empties the caches of these tools, and the cached compiler output."""
        erase(self.kept)
        private_folder(self.kept)
        for name in names:
            _remove(self.downloads / name, self.own)


class CacheStore:
    """The build caches of all organizations."""

    def __init__(self, folder: Path, limits: CacheLimits) -> None:
        """`folder` is the folder of the builder."""
        self._folder = folder / CACHE
        self._limits = limits
        self._sizes: dict[Path, tuple[float, int]] = {}
        """The size of each cache at the time when it was last used."""

    @contextmanager
    def using(self, org: str, service: str, home: Path, say: Say) -> Iterator[BuildCaches]:
        """Yields the caches for a build, whose programs have this home. No sweep removes them meanwhile."""
        own, held = _lock_free_folder(
            private_folder(self._folder / SERVICES / name_of(org) / name_of(service))
        )
        try:
            caches = BuildCaches(own)
            _begin(caches, home, say)
            try:
                yield caches
            finally:
                erase(caches.source)
                with suppress(FileNotFoundError):  # who needs room may delete the caches of a build
                    os.utime(_path_beside(own, ".lock"))
                if caches.is_whole:
                    _path_beside(own, _BUSY).unlink(missing_ok=True)
        finally:
            os.close(held)

    def discard(self, service: str) -> None:
        """Erases the caches of a service."""
        for folder in (self._folder / SERVICES).glob(f"*/{name_of(service)}"):
            _remove(folder, self._folder)

    def sweep(self) -> None:
        """Erases caches that are too old, and the least recently used ones of an organization with too many.
        Those that a build uses stay until the next sweep."""
        for left in self._folder.glob(f"{GONE}*"):
            erase(left)
        for org in sorted((self._folder / SERVICES).glob("*")):
            for unit in units_to_erase(self._units(org), self._limits, time.time()):
                self._erase(unit)

    def _units(self, org: Path) -> Iterator[CacheUnit]:
        for service in sorted(org.glob("*")):
            with suppress(FileNotFoundError):  # it was deleted
                for lock in service.glob("*.lock"):
                    yield self._unit(lock.with_suffix(""), lock.stat().st_mtime)

    def _unit(self, path: Path, used: float) -> CacheUnit:
        measured, size = self._sizes.get(path, (0.0, 0))
        if measured != used:
            size = size_of(path)
            self._sizes[path] = (used, size)
        return CacheUnit(path, used, size)

    def _erase(self, unit: CacheUnit) -> None:
        with _alone(_path_beside(unit.path, ".lock")) as is_alone:
            if not is_alone:
                return
            gone = _set_aside(unit.path, self._folder)
            for ending in (_BUSY, ".lock"):
                _path_beside(unit.path, ending).unlink(missing_ok=True)
            with suppress(OSError):
                unit.path.parent.rmdir()
        self._sizes.pop(unit.path, None)
        erase(gone)


def _lock_free_folder(folder: Path) -> tuple[Path, int]:
    """Returns the first folder that no build uses, and its held lock."""
    for number in count():
        own = folder / str(number)
        private_folder(folder)  # a sweep removes it where it is empty
        held = filelock.try_hold(_path_beside(own, ".lock"))
        if held is None:
            continue
        if filelock.is_at(held, _path_beside(own, ".lock")):
            return own, held
        os.close(held)
    raise AssertionError


def _begin(caches: BuildCaches, home: Path, say: Say) -> None:
    busy = _path_beside(caches.own, _BUSY)
    if busy.exists():
        if killed := busy.read_text():
            subprocesses.end_all_of(Path(killed))
        for path in caches.own.glob("*"):
            if path != caches.downloads:
                _remove(path, caches.own)
        say(TORN)
    write_whole(busy, str(home).encode(), durable=False)
    for folder in (caches.own, caches.kept, caches.downloads):
        private_folder(folder)
    erase(caches.source)


@contextmanager
def _alone(lock: Path) -> Iterator[bool]:
    """Takes a lock exclusively, if no build holds it."""
    held = filelock.try_hold(lock)
    try:
        yield held is not None and filelock.is_at(held, lock)
    finally:
        if held is not None:
            os.close(held)


def _path_beside(own: Path, ending: str) -> Path:
    return own.with_name(own.name + ending)


def _remove(path: Path, into: Path) -> None:
    erase(_set_aside(path, into))


def _set_aside(path: Path, into: Path) -> Path:
    """Renames a folder that is to be erased, so that a half erased one is never used."""
    gone = into / f"{GONE}{uuid.uuid4().hex}"
    with suppress(FileNotFoundError):
        path.rename(gone)
    return gone
