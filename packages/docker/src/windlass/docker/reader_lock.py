"""A lock among servers that share a folder. The server with the lock reads the output of instances."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Final

from windlass.base import filelock

RETRY_PAUSE: Final = 0.5
"""Seconds between two attempts to acquire the lock."""


class ReaderLock:
    """A file lock that ends when it is released or its process exits."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._held: int | None = None

    @property
    def ours(self) -> bool:
        if self._held is None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._held = filelock.try_hold(self._file)
        return self._held is not None

    async def come(self) -> None:
        while not self.ours:  # noqa: ASYNC110 (another process has it)
            await asyncio.sleep(RETRY_PAUSE)

    def give_back(self) -> None:
        if self._held is not None:
            os.close(self._held)
            self._held = None
