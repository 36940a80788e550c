"""Counters: numbers that only increase, such as the number of the last event."""

from __future__ import annotations

from typing import Final

from windlass.store.tables.table import DatabaseSession, Table

GET: Final = "SELECT value FROM counter WHERE name = $1"
ADVANCE: Final = "UPDATE counter SET value = value + $1 WHERE name = $2 RETURNING value"


class CounterTable(Table):
    __slots__ = ()

    async def get(self, name: str) -> int:
        """Returns the last number of a counter."""
        row = await self._session.one(GET, name)
        return row[0] if row else 0


async def advance(session: DatabaseSession, name: str, count: int = 1) -> int:
    """Increases a counter by `count`. Returns the last of the new numbers."""
    row = await session.one(ADVANCE, count, name)
    assert row is not None
    last: int = row[0]
    return last
