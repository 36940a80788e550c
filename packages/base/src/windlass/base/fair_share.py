"""Divides long work on the event loop into short parts, so that requests are answered in between."""

from __future__ import annotations

import asyncio
import time
from typing import Final

_TURN_SECONDS: Final = 0.002
"""The seconds of work after which other tasks run."""


class FairShare:
    """Measures how long a task has computed since it last let other tasks run."""

    def __init__(self) -> None:
        self._since = time.perf_counter()

    async def pause(self) -> None:
        """Lets other tasks run if the task has computed for long. Called after each item of a long list."""
        if time.perf_counter() - self._since >= _TURN_SECONDS:
            await asyncio.sleep(0)
            self._since = time.perf_counter()
