"""Counts values that are still sealed with a former key, for operators who replace the sealing key.

Counting reads every sealed value. So it is done only while a key is being replaced, and seldom.
"""

from __future__ import annotations

import asyncio
from typing import Final

from windlass.base.clock import MINUTE
from windlass.base.errors import Unavailable
from windlass.base.metrics import Metric, gauge
from windlass.control.context.context import Context
from windlass.control.records.sealing_keys import read_keys, values_by_key

KEPT: Final = MINUTE
"""Time for which a count is told again."""
PATIENCE: Final = 2.0
"""Seconds after which a scrape does not wait for the database."""


class FormerKeyMetrics:
    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._counted_at: int | None = None
        self._count = 0

    async def all(self) -> list[Metric]:
        """Returns nothing while the database is away."""
        try:
            async with asyncio.timeout(PATIENCE):
                await self._catch_up()
        except (Unavailable, TimeoutError):
            return []
        help = "Values that are still sealed with a former key; counted once a minute"
        return [gauge("former_key_values", help, self._count)]

    async def _catch_up(self) -> None:
        now = self._ctx.clock.now()
        if self._counted_at is None or now >= self._counted_at + KEPT:
            # A count that does not end in time is not begun again with each scrape.
            self._counted_at = now
            self._count = await self._read_count()

    async def _read_count(self) -> int:
        """With every former key retired, nothing is sealed with one: that was checked."""
        reads = self._ctx.store.reads
        state = await read_keys(reads)
        if state is None or state.is_settled:
            return 0
        values = await values_by_key(reads)
        return sum(count for key, count in values.items() if key != state.current)
