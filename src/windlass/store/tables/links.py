"""Links: a resource refers to another by a field of its document."""

from __future__ import annotations

from typing import Final

from windlass.store.tables.resources import Row
from windlass.store.tables.table import ChangeSession, Table, columns

SOURCES: Final = f"""
SELECT {columns(Row, "resource")}
FROM link JOIN resource ON resource.id = link.source
WHERE link.target = $1 AND link.field = $2 ORDER BY resource.created, resource.id"""
SET: Final = """
INSERT INTO link (source, field, target) VALUES ($1, $2, $3)
ON CONFLICT (source, field) DO UPDATE SET target = excluded.target"""
FORGET: Final = "DELETE FROM link WHERE source = $1"


class LinkTable(Table):
    __slots__ = ()

    async def sources(self, target: str, field: str) -> list[Row]:
        """Returns all resources that refer to `target` by this field."""
        return [Row(*row) for row in await self._session.all(SOURCES, target, field)]


class LinkChanges(LinkTable):
    __slots__ = ()
    _session: ChangeSession

    async def set(self, source: str, field: str, target: str) -> None:
        await self._session.all(SET, source, field, target)

    async def forget(self, source: str) -> None:
        await self._session.all(FORGET, source)
