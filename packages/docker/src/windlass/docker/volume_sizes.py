"""Measures volumes that the engine cannot measure.

The engine follows whole paths. So it gives no size for a volume with folders inside each other whose path is
longer than the kernel takes, and a program could hide all of its files by such folders.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from windlass.base.long_paths import HIDDEN_BYTES, PathTooLong, folder_entries
from windlass.base.subprocesses import in_thread

_SLICE_SECONDS: Final = 0.02
_PAUSE_FACTOR: Final = 19
"""The pause after a slice of counting, as a multiple of its duration."""


async def measure_volume(folder: str) -> int:
    """Returns the bytes of the files below a folder, as far as Windlass may read it."""
    count = _ByteCount(folder)
    while not await in_thread(count.go_on):  # noqa: ASYNC110 (a pause between slices of work)
        await asyncio.sleep(_PAUSE_FACTOR * _SLICE_SECONDS)
    return count.bytes


class _ByteCount:
    def __init__(self, folder: str) -> None:
        self.bytes = 0
        self._waiting = [folder]
        self._entries = self._count_all()

    def go_on(self) -> bool:
        """Counts for a moment. Returns whether it is done."""
        until = time.monotonic() + _SLICE_SECONDS
        return not any(time.monotonic() >= until for _ in self._entries)

    def _count_all(self) -> Iterator[None]:
        linked = set[tuple[int, int]]()
        while self._waiting:
            place = self._waiting.pop()
            try:
                with suppress(OSError), folder_entries(place) as entries:
                    for entry in entries:
                        with suppress(OSError):
                            if entry.is_dir(follow_symlinks=False):
                                self._waiting.append(f"{place}/{entry.name}")
                            self._add(entry.stat(follow_symlinks=False), linked)
                        yield
            except PathTooLong:
                self.bytes += HIDDEN_BYTES

    def _add(self, stat_result: os.stat_result, linked_files: set[tuple[int, int]]) -> None:
        file = stat_result.st_dev, stat_result.st_ino
        if file not in linked_files:
            self.bytes += stat_result.st_blocks * 512
        if stat_result.st_nlink > 1:
            linked_files.add(file)
