"""Deletions in progress, which wait for services to be removed, and tombstones of deleted services."""

from __future__ import annotations

from typing import Final

from windlass.store.tables.resources import Row
from windlass.store.tables.table import ChangeSession, Table, columns

GET: Final = "SELECT body FROM deletion WHERE id = $1"
AT_OR_ABOVE: Final = f"""
WITH RECURSIVE above (id, parent) AS (
    SELECT id, parent FROM resource WHERE id = $1
    UNION ALL
    SELECT resource.id, resource.parent FROM resource JOIN above ON resource.id = above.parent
)
SELECT {columns(Row, "resource")}
FROM above JOIN deletion ON deletion.id = above.id JOIN resource ON resource.id = above.id LIMIT 1"""
ADD: Final = """
INSERT INTO deletion (id, body) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET body = excluded.body"""
DELETE: Final = "DELETE FROM deletion WHERE id = $1"

CLUSTER_OF_TOMBSTONE: Final = "SELECT cluster FROM tombstone WHERE service = $1"
TOMBSTONES_OF_CLUSTER: Final = "SELECT service FROM tombstone WHERE cluster = $1 ORDER BY service"
QUEUE_OF_TOMBSTONE: Final = """
SELECT queue.number FROM tombstone JOIN queue ON queue.cluster = tombstone.cluster
WHERE tombstone.service = $1"""
CLUSTERS_WITH_TOMBSTONES: Final = "SELECT DISTINCT cluster FROM tombstone WHERE cluster <> ''"
MARK_ERASED: Final = "UPDATE tombstone SET cluster = '' WHERE service = $1"
TOMBSTONES: Final = "SELECT service FROM tombstone"
TOMBSTONE_ADD: Final = """
INSERT INTO tombstone (service, at, cluster) VALUES ($1, $2, $3) ON CONFLICT (service) DO NOTHING"""


class DeletionTable(Table):
    __slots__ = ()

    async def get(self, id: str) -> bytes | None:
        """Returns the deletion request of a resource whose services are being removed; None if there is
        none."""
        row = await self._session.one(GET, id)
        return bytes(row[0]) if row else None

    async def at_or_above(self, id: str) -> Row | None:
        """Returns this resource or its nearest parent with a deletion in progress; None if there is none."""
        row = await self._session.one(AT_OR_ABOVE, id)
        return Row(*row) if row else None

    async def is_deleted(self, service: str) -> bool:
        """Returns whether the service was deleted in this database. Otherwise its data must not be erased."""
        return await self._session.one(CLUSTER_OF_TOMBSTONE, service) is not None

    async def left_at(self, service: str) -> str:
        """Returns the cluster that may still have data of a deleted service; empty if there is none."""
        row = await self._session.one(CLUSTER_OF_TOMBSTONE, service)
        return str(row[0]) if row else ""

    async def queue(self, service: str) -> int | None:
        """Returns the work queue of the cluster that may still have data of a deleted service; None if it has
        no queue."""
        row = await self._session.one(QUEUE_OF_TOMBSTONE, service)
        return int(row[0]) if row else None

    async def left_on(self, cluster: str) -> list[str]:
        """Returns the deleted services whose data may still be on a cluster."""
        return [row[0] for row in await self._session.all(TOMBSTONES_OF_CLUSTER, cluster)]

    async def clusters_with_data(self) -> list[str]:
        """Returns the clusters that may still have data of deleted services."""
        return [row[0] for row in await self._session.all(CLUSTERS_WITH_TOMBSTONES)]


class DeletionChanges(DeletionTable):
    __slots__ = ()
    _session: ChangeSession

    async def add(self, id: str, body: bytes) -> None:
        await self._session.all(ADD, id, body)

    async def delete_of(self, id: str) -> None:
        await self._session.all(DELETE, id)

    async def record(self, service: str, cluster: str) -> None:
        """Adds a permanent tombstone for a deleted service with the cluster where it ran."""
        await self._session.all(TOMBSTONE_ADD, service, self._session.now, cluster)

    async def record_erased(self, service: str) -> None:
        """Records that all data of a deleted service was erased."""
        await self._session.all(MARK_ERASED, service)
