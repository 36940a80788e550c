"""The pace at which answers of an engine are read: one that sends without end takes no time of others."""

from __future__ import annotations

import asyncio
from typing import Final

BYTES_A_SECOND: Final = 8 * 1024 * 1024
"""More than output of containers comes to; decoding it takes a part of a processor."""
_AHEAD: Final = 1.0
"""Seconds of this pace that may be read at once."""


class Pace:
    def __init__(self, rate: int = BYTES_A_SECOND) -> None:
        self._rate = rate
        self._paid_until = 0.0
        """The time at which all that was read would have been read at this pace."""

    async def keep(self, count: int) -> None:
        """Waits after so many bytes were read, if they came faster than the pace."""
        now = asyncio.get_running_loop().time()
        self._paid_until = max(self._paid_until, now) + count / self._rate
        if (wait := self._paid_until - now - _AHEAD) > 0:
            await asyncio.sleep(wait)
