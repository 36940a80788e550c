"""Whose turn it is to read: of several that work with one folder, one reads the output of instances."""

from __future__ import annotations

import asyncio
import fcntl
import os
from pathlib import Path
from typing import Final

AGAIN: Final = 0.5
"""Seconds until it is asked again whether the other has ended."""


class Turn:
    """Held until it is given back, or until the process that holds it ends."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._held: int | None = None

    @property
    def ours(self) -> bool:
        if self._held is None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            opened = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(opened)
                return False
            self._held = opened
        return True

    async def come(self) -> None:
        while not self.ours:  # noqa: ASYNC110 (another process has it)
            await asyncio.sleep(AGAIN)

    def give_back(self) -> None:
        if self._held is not None:
            os.close(self._held)
            self._held = None
