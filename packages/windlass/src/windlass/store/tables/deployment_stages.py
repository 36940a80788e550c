"""Deployment stages: the order of the stages of each environment, and the stage of each service."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from windlass.core.deploy.progress import StageRecord
from windlass.store.tables.deployments import OPEN_STATES, DeploymentRow
from windlass.store.tables.table import NEVER, ChangeSession, Table, columns, places

OF_USER: Final = -1
"""The value of `takes` of stages that take no new services by default."""


class StageRow(Struct, frozen=True, gc=False):
    """A deployment stage. Its name is in the resource with the same id."""

    id: str
    environment: str
    place: int
    """The place in the order of the environment's stages, from 1."""
    takes: int = OF_USER
    """The precedence of the kinds whose new services are placed in it; negative if there are none."""


class StagedServiceRow(Struct, frozen=True, gc=False):
    service: str
    environment: str
    stage: str
    is_skipped: int
    created: int
    changed: int


class OpenInStage(Struct, frozen=True, gc=False):
    """A waiting or running deployment, with the place of its service's stage."""

    deployment: DeploymentRow
    """Without its sealed workload."""
    family: str
    place: int

    @property
    def org(self) -> str:
        return self.deployment.org


class PlacedService(Struct, frozen=True, gc=False):
    """A service in its stage, with its family and name."""

    row: StagedServiceRow
    family: str
    name: str


_STAGE: Final = columns(StageRow)
_SERVICE: Final = columns(StagedServiceRow)
GET: Final = f"SELECT {_STAGE} FROM deployment_stage WHERE id = $1"
OF_ENVIRONMENT: Final = f"SELECT {_STAGE} FROM deployment_stage WHERE environment = $1 ORDER BY place"
ADD: Final = f"INSERT INTO deployment_stage ({_STAGE}) VALUES ({places(len(StageRow.__struct_fields__))})"
SET_PLACE: Final = "UPDATE deployment_stage SET place = $1 WHERE id = $2"
DELETE: Final = "DELETE FROM deployment_stage WHERE id = $1"

OF_SERVICE: Final = f"SELECT {_SERVICE} FROM staged_service WHERE service = $1"
_PLACED: Final = f"""
SELECT {columns(StagedServiceRow, "staged_service")}, resource.family, resource.name
FROM staged_service JOIN resource ON resource.id = staged_service.service"""
SERVICES_OF_ENVIRONMENT: Final = f"""{_PLACED}
WHERE staged_service.environment = $1 ORDER BY resource.created, resource.id"""
SERVICES_OF_STAGE: Final = f"""{_PLACED}
WHERE staged_service.stage = $1 ORDER BY resource.created, resource.id"""
ANY_OF_STAGE: Final = "SELECT service FROM staged_service WHERE stage = $1 LIMIT 1"
PLACE_OF: Final = """
SELECT deployment_stage.place FROM staged_service
JOIN deployment_stage ON deployment_stage.id = staged_service.stage WHERE staged_service.service = $1"""
RECORD_OF: Final = """
SELECT deployment_stage.id, resource.name, deployment_stage.place FROM staged_service
JOIN deployment_stage ON deployment_stage.id = staged_service.stage
JOIN resource ON resource.id = deployment_stage.id
WHERE staged_service.service = $1"""
PLACES: Final = """
SELECT staged_service.service, deployment_stage.place FROM staged_service
JOIN deployment_stage ON deployment_stage.id = staged_service.stage WHERE staged_service.environment = $1"""
_OPEN_COLUMNS: Final = columns(DeploymentRow, "deployment").replace("deployment.sealed", "NULL")
# SQLite keeps the table order of a CROSS JOIN. Otherwise it might begin with all open deployments of the
# installation.
OPEN_DEPLOYMENTS: Final = f"""
SELECT {_OPEN_COLUMNS}, resource.family, deployment_stage.place
FROM deployment_stage CROSS JOIN staged_service CROSS JOIN deployment CROSS JOIN resource
WHERE deployment_stage.environment = $1 AND deployment_stage.place >= $2 AND deployment_stage.place <= $3
    AND staged_service.stage = deployment_stage.id
    AND deployment.service = staged_service.service AND deployment.status IN ({OPEN_STATES})
    AND resource.id = staged_service.service
ORDER BY deployment_stage.place, resource.created, resource.id, deployment.number"""
SKIPPED: Final = "SELECT service FROM staged_service WHERE environment = $1 AND is_skipped = 1"
PLACE: Final = f"""
INSERT INTO staged_service ({_SERVICE}) VALUES ({places(len(StagedServiceRow.__struct_fields__))})
ON CONFLICT (service) DO UPDATE SET
    stage = excluded.stage, is_skipped = excluded.is_skipped, changed = excluded.changed"""
