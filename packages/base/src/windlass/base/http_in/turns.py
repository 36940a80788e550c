"""Schedules work that a client can prolong by sending many small pieces.

One read of a connection returns up to 8 MiB, which may contain a million chunks of one byte. All other
clients would wait while these are parsed. Therefore, a connection parses a limited part, stops reading, and
continues in its turn.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable


class Turns:
    """A queue of connections with pending work. One connection continues in each event loop iteration."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()

    def wait(self, go_on: Callable[[], None]) -> None:
        """Calls `go_on` in a later iteration, after the calls that are already queued."""
        self._waiting.append(go_on)
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        go_on = self._waiting.popleft()
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._next)
        go_on()
