"""Owners of places: the server that a place belongs to, with a lease.

A server that was stopped keeps its place: only an operator gives it to another server.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from windlass.store.tables.table import ChangeSession, Table, columns


class OwnerRow(Struct, frozen=True, gc=False):
    place: str
    owner: str
    until: int
    is_lost: int
    """1 if other servers have seen that the lease ended."""
    former: str
    """The owner from whom the place was taken; empty if there was none."""


GET: Final = f"SELECT {columns(OwnerRow)} FROM place_owner WHERE place = $1"
RENEW: Final = """
INSERT INTO place_owner (place, owner, until) VALUES ($1, $2, $3)
ON CONFLICT (place) DO UPDATE SET until = excluded.until, is_lost = 0 WHERE place_owner.owner = excluded.owner
RETURNING owner"""
TAKE: Final = """
UPDATE place_owner SET former = owner, owner = $1, until = $2, is_lost = 0
WHERE place = $3 AND owner <> $4 AND until <= $5 RETURNING place"""
LOSE: Final = """
UPDATE place_owner SET is_lost = 1 WHERE place = $1 AND until <= $2 AND is_lost = 0 RETURNING place"""
RELINQUISH: Final = "UPDATE place_owner SET former = '' WHERE place = $1 AND former = $2"


class OwnerTable(Table):
    __slots__ = ()

    async def get(self, place: str) -> OwnerRow | None:
        row = await self._session.one(GET, place)
        return OwnerRow(*row) if row else None


class OwnerChanges(OwnerTable):
    __slots__ = ()
    _session: ChangeSession

    async def renew(self, place: str, owner: str, lease: int) -> bool:
        """Renews the lease of an owner, or begins it where the place has none. Returns False if the place
        belongs to another owner, even if its lease has ended."""
        return await self._session.one(RENEW, place, owner, self._session.now + lease) is not None

    async def take(self, place: str, owner: str, lease: int) -> bool:
        """Gives a place to another owner. Returns False while the present one has its lease."""
        now = self._session.now
        return await self._session.one(TAKE, owner, now + lease, place, owner, now) is not None

    async def lose(self, place: str) -> bool:
        """Marks a place whose owner is gone; returns True once for each time that it is gone."""
        return await self._session.one(LOSE, place, self._session.now) is not None

    async def relinquish(self, place: str, former: str) -> None:
        """Records that a former owner has ended what ran at the place."""
        await self._session.all(RELINQUISH, place, former)
