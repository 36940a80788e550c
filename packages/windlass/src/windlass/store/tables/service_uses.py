"""Service uses: when each service that may sleep was last used."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from windlass.store.tables.table import ChangeSession, Table

GET_USE: Final = "SELECT at FROM service_use WHERE service = $1"
# Servers note the uses that their own gateways have seen: the latest one counts.
NOTE_USE: Final = """
INSERT INTO service_use (service, at) VALUES ($1, $2)
ON CONFLICT (service) DO UPDATE SET at = CASE WHEN excluded.at > service_use.at THEN excluded.at
    ELSE service_use.at END"""
DELETE: Final = "DELETE FROM service_use WHERE service = $1"


class ServiceUseTable(Table):
    __slots__ = ()

    async def last(self, service: str) -> int | None:
        """Returns the time at which a service was last used, as far as that is stored."""
        row = await self._session.one(GET_USE, service)
        return None if row is None else int(row[0])


class ServiceUseChanges(ServiceUseTable):
    __slots__ = ()
    _session: ChangeSession

    async def record(self, uses: Iterable[tuple[str, int]]) -> None:
        """Stores uses of services, each with its time. An earlier use than the stored one is ignored."""
        await self._session.many(NOTE_USE, [*uses])

    async def delete_of(self, service: str) -> None:
        await self._session.all(DELETE, service)
