"""Branch heads: for each service with automatic deployment, the newest commit that was seen."""

from __future__ import annotations

from typing import Final

from windlass.store.tables.table import ChangeSession, Table

GET_SEEN_COMMIT: Final = "SELECT seen FROM branch_head WHERE service = $1"
SET_SEEN_COMMIT: Final = """
INSERT INTO branch_head (service, seen) VALUES ($1, $2)
ON CONFLICT (service) DO UPDATE SET seen = excluded.seen"""
DELETE: Final = "DELETE FROM branch_head WHERE service = $1"


class BranchHeadTable(Table):
    __slots__ = ()

    async def seen(self, service: str) -> str | None:
        row = await self._session.one(GET_SEEN_COMMIT, service)
        return None if row is None else str(row[0])


class BranchHeadChanges(BranchHeadTable):
    __slots__ = ()
    _session: ChangeSession

    async def record(self, service: str, commit: str) -> None:
        await self._session.all(SET_SEEN_COMMIT, service, commit)

    async def delete_of(self, service: str) -> None:
        await self._session.all(DELETE, service)
