"""Verifies the hash chain of audit events continuously, a part each minute, so that tampering is reported.

`windlass audit verify` reads the whole chain at once, and describes each fault in detail.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from windlass.base.errors import Unavailable
from windlass.base.log import log
from windlass.control.context.context import Context
from windlass.store.chain import ChainWalk, Head, beginning_of

INTERVAL: Final = 60.0
AT_ONCE: Final = 500
"""The number of events in one check. A chain of a million events takes 33 hours."""
_log = log("audit")


class AuditCheck:
    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._checked: Head | None = None
        """The last event that was verified; None to begin with the oldest event."""
        self.faults: set[int] = set()
        """The numbers of events whose hash did not match in the last check."""

    async def run(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL)
            with suppress(Unavailable):  # Other loops log that the database is unavailable.
                await self.verify_next_part()

    async def verify_next_part(self) -> None:
        """Verifies the next part of the chain."""
        reads = self._ctx.store.reads
        anchor = await reads.events.anchor()
        before = beginning_of(anchor)
        if self._checked is not None and self._checked.number > before.number:
            before = self._checked
        rows = await reads.events.chain(before.number, AT_ONCE)
        if await reads.events.anchor() != anchor:
            return  # The retention has deleted events meanwhile, which is no fault.
        walk = ChainWalk(before)
        faulty = {row[0] for row in rows if walk.step(row)}
        if faulty - self.faults:
            _log.error(
                "run `windlass audit verify`: events of the audit were changed, removed or added",
                extra={"first": min(faulty)},
            )
        checked = range(before.number + 1, walk.due)
        self.faults = {number for number in self.faults if number not in checked} | faulty
        self._checked = walk.head if rows.is_cut or len(rows) == AT_ONCE else None
