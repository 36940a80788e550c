"""The lock of servers that share a folder: the one that holds it reads the output of instances."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Final

from windlass.base import filelock

AGAIN: Final = 0.5
"""Seconds until it is asked again whether the other has ended."""


class ReaderLock:
    """A lock that is held until it is released, or until its process ends."""

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
            await asyncio.sleep(AGAIN)

    def give_back(self) -> None:
        if self._held is not None:
            os.close(self._held)
            self._held = None