PLACE_BY_DEFAULT: Final = f"""
INSERT INTO staged_service ({_SERVICE})
SELECT CAST($1 AS TEXT), environment, id, 0, CAST($2 AS BIGINT), CAST($2 AS BIGINT) FROM deployment_stage
WHERE environment = $3 AND takes = $4
RETURNING stage"""
DELETE_SERVICE: Final = "DELETE FROM staged_service WHERE service = $1"


class DeploymentStageTable(Table):
    __slots__ = ()

    async def get(self, id: str) -> StageRow | None:
        row = await self._session.one(GET, id)
        return StageRow(*row) if row else None

    async def of_environment(self, environment: str) -> list[StageRow]:
        """Returns the stages of an environment in their order."""
        return [StageRow(*row) for row in await self._session.all(OF_ENVIRONMENT, environment)]

    async def service(self, service: str) -> StagedServiceRow | None:
        row = await self._session.one(OF_SERVICE, service)
        return StagedServiceRow(*row) if row else None

    async def services_of_environment(self, environment: str) -> list[PlacedService]:
        """Returns the services of all stages of an environment, the oldest first."""
        return _placed(await self._session.all(SERVICES_OF_ENVIRONMENT, environment))

    async def services_of_stage(self, stage: str) -> list[PlacedService]:
        """Returns the services of a stage, the oldest first."""
        return _placed(await self._session.all(SERVICES_OF_STAGE, stage))

    async def has_services(self, stage: str) -> bool:
        return await self._session.one(ANY_OF_STAGE, stage) is not None

    async def place_of(self, service: str) -> int | None:
        """Returns the place of a service's stage; None if it is in none."""
        row = await self._session.one(PLACE_OF, service)
        return int(row[0]) if row else None

    async def record_of(self, service: str) -> StageRecord | None:
        """Returns the present stage of a service; None if it is in none."""
        row = await self._session.one(RECORD_OF, service)
        return StageRecord(*row) if row else None

    async def places(self, environment: str) -> dict[str, int]:
        """Returns the place of the stage of each service of an environment."""
        return {row[0]: row[1] for row in await self._session.all(PLACES, environment)}

    async def open_deployments(
        self, environment: str, first: int = 0, last_stage: int = NEVER
    ) -> list[OpenInStage]:
        """Returns the waiting and running deployments of an environment in the order of its stages, from the
        place `first` to the place `last_stage`."""
        rows = await self._session.all(OPEN_DEPLOYMENTS, environment, first, last_stage)
        return [OpenInStage(DeploymentRow(*row[:-2]), row[-2], row[-1]) for row in rows]

    async def skipped(self, environment: str) -> set[str]:
        """Returns the services that deployments of the whole environment leave out."""
        return {row[0] for row in await self._session.all(SKIPPED, environment)}


def _placed(rows: Sequence[Sequence[object]]) -> list[PlacedService]:
    return [PlacedService(StagedServiceRow(*row[:-2]), str(row[-2]), str(row[-1])) for row in rows]  # type: ignore[arg-type]


class DeploymentStageChanges(DeploymentStageTable):
    __slots__ = ()
    _session: ChangeSession

    async def add(self, row: StageRow) -> None:
        await self._session.all(ADD, *msgspec.structs.astuple(row))

    async def arrange(self, stages: Iterable[StageRow]) -> None:
        """Numbers the stages of an environment in this order. Writes only places that change."""
        for place, stage in enumerate(stages, 1):
            if stage.place != place:
                await self._session.all(SET_PLACE, place, stage.id)

    async def place(self, rows: Sequence[StagedServiceRow]) -> None:
        """Places services in stages. A service that is in another stage leaves it."""
        if rows:
            await self._session.many(PLACE, [msgspec.structs.astuple(row) for row in rows])

    async def place_by_default(self, service: str, environment: str, precedence: int) -> bool:
        """Places a new service in the default stage for its precedence. Returns whether there is one."""
        now = self._session.now
        return await self._session.one(PLACE_BY_DEFAULT, service, now, environment, precedence) is not None

    async def delete_of(self, id: str) -> None:
        """Removes a stage, or a service from its stage."""
        await self._session.all(DELETE, id)
        await self._session.all(DELETE_SERVICE, id)
