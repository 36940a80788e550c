"""State that all connections of the port share: their table, the headers of refusals, websockets to open."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from windlass.api.answers import Header
from windlass.base.http_in.bounds import Bounds
from windlass.base.http_in.connections import ConnectionTable


class PortState:
    """State that all connections of the port share: their table, and the rate limit headers of refusals."""

    def __init__(
        self,
        bounds: Bounds | None = None,
        trusts: Callable[[str], bool] = lambda network: False,
        headers: Callable[[str], list[Header]] = lambda address: [],
    ) -> None:
        self.bounds = bounds or Bounds()
        self.table = ConnectionTable("api", self.bounds, trusts)
        self.headers = headers
        self._opening: deque[Callable[[], None]] = deque()

    def open_in_turn(self, opening: Callable[[], None]) -> None:
        """Opens one websocket in each turn of the loop. Opening takes as long as many requests: thousands at
        once would keep all other clients waiting for seconds."""
        if not self._opening:
            asyncio.get_running_loop().call_soon(self._open_next)
        self._opening.append(opening)

    def _open_next(self) -> None:
        opening = self._opening.popleft()
        if self._opening:
            asyncio.get_running_loop().call_soon(self._open_next)
        opening()
