"""Records in files which generations were removed, so that a late call does not start them again.

A generation comes back only to replace a later one that was removed after it, as when a release of a service
that runs alone has failed. Several Windlasses may share the folder, so the record is only in files: a line
for each removal, and a negative one for each return.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from windlass.base import filelock
from windlass.base.atomic_files import write_whole
from windlass.engines.engine import EngineUnavailable

LATE: Final = 24 * 3600
"""Seconds after which no call for a service that is no more can still be on its way."""

REMOVED: Final = "removed"
"""The folder of these records, below that of an engine."""
_DRAFT: Final = ".new"
_PATIENCE: Final = 5.0
"""Seconds to wait for another server, which holds a file for a moment."""
MOST: Final = 4096
"""Removed generations of a service, of which a job has one for each run."""


class RemovedGenerations:
    def __init__(self, folder: Path, *, durable: bool) -> None:
        """`durable`: a record outlives a power cut, as the copies that it is about do."""
        self._folder = folder
        self._durable = durable

    def of(self, service: str) -> list[int]:
        """Returns the removed generations of a service, in the order of their removal."""
        with suppress(FileNotFoundError):
            return _read((self._folder / service).read_text())
        return []

    def note(self, service: str, generations: Iterable[int]) -> None:
        with self._locked(service) as file:
            removed = _read(file.read())
            new = [generation for generation in sorted(set(generations)) if _may_return(removed, generation)]
            if new and len(removed) >= MOST:
                self._replace(service, [*removed[-MOST // 2 :], *new])
            else:
                self._write(file, new)

    def returns(self, service: str, generation: int, *, later: bool) -> bool:
        """Returns whether the generation may run, and if so no longer counts it as removed. `later`: a later
        one exists."""
        if generation not in self.of(service):
            return True
        with self._locked(service) as file:
            generations = _read(file.read())
            if generation not in generations:
                return True
            if later or not _may_return(generations, generation):
                return False
            self._write(file, [-generation])
            return True

    def services(self) -> set[str]:
        return {path.name for path in self._folder.glob("*") if path.suffix != _DRAFT}

    def file(self, service: str) -> Path:
        return self._folder / service

    def forget(self, services: Collection[str]) -> None:
        """Erases records of deleted services when no delayed call for them is possible any more."""
        for service in services:
            with suppress(FileNotFoundError):
                if self.file(service).stat().st_mtime < time.time() - LATE:
                    self.file(service).unlink()

    @contextmanager
    def _locked(self, service: str) -> Iterator[IO[str]]:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        while True:
            with self.file(service).open("a+") as file:
                try:
                    filelock.wait_for(file.fileno(), patience=_PATIENCE)
                except filelock.LockTimeout as error:
                    raise EngineUnavailable(str(error)) from error
                if not filelock.is_at(file.fileno(), self.file(service)):  # another one has shortened it
                    continue
                file.seek(0)
                yield file
                return

    def _replace(self, service: str, generations: Iterable[int]) -> None:
        """Keeps only the newest generation, because no delayed call for the others is possible."""
        text = "".join(f"{generation}\n" for generation in generations)
        write_whole(self.file(service), text.encode(), durable=self._durable, draft=_DRAFT[1:])

    def _write(self, file: IO[str], lines: Iterable[int]) -> None:
        if text := "".join(f"{line}\n" for line in lines):
            file.write(text)
            file.flush()
            if self._durable:
                os.fsync(file.fileno())


def _read(text: str) -> list[int]:
    """Returns the removed generations. The last line may be cut short, by a power cut."""
    removed: dict[int, None] = {}
    for line in text.split():
        with suppress(ValueError):
            removed.pop(abs(int(line)), None)
            if int(line) > 0:
                removed[int(line)] = None
    return [*removed]


def _may_return(removed: list[int], generation: int) -> bool:
    if generation not in removed:
        return True
    return any(later > generation for later in removed[removed.index(generation) :])
