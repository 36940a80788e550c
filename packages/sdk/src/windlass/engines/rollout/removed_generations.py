"""Records removed generations in files, so that a delayed call does not start them again.

A removed generation can return only to replace a later generation that was removed after it, for example if
the deployment of a service with a single copy has failed. Several servers may share the folder, so the record
is kept in files only. A file has a line with the generation for each removal, and a line with its negative
for each return.
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

MAX_DELAY_SECONDS: Final = 24 * 3600
"""Seconds after which a delayed call for a deleted service is no longer possible."""

RECORDS_FOLDER: Final = "removed"
"""Name of the folder of these records, in an engine's folder."""
_DRAFT_SUFFIX: Final = ".new"
_LOCK_TIMEOUT: Final = 5.0
"""Seconds to wait for a file lock, which another server holds briefly."""
MAX_GENERATIONS: Final = 4096
"""Maximum number of recorded generations of a service. A job has one generation per run."""


class RemovedGenerations:
    def __init__(self, folder: Path, *, durable: bool) -> None:
        """`durable`: whether records must survive a power failure, like the copies that they concern."""
        self._folder = folder
        self._durable = durable

    def of(self, service: str) -> list[int]:
        """Returns the removed generations of a service, in the order of removal."""
        with suppress(FileNotFoundError):
            return _parse_record((self._folder / service).read_text())
        return []

    def note(self, service: str, generations: Iterable[int]) -> None:
        with self._locked(service) as file:
            removed = _parse_record(file.read())
            new = [generation for generation in sorted(set(generations)) if _may_return(removed, generation)]
            if new and len(removed) >= MAX_GENERATIONS:
                self._replace(service, [*removed[-MAX_GENERATIONS // 2 :], *new])
            else:
                self._write(file, new)

    def returns(self, service: str, generation: int, *, later: bool) -> bool:
        """Returns whether a removed generation may run again, and if so, deletes it from the record. `later`:
        whether copies of a later generation exist."""
        if generation not in self.of(service):
            return True
        with self._locked(service) as file:
            generations = _parse_record(file.read())
            if generation not in generations:
                return True
            if later or not _may_return(generations, generation):
                return False
            self._write(file, [-generation])
            return True

    def services(self) -> set[str]:
        return {path.name for path in self._folder.glob("*") if path.suffix != _DRAFT_SUFFIX}

    def file(self, service: str) -> Path:
        return self._folder / service

    def forget(self, services: Collection[str]) -> None:
        """Deletes the records of deleted services once delayed calls are no longer possible."""
        for service in services:
            with suppress(FileNotFoundError):
                if self.file(service).stat().st_mtime < time.time() - MAX_DELAY_SECONDS:
                    self.file(service).unlink()

    @contextmanager
    def _locked(self, service: str) -> Iterator[IO[str]]:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        while True:
            with self.file(service).open("a+") as file:
                try:
                    filelock.wait_for(file.fileno(), timeout=_LOCK_TIMEOUT)
                except filelock.LockTimeout as error:
                    raise EngineUnavailable(str(error)) from error
                if not filelock.is_at(file.fileno(), self.file(service)):  # another server replaced it
                    continue
                file.seek(0)
                yield file
                return

    def _replace(self, service: str, generations: Iterable[int]) -> None:
        """Replaces the record by the given generations, to shorten it."""
        text = "".join(f"{generation}\n" for generation in generations)
        write_whole(self.file(service), text.encode(), durable=self._durable, draft=_DRAFT_SUFFIX[1:])

    def _write(self, file: IO[str], lines: Iterable[int]) -> None:
        if text := "".join(f"{line}\n" for line in lines):
            file.write(text)
            file.flush()
            if self._durable:
                os.fsync(file.fileno())


def _parse_record(text: str) -> list[int]:
    """Returns the removed generations in a record. Ignores invalid lines: a power failure may truncate the
    last one."""
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
