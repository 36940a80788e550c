"""Turns of the event loop for work that a client can make long by sending many small pieces.

A turn reads up to 8 MiB of a connection, which may be a million chunks of one byte, and all other clients
wait meanwhile. So a connection parses a limited part at once, stops reading, and goes on when it is its turn.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable


class Turns:
    """A line of connections that have more to do. One goes on in each turn of the event loop."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()

    def wait(self, go_on: Callable[[], None]) -> None:
        """Calls `go_on` in a later turn, after those that wait already."""
        self._waiting.append(go_on)
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        go_on = self._waiting.popleft()
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._next)
        go_on()
