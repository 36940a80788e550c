"""Build caches: downloads that builds of an organization share, and files that builds of a service keep.

    <folder>/cache/<organization>/<name>/        shared: tools that write to one together lock it themselves
    <folder>/cache/.services/<organization>/<service>/<number>/    for one build at a time
    <folder>/cache/.locks/<organization>.lock    held by each build of the organization, alone by a sweep

A build takes the first free number of its service: it is in the same folder as the build before, and two at
the same time are in different ones. The lock beside the folder is held until the build ends in any way; the
file `.busy` beside it is there if it did not end by itself, and then caches of the service are not trusted.
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
from windlass.base.erasing import erase
from windlass.base.private import private_folder
from windlass.builders.builder import BuildError, Say
from windlass.builders.native.artifacts import CACHE, GONE, PATIENCE, name_of, not_kept
from windlass.builders.native.cache_limits import CacheLimits, CacheUnit, size_of, units_to_erase
from windlass.builders.native.tools import ToolFailed

SERVICES: Final = ".services"
_LOCKS: Final = ".locks"
_BUSY: Final = ".busy"
_KEPT: Final = "kept"
TORN: Final = "The build caches of this service are thrown away: the last build was killed while it wrote."


class BuildCaches:
    """The caches that one build uses."""

    def __init__(self, shared: Path, own: Path, lock: int) -> None:
        self.shared = shared
        """The folder of the caches that builds of the organization share."""
        self.own = own
        self.source = own / "source"
        """The place of the code: the same for each build, because tools recognize files by their path."""
        self.kept = own / _KEPT
        """Folders that stay for the next build of this service."""
        self.times = own / "times.json"
        self.is_whole = False
        """True if no program of the build was killed while it wrote here."""
        self._lock = lock
        self._used: set[str] = set()

    @contextmanager
    def trusted_at_the_end(self) -> Iterator[None]:
        """Notes that the build has ended by itself, unless a program of it was killed."""
        try:
            yield
        except BuildError as error:
            failed = error if isinstance(error, ToolFailed) else error.__cause__
            self.is_whole = not (isinstance(failed, ToolFailed) and failed.was_killed)
            raise
        self.is_whole = True

    def use(self, *names: str) -> None:
        """Notes that this build uses the shared caches of these names."""
        self._used.update(names)

    def throw_away(self, names: Iterable[str], aside: Path) -> None:
        """Empties these shared caches and those of the service. Shared caches that other builds use now are
        left to them: this build goes on in the folder `aside`."""
        erase(self.kept)
        private_folder(self.kept)
        if filelock.try_lock(self._lock):
            for name in names:
                _remove(self.shared / name, self.shared.parent)
            filelock.wait_for(self._lock, shared=True)
            return
        filelock.wait_for(self._lock, shared=True)  # a failed attempt gives up the lock that was held
        self.shared = private_folder(aside)

    def note_use(self) -> None:
        """Notes the time of use. The folders belong to programs of builds, which may have replaced one by a
        link."""
        for name in self._used:
            with suppress(OSError):
                os.utime(self.shared / name, follow_symlinks=False)


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
        shared = private_folder(self._folder / name_of(org))
        lock = filelock.open_lock_file(self._lock(name_of(org)))
        try:
            with not_kept():
                filelock.wait_for(lock, shared=True, patience=PATIENCE)
            own, held = _take(private_folder(self._folder / SERVICES / name_of(org) / name_of(service)))
            try:
                caches = BuildCaches(shared, own, lock)
                _begin(caches, home, say)
                try:
                    yield caches
                finally:
                    caches.note_use()
                    erase(caches.source)
                    with suppress(FileNotFoundError):  # who needs room may delete the caches of a build
                        os.utime(_beside(own, ".lock"))
                    if caches.is_whole:
                        _beside(own, _BUSY).unlink(missing_ok=True)
            finally:
                os.close(held)
        finally:
            os.close(lock)

    def discard(self, service: str) -> None:
        """Erases the caches of a service."""
        for folder in (self._folder / SERVICES).glob(f"*/{name_of(service)}"):
            _remove(folder, self._folder)

    def sweep(self) -> None:
        """Erases caches that are too old, and the least recently used ones of an organization with too many.
        Those that a build uses stay until the next sweep."""
        for left in self._folder.glob(f"{GONE}*"):
            erase(left)
        for org in self._organizations():
            units = [*self._shared_units(org), *self._service_units(org)]
            for unit in units_to_erase(units, self._limits, time.time()):
                self._erase(org, unit)

    def _organizations(self) -> list[str]:
        return sorted(lock.stem for lock in (self._folder / _LOCKS).glob("*.lock"))

    def _shared_units(self, org: str) -> Iterator[CacheUnit]:
        folder = self._folder / org
        for path in folder.iterdir() if folder.is_dir() else ():
            with suppress(FileNotFoundError):  # a build has emptied it
                yield self._unit(path, path.lstat().st_mtime)

    def _service_units(self, org: str) -> Iterator[CacheUnit]:
        for lock in (self._folder / SERVICES / org).glob("*/*.lock"):
            with suppress(FileNotFoundError):  # its service was deleted
                yield self._unit(lock.with_suffix(""), lock.stat().st_mtime)

    def _unit(self, path: Path, used: float) -> CacheUnit:
        measured, size = self._sizes.get(path, (0.0, 0))
        if measured != used:
            size = size_of(path)
            self._sizes[path] = (used, size)
        return CacheUnit(path, used, size)

    def _erase(self, org: str, unit: CacheUnit) -> None:
        is_shared = unit.path.parent == self._folder / org
        lock = self._lock(org) if is_shared else _beside(unit.path, ".lock")
        with _alone(lock) as is_alone:
            if not is_alone:
                return
            gone = _set_aside(unit.path, self._folder)
            if not is_shared:
                for ending in (_BUSY, ".lock"):
                    _beside(unit.path, ending).unlink(missing_ok=True)
                with suppress(OSError):
                    unit.path.parent.rmdir()
        self._sizes.pop(unit.path, None)
        erase(gone)

    def _lock(self, org: str) -> Path:
        return private_folder(self._folder / _LOCKS) / f"{org}.lock"


def _take(folder: Path) -> tuple[Path, int]:
    """Returns the first folder that no build uses, and its held lock."""
    for number in count():
        own = folder / str(number)
        private_folder(folder)  # a sweep removes it where it is empty
        held = filelock.try_hold(_beside(own, ".lock"))
        if held is None:
            continue
        if filelock.is_at(held, _beside(own, ".lock")):
            return own, held
        os.close(held)
    raise AssertionError


def _begin(caches: BuildCaches, home: Path, say: Say) -> None:
    busy = _beside(caches.own, _BUSY)
    if busy.exists():
        if killed := busy.read_text():
            subprocesses.end_all_with("HOME", killed)
        erase(caches.own)
        say(TORN)
    write_whole(busy, str(home).encode(), durable=False)
    for folder in (caches.own, caches.kept):
        private_folder(folder)
    erase(caches.source)


@contextmanager
def _alone(lock: Path) -> Iterator[bool]:
    """Holds a lock alone, if no build holds it."""
    held = filelock.try_hold(lock)
    try:
        yield held is not None and filelock.is_at(held, lock)
    finally:
        if held is not None:
            os.close(held)


def _beside(own: Path, ending: str) -> Path:
    return own.with_name(own.name + ending)


def _remove(path: Path, into: Path) -> None:
    erase(_set_aside(path, into))


def _set_aside(path: Path, into: Path) -> Path:
    """Renames a folder that is to be erased, so that a half erased one is never used."""
    gone = into / f"{GONE}{uuid.uuid4().hex}"
    with suppress(FileNotFoundError):
        path.rename(gone)
    return gone
