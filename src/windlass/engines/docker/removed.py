"""Which generations were removed as a whole, kept in files: a late call does not bring them back.

Another Windlass may work with the same folder, so nothing is remembered here but in the files.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

LATE: Final = 24 * 3600
"""Seconds after which no call for a service that is no more can still be on its way."""


class Removed:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def note(self, service: str, generations: Iterable[int]) -> None:
        """Durable when this returns."""
        new = sorted(set(generations) - self._of(service))
        if new:
            self._folder.mkdir(parents=True, exist_ok=True)
            with (self._folder / service).open("a") as file:
                file.write("".join(f"{generation}\n" for generation in new))
                file.flush()
                os.fsync(file.fileno())

    def refuses(self, service: str, generation: int) -> bool:
        return generation in self._of(service)

    def forget_others(self, keep: Collection[str]) -> None:
        for path in self._folder.glob("*"):
            if path.name not in keep and path.stat().st_mtime < time.time() - LATE:
                path.unlink(missing_ok=True)

    def _of(self, service: str) -> set[int]:
        try:
            return {int(line) for line in (self._folder / service).read_text().split()}
        except FileNotFoundError:
            return set()
