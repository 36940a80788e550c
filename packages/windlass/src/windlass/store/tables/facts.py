"""Facts: single values about the installation, by name."""

from __future__ import annotations

from typing import Final

from windlass.store.tables.table import ChangeSession, Table

GET: Final = "SELECT value FROM fact WHERE name = $1"
SET: Final = """
INSERT INTO fact (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value"""


class FactTable(Table):
    __slots__ = ()

    async def get(self, name: str) -> bytes | None:
        row = await self._session.one(GET, name)
        return row[0] if row else None


class FactChanges(FactTable):
    __slots__ = ()
    _session: ChangeSession

    async def set(self, name: str, value: bytes) -> None:
        await self._session.all(SET, name, value)
