"""Owners of places: each place belongs to one server, which renews a lease.

A stopped server keeps its place; only an operator transfers the place to another server. Clocks of servers
may differ, so only the owner compares the end of its lease with its clock. Other servers detect a running
owner by the changes of the lease.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from windlass.store.tables.table import ChangeSession, Table, columns


class Surroundings(Struct, frozen=True, gc=False):
    """The properties of a place that servers on other machines need."""

    takes: str = ""
    """The kind of artifact that the place's engine runs."""
    host: str = ""
    """The host name for public ports."""
    domain: str = ""
    """The domain of the services' host names."""
    port: int = 0
    """The port of the place's gateway."""


NO_SURROUNDINGS: Final = Surroundings()


class OwnerRow(Struct, frozen=True, gc=False):
    place: str
    owner: str
    until: int
    """The end of the lease, by the owner's clock."""
    is_lost: int
    """1 if other servers have detected that the owner no longer renews its lease."""
    former: str
    """Former owners of the place whose programs may still be running, separated by spaces."""
    takes: str = ""
    host: str = ""
    domain: str = ""
    port: int = 0
    home: str = ""
    """The identity of the data directory that the owner has open; empty if the engine does not depend on
    it."""

    @property
    def surroundings(self) -> Surroundings:
        return Surroundings(self.takes, self.host, self.domain, self.port)

    @property
    def formers(self) -> frozenset[str]:
        return frozenset(self.former.split())


GET: Final = f"SELECT {columns(OwnerRow)} FROM place_owner WHERE place = $1"
ALL: Final = f"SELECT {columns(OwnerRow)} FROM place_owner ORDER BY place"
RENEW: Final = """
INSERT INTO place_owner (place, owner, until, takes, host, domain, port, home)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (place) DO UPDATE SET is_lost = 0, takes = excluded.takes, host = excluded.host,
    domain = excluded.domain, port = excluded.port, home = excluded.home,
    until = CASE WHEN excluded.until > place_owner.until THEN excluded.until ELSE place_owner.until + 1 END
WHERE place_owner.owner = excluded.owner
    AND (place_owner.home IN ('', excluded.home) OR excluded.home = '' OR place_owner.until <= $9)
RETURNING owner"""
TAKE_OVER: Final = """
UPDATE place_owner SET former = $1, owner = $2, until = $3, is_lost = 0, home = $4
WHERE place = $5 AND owner = $6 AND until = $7 RETURNING place"""
MARK_LOST: Final = """
UPDATE place_owner SET is_lost = 1 WHERE place = $1 AND until = $2 AND is_lost = 0 RETURNING place"""
CLEAR_FORMER: Final = "UPDATE place_owner SET former = $1 WHERE place = $2 AND former = $3"


class OwnerTable(Table):
    __slots__ = ()

    async def get(self, place: str) -> OwnerRow | None:
        row = await self._session.one(GET, place)
        return OwnerRow(*row) if row else None

    async def all(self) -> list[OwnerRow]:
        return [OwnerRow(*row) for row in await self._session.all(ALL)]


class OwnerChanges(OwnerTable):
    __slots__ = ()
    _session: ChangeSession

    async def renew(
        self,
        place: str,
        owner: str,
        lease: int,
        surroundings: Surroundings = NO_SURROUNDINGS,
        home: str = "",
        ended_at: int = 0,
    ) -> bool:
        """Renews an owner's lease, or begins it if the place has no owner.

        Returns False if the place belongs to another owner, even one whose lease has ended, or if the owner
        has an unexpired lease with another `home`. `ended_at`: leases until this time have ended in any case.
        """
        now = self._session.now
        about = surroundings.takes, surroundings.host, surroundings.domain, surroundings.port
        return (
            await self._session.one(RENEW, place, owner, now + lease, *about, home, max(now, ended_at))
            is not None
        )

    async def take_over(self, owner_row: OwnerRow, owner: str, lease: int, home: str = "") -> bool:
        """Transfers a place to another owner. Returns False if the current owner has renewed the lease
        meanwhile."""
        former = _join((owner_row.formers | {owner_row.owner}) - {owner})
        until = self._session.now + lease
        row = await self._session.one(
            TAKE_OVER, former, owner, until, home, owner_row.place, owner_row.owner, owner_row.until
        )
        return row is not None

    async def mark_lost(self, owner_row: OwnerRow) -> bool:
        """Marks the owner of a place as lost. Returns True only for the first call after each loss."""
        return await self._session.one(MARK_LOST, owner_row.place, owner_row.until) is not None

    async def relinquish(self, owner_row: OwnerRow, former: str) -> None:
        """Records that a former owner has stopped its programs at a place. Does nothing if the row has
        changed, in which case the former owner tries again."""
        await self._session.all(
            CLEAR_FORMER, _join(owner_row.formers - {former}), owner_row.place, owner_row.former
        )


def _join(owners: Iterable[str]) -> str:
    return " ".join(sorted(owners))
