"""Deployments: one row for each action on a service, numbered per service."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from windlass.core.deploy.states import OPEN_STATES_OF_DEPLOYMENTS as OPEN_PROGRESS
from windlass.core.deploy.states import Progress
from windlass.store.tables.table import NEVER, STORE_COST, ChangeSession, Table, columns, places


class DeploymentRow(Struct, frozen=True, gc=False):
    id: str
    org: str
    service: str
    number: int
    status: str
    created: int
    changed: int
    body: bytes
    action: str = "DEPLOY"
    sealed: bytes | None = None
    """The sealed specification of the workload: megabytes. None in lists of past deployments."""
    environment: str = ""
    """Empty in lists of past deployments."""


# In the same notation as the condition of the index `deployment_open`, because SQLite compares the texts.
OPEN_STATES: Final = ", ".join(f"'{progress}'" for progress in Progress if progress in OPEN_PROGRESS)
FORGOTTEN_AT_ONCE: Final = 50
"""Maximum number of workloads that one change erases: they may have megabytes each."""
_COLUMNS: Final = columns(DeploymentRow)
# SQLite keeps the environment after the workload, and would read megabytes to find it.
_WITHOUT_WORKLOAD: Final = _COLUMNS.replace("sealed, environment", "NULL AS sealed, '' AS environment")
_OF_DEPLOYMENT: Final = columns(DeploymentRow, "deployment")
GET: Final = f"SELECT {_COLUMNS} FROM deployment WHERE id = $1"
GET_PAST: Final = f"SELECT {_WITHOUT_WORKLOAD} FROM deployment WHERE id = $1"
OPEN: Final = f"""
SELECT {_COLUMNS} FROM deployment
WHERE service = $1 AND status IN ({OPEN_STATES}) ORDER BY number"""
# Pages are selected by number, so that every page costs the same.
LATEST_UP_TO_NUMBER: Final = f"""
SELECT {_WITHOUT_WORKLOAD} FROM deployment
WHERE service = $1 AND number <= $2 ORDER BY number DESC LIMIT $3"""
ENDED: Final = f"""
SELECT {_WITHOUT_WORKLOAD} FROM deployment
WHERE service = $1 AND status NOT IN ({OPEN_STATES}) AND number <= $2
ORDER BY number DESC LIMIT $3"""
OF_ENVIRONMENT: Final = f"""
SELECT {_WITHOUT_WORKLOAD} FROM deployment
WHERE environment = $1 AND (created, id) < ($2, $3) ORDER BY created DESC, id DESC LIMIT $4"""
NUMBER_AT: Final = """
SELECT number FROM deployment WHERE service = $1 AND created <= $2 ORDER BY number DESC LIMIT 1"""
MAX_AT_ONE_MOMENT: Final = 10
"""Maximum number of deployments of one service that are looked at for one moment."""
OF_MOMENT: Final = f"""
SELECT {_OF_DEPLOYMENT.replace("deployment.sealed, deployment.environment", "NULL, ''")}
FROM resource JOIN deployment ON deployment.service = resource.id
WHERE resource.parent = $1 AND deployment.created = $2 AND deployment.number > {-MAX_AT_ONE_MOMENT} + (
    SELECT newest.number FROM deployment AS newest
    WHERE newest.service = resource.id AND newest.created <= $2 ORDER BY newest.number DESC LIMIT 1
)
ORDER BY resource.created, resource.id, deployment.number"""
LARGEST_WORKLOAD: Final = """
SELECT MAX(LENGTH(sealed)) FROM (
    SELECT sealed FROM deployment WHERE service = $1 ORDER BY number DESC LIMIT $2
) AS newest"""
# The last workload of a service stays: it says that the service has run at its place, and which ports it had.
FORGET_WORKLOADS: Final = f"""
UPDATE deployment SET sealed = NULL WHERE id IN (
    SELECT id FROM deployment AS old
    WHERE service = $1 AND number <= $2 AND sealed IS NOT NULL AND status NOT IN ({OPEN_STATES})
    AND number < (
        SELECT MAX(later.number) FROM deployment AS later
        WHERE later.service = $1 AND later.sealed IS NOT NULL
    )
    AND NOT EXISTS (SELECT 1 FROM status WHERE status.id = $1 AND status.serving = old.id)
    AND NOT EXISTS (SELECT 1 FROM timetable WHERE timetable.job = $1 AND timetable.deployment = old.id)
    AND NOT EXISTS (SELECT 1 FROM run WHERE run.job = $1 AND run.deployment = old.id)
    ORDER BY number LIMIT {FORGOTTEN_AT_ONCE}
)"""
ADD: Final = f"INSERT INTO deployment ({_COLUMNS}) VALUES ({places(len(DeploymentRow.__struct_fields__))})"
CHANGE: Final = """
UPDATE deployment SET status = $1, changed = $2, body = $3, sealed = COALESCE($4, sealed) WHERE id = $5"""
DELETE_OF_SERVICE: Final = "DELETE FROM deployment WHERE service = $1"


class DeploymentTable(Table):
    __slots__ = ()

    async def get(self, id: str) -> DeploymentRow | None:
        row = await self._session.one(GET, id)
        return DeploymentRow(*row) if row else None

    async def past(self, id: str) -> DeploymentRow | None:
        """Returns a deployment without its workload."""
        row = await self._session.one(GET_PAST, id)
        return DeploymentRow(*row) if row else None

    async def open(self, service: str) -> list[DeploymentRow]:
        """Returns the waiting and running deployments of a service, the oldest first."""
        return [DeploymentRow(*row) for row in await self._session.all(OPEN, service)]

    async def latest(self, service: str, limit: int, newest_number: int = NEVER) -> list[DeploymentRow]:
        """Returns deployments of a service up to number `newest_number`, the newest first, without
        workloads."""
        return [
            DeploymentRow(*row)
            for row in await self._session.all(LATEST_UP_TO_NUMBER, service, newest_number, limit)
        ]

    async def ended(self, service: str, limit: int, newest_number: int = NEVER) -> list[DeploymentRow]:
        """Returns finished deployments up to number `newest_number`, the newest first, without workloads."""
        return [DeploymentRow(*row) for row in await self._session.all(ENDED, service, newest_number, limit)]

    async def of_environment(
        self, environment: str, created: int, id: str, limit: int
    ) -> list[DeploymentRow]:
        """Returns deployments of an environment before a moment, the newest first, without workloads. Of that
        moment itself, those with a smaller id."""
        rows = await self._session.all(OF_ENVIRONMENT, environment, created, id, limit)
        return [DeploymentRow(*row) for row in rows]

    async def of_moment(self, environment: str, timestamp: int) -> list[DeploymentRow]:
        """Returns the deployments of an environment that were requested at a moment, without their sealed
        workloads."""
        return [DeploymentRow(*row) for row in await self._session.all(OF_MOMENT, environment, timestamp)]

    async def workload_bytes(self, service: str, limit: int) -> int:
        """Returns the size of the largest stored workload of the newest deployments of a service."""
        row = await self._session.one(LARGEST_WORKLOAD, service, limit)
        return (row and row[0]) or 0

    async def number_at(self, service: str, timestamp: int) -> int:
        """Returns the number of the last deployment that existed at a moment; 0 if there was none."""
        row = await self._session.one(NUMBER_AT, service, timestamp)
        return int(row[0]) if row else 0


class DeploymentChanges(DeploymentTable):
    __slots__ = ()
    _session: ChangeSession

    async def add(self, row: DeploymentRow) -> None:
        self._session.spend(STORE_COST)
        await self._session.all(ADD, *msgspec.structs.astuple(row))

    async def change(self, row: DeploymentRow) -> None:
        await self._session.all(CHANGE, row.status, self._session.now, row.body, row.sealed, row.id)

    async def forget_workloads(self, service: str, newest_number: int) -> None:
        """Erases workloads of ended deployments up to number `newest_number`, a few at once. Those stay that
        instances or runs of the service may need, and the last one."""
        await self._session.all(FORGET_WORKLOADS, service, newest_number)

    async def delete_of(self, service: str) -> None:
        await self._session.all(DELETE_OF_SERVICE, service)
