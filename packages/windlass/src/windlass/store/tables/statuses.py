"""Statuses: the state of each service, and the deployment that it runs."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from windlass.store.nudges import status_topic
from windlass.store.tables.deployments import OPEN_STATES
from windlass.store.tables.table import ChangeSession, Table, columns, places


class StatusRow(Struct, frozen=True, gc=False):
    id: str
    org: str
    state: str
    message: str
    deployment: str | None
    deployments: int
    deployed_at: int | None
    changed: int
    serving: str | None = None
    """The deployment that the service should run."""
    digest: str = ""
    """A digest of the complete configuration of its last deployment."""
    instances: int = 0
    """The number of instances that scaling has last decided, between the minimum and the maximum."""
    cluster: str = ""
    """The cluster where the service runs, whose engine is needed for work on the service."""
    running: int = 0
    ready: int = 0
    """The numbers of running and of ready instances of `serving`, when the engine was last checked."""
    sleep: str = ""
    """Whether the service sleeps, or is being woken; see `Sleep`. It has no instances while it sleeps."""


_COLUMNS: Final = columns(StatusRow)
GET: Final = f"SELECT {_COLUMNS} FROM status WHERE id = $1"
BELOW: Final = f"""
SELECT {columns(StatusRow, "status")}
FROM resource JOIN status ON status.id = resource.id WHERE resource.parent = $1
ORDER BY resource.created, resource.id"""
SERVING_DEPLOYMENTS: Final = "SELECT id, org, serving FROM status WHERE serving IS NOT NULL ORDER BY id"
STATUSES_OF_KEPT_DEPLOYMENTS: Final = f"""
SELECT deployment.number, {columns(StatusRow, "status")}
FROM status JOIN deployment ON deployment.id = status.serving
WHERE status.serving IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM deployment AS next WHERE next.service = status.id AND next.status IN ({OPEN_STATES})
)"""
ORGANIZATIONS: Final = "SELECT id, org FROM status"
SERVICES: Final = "SELECT id FROM status ORDER BY id"
CLUSTERS: Final = "SELECT DISTINCT cluster FROM status WHERE cluster <> '' ORDER BY cluster"
ON_CLUSTER: Final = "SELECT id FROM status WHERE cluster = $1 ORDER BY id"
DEPLOYED: Final = f"""
SELECT status.org, status.cluster FROM status JOIN resource ON resource.id = status.id
WHERE status.serving IS NOT NULL OR EXISTS (
    SELECT 1 FROM deployment
    WHERE deployment.service = status.id
    AND (deployment.sealed IS NOT NULL OR deployment.status IN ({OPEN_STATES}))
)
GROUP BY status.org, status.cluster
ORDER BY MIN(CASE WHEN status.serving IS NULL THEN 1 ELSE 0 END), MIN(resource.created), status.org"""
ADD: Final = f"INSERT INTO status ({_COLUMNS}) VALUES ({places(len(StatusRow.__struct_fields__))})"
CHANGE: Final = """
UPDATE status SET state = $1, message = $2, deployment = $3, deployments = $4, deployed_at = $5, changed = $6,
    serving = $7, digest = $8, instances = $9, running = $10, ready = $11, sleep = $12
WHERE id = $13"""
DELETE: Final = "DELETE FROM status WHERE id = $1 RETURNING cluster, deployments"


class StatusTable(Table):
    __slots__ = ()

    async def get(self, id: str) -> StatusRow | None:
        row = await self._session.one(GET, id)
        return StatusRow(*row) if row else None

    async def below(self, parent: str) -> list[StatusRow]:
        return [StatusRow(*row) for row in await self._session.all(BELOW, parent)]

    async def serving(self) -> list[tuple[str, str, str]]:
        """Returns the services that should run, each with its organization and deployment."""
        return [(row[0], row[1], row[2]) for row in await self._session.all(SERVING_DEPLOYMENTS)]

    async def kept(self) -> list[tuple[int, StatusRow]]:
        """Returns the services that should run and have no open deployment, each preceded by the number of
        its deployment."""
        return [
            (row[0], StatusRow(*row[1:])) for row in await self._session.all(STATUSES_OF_KEPT_DEPLOYMENTS)
        ]

    async def services(self) -> list[str]:
        return [row[0] for row in await self._session.all(SERVICES)]

    async def organizations(self) -> dict[str, str]:
        """Returns the organization of each service."""
        return {row[0]: row[1] for row in await self._session.all(ORGANIZATIONS)}

    async def clusters(self) -> list[str]:
        """Returns the clusters with environments or services."""
        return [row[0] for row in await self._session.all(CLUSTERS)]

    async def on_cluster(self, cluster: str) -> list[str]:
        """Returns the services and environments on a cluster."""
        return [row[0] for row in await self._session.all(ON_CLUSTER, cluster)]

    async def deployed(self) -> list[tuple[str, str]]:
        """Returns the organizations with deployed services, each with a cluster of these services.

        A service counts as deployed if it has a build, runs, has data, or is being deployed. Organizations
        with running services come first, then the oldest.
        """
        return [(row[0], row[1]) for row in await self._session.all(DEPLOYED)]


class StatusChanges(StatusTable):
    __slots__ = ()
    _session: ChangeSession

    async def add(self, id: str, org: str, state: str, cluster: str = "") -> None:
        now = self._session.now
        await self._session.all(ADD, id, org, state, "", None, 0, None, now, None, "", 0, cluster, 0, 0, "")

    async def change(self, row: StatusRow) -> None:
        self._session.nudge(status_topic(row.id))
        await self._session.all(
            CHANGE, row.state, row.message, row.deployment, row.deployments, row.deployed_at,
            self._session.now, row.serving, row.digest, row.instances, row.running, row.ready,
            row.sleep, row.id,
        )  # fmt: skip

    async def remove(self, id: str) -> str | None:
        """Removes a status, and ends its streams.

        Returns the cluster that has data of the service; empty if the service was never deployed, None if
        there was no status.
        """
        rows = await self._session.all(DELETE, id)
        if not rows:
            return None
        self._session.nudge(status_topic(id))
        cluster, deployments = rows[0]
        return str(cluster) if deployments else ""
