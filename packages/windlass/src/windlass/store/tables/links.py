"""Links: references from one resource to another, by field."""

from __future__ import annotations

from typing import Final

from windlass.store.tables.resources import Row
from windlass.store.tables.table import ChangeSession, Table, columns

SOURCES_OF_TARGET: Final = f"""
SELECT {columns(Row, "resource")}
FROM link JOIN resource ON resource.id = link.source
WHERE link.target = $1 AND link.field = $2 ORDER BY resource.created, resource.id"""
USERS: Final = f"""
SELECT {columns(Row, "resource")}
FROM link JOIN resource ON resource.id = link.source
WHERE link.target = $1 ORDER BY resource.created, resource.id"""
TARGET_OF_FIELD: Final = "SELECT target FROM link WHERE source = $1 AND field = $2"
COUNT_CHAINED: Final = """
WITH RECURSIVE chained (id) AS (
    SELECT source FROM link WHERE target = $1 AND field = $2
    UNION ALL
    SELECT link.source FROM chained JOIN link ON link.target = chained.id AND link.field = $2
)
SELECT count(*) FROM (SELECT id FROM chained LIMIT $3) AS first"""
TARGETS_AT_OR_BELOW: Final = """
WITH RECURSIVE below (id) AS (
    SELECT id FROM resource WHERE id = $1
    UNION ALL
    SELECT resource.id FROM resource JOIN below ON resource.parent = below.id
)
SELECT DISTINCT target.id FROM below
CROSS JOIN link
CROSS JOIN resource AS target
WHERE link.source = below.id AND target.id = link.target AND target.family = $2 ORDER BY target.id"""
FIELDS_OF_SOURCE: Final = "SELECT field FROM link WHERE source = $1"
SET: Final = """
INSERT INTO link (source, field, target) VALUES ($1, $2, $3)
ON CONFLICT (source, field) DO UPDATE SET target = excluded.target"""
DELETE_FIELD: Final = "DELETE FROM link WHERE source = $1 AND field = $2"
DELETE_OF_SOURCE: Final = "DELETE FROM link WHERE source = $1"


class LinkTable(Table):
    __slots__ = ()

    async def sources(self, target: str, field: str) -> list[Row]:
        """Returns all resources that refer to `target` by this field."""
        return [Row(*row) for row in await self._session.all(SOURCES_OF_TARGET, target, field)]

    async def users(self, target: str) -> list[Row]:
        """Returns all resources that refer to `target` by any field, once for each field."""
        return [Row(*row) for row in await self._session.all(USERS, target)]

    async def users_of_family(self, target: str, family: str) -> list[Row]:
        """Returns the resources of a family that refer to `target`, without duplicates."""
        users = {row.id: row for row in await self.users(target) if row.family == family}
        return [*users.values()]

    async def target(self, source: str, field: str) -> str | None:
        rows = await self._session.all(TARGET_OF_FIELD, source, field)
        return str(rows[0][0]) if rows else None

    async def fields(self, source: str) -> list[str]:
        """Returns the fields by which a resource refers to others."""
        return [str(row[0]) for row in await self._session.all(FIELDS_OF_SOURCE, source)]

    async def count_chained(self, target: str, field: str, limit: int) -> int:
        """Returns the number of resources that refer to `target` by this field, directly or through others;
        at most `limit`."""
        row = await self._session.one(COUNT_CHAINED, target, field, limit)
        assert row is not None
        return int(row[0])

    async def targets_at_or_below(self, id: str, family: str) -> list[str]:
        """Returns the resources of a family to which a resource or its descendants refer."""
        return [row[0] for row in await self._session.all(TARGETS_AT_OR_BELOW, id, family)]


class LinkChanges(LinkTable):
    __slots__ = ()
    _session: ChangeSession

    async def set(self, source: str, field: str, target: str) -> None:
        await self._session.all(SET, source, field, target)

    async def unset(self, source: str, field: str) -> None:
        await self._session.all(DELETE_FIELD, source, field)

    async def delete_of(self, source: str) -> None:
        await self._session.all(DELETE_OF_SOURCE, source)
