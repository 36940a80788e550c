"""Volumes: the names of the volumes with which deployments of a service have run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from windlass.store.tables.table import ChangeSession, Table

VOLUMES_OF_SERVICE: Final = "SELECT name FROM volume WHERE service = $1 ORDER BY name"
ALL: Final = "SELECT service, name FROM volume ORDER BY service, name"
ADD: Final = "INSERT INTO volume (service, name) VALUES ($1, $2) ON CONFLICT (service, name) DO NOTHING"
DELETE_OF_SERVICE: Final = "DELETE FROM volume WHERE service = $1"


class VolumeTable(Table):
    __slots__ = ()

    async def of(self, service: str) -> set[str]:
        return {row[0] for row in await self._session.all(VOLUMES_OF_SERVICE, service)}


class VolumeChanges(VolumeTable):
    __slots__ = ()
    _session: ChangeSession

    async def add(self, service: str, names: Iterable[str]) -> None:
        for name in names:
            await self._session.all(ADD, service, name)

    async def delete_of(self, service: str) -> None:
        """Removes the volumes of a service from the table, after their data was deliberately erased."""
        await self._session.all(DELETE_OF_SERVICE, service)
