"""The state that all connections of the API port share."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from windlass.api.answers import Header
from windlass.base.http_in.bounds import Bounds
from windlass.base.http_in.connections import ConnectionTable


class PortState:
    """The state that all connections share: their table, the headers of refusals, and websockets to open."""

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
        """Queues the opening of a websocket; one is opened in each turn of the event loop.

        Opening a websocket takes as long as many requests. Thousands at once would delay all other clients
        for seconds.
        """
        if not self._opening:
            asyncio.get_running_loop().call_soon(self._open_next)
        self._opening.append(opening)

    def _open_next(self) -> None:
        opening = self._opening.popleft()
        if self._opening:
            asyncio.get_running_loop().call_soon(self._open_next)
        opening()
