"""Records generations that were removed as a whole, in files: a late call does not bring them back.

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

LATE: Final = 24 * 3600
"""Seconds after which no call for a service that is no more can still be on its way."""


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
        with self._held(service) as file:
            removed = _read(file.read())
            self._write(
                file,
                [generation for generation in sorted(set(generations)) if _may_return(removed, generation)],
            )

    def returns(self, service: str, generation: int, *, later: bool) -> bool:
        """Returns whether the generation may run, and if so no longer counts it as removed. `later`: a later
        one exists."""
        if generation not in self.of(service):
            return True
        with self._held(service) as file:
            generations = _read(file.read())
            if generation not in generations:
                return True
            if later or not _may_return(generations, generation):
                return False
            self._write(file, [-generation])
            return True

    def services(self) -> set[str]:
        return {path.name for path in self._folder.glob("*")}

    def file(self, service: str) -> Path:
        return self._folder / service

    def forget(self, services: Collection[str]) -> None:
        """Erases records of deleted services, once no late call for them can come any more."""
        for service in services:
            with suppress(FileNotFoundError):
                if self.file(service).stat().st_mtime < time.time() - LATE:
                    self.file(service).unlink()

    @contextmanager
    def _held(self, service: str) -> Iterator[IO[str]]:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (self._folder / service).open("a+") as file:
            filelock.wait_for(file.fileno())
            file.seek(0)
            yield file

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
