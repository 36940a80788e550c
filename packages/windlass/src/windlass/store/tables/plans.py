"""Plans of runs: what the run of a deployment would change, or has changed, as its kind has encoded it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from msgspec import Struct

from windlass.store.tables.table import ChangeSession, Table, columns, places


class StoredPlan(Struct, frozen=True, gc=False):
    """The stored plan of a deployment."""

    deployment: str
    org: str
    service: str
    created: int
    added: int
    changed: int
    destroyed: int
    sealed: bytes


_PLAN: Final = columns(StoredPlan)
# The table has the name of the first kind whose runs had plans.
GET: Final = f"SELECT {_PLAN} FROM terraform_plan WHERE deployment = $1"
DEPLOYMENTS_OF_SERVICE: Final = (
    "SELECT deployment FROM terraform_plan WHERE service = $1 ORDER BY created DESC"
)
PUT: Final = f"""
INSERT INTO terraform_plan ({_PLAN}) VALUES ({places(8)})
ON CONFLICT (deployment) DO UPDATE SET created = excluded.created, added = excluded.added,
changed = excluded.changed, destroyed = excluded.destroyed, sealed = excluded.sealed"""
DELETE_OLD: Final = """
DELETE FROM terraform_plan WHERE service = $1 AND deployment NOT IN (
    SELECT deployment FROM terraform_plan WHERE service = $2 ORDER BY created DESC LIMIT $3
)"""
DELETE_OF_SERVICE: Final = "DELETE FROM terraform_plan WHERE service = $1"


def _plan(row: Sequence[Any]) -> StoredPlan:
    values: Any = (*row[:-1], bytes(row[-1]))
    return StoredPlan(*values)


class PlanTable(Table):
    __slots__ = ()

    async def get(self, deployment: str) -> StoredPlan | None:
        row = await self._session.one(GET, deployment)
        return _plan(row) if row else None

    async def each(self, service: str, deployment: str | None = None) -> AsyncIterator[StoredPlan]:
        """Yields the stored plans of a service, the newest first, or only that of a deployment. Reads one at
        a time, because plans may be large."""
        for (id,) in await self._session.all(DEPLOYMENTS_OF_SERVICE, service):
            if deployment in (None, id) and (plan := await self.get(id)) is not None:
                yield plan


class PlanChanges(PlanTable):
    __slots__ = ()
    _session: ChangeSession

    async def put(self, plan: StoredPlan, keep_count: int) -> None:
        """Stores a plan, and removes all but the last `keep_count` plans of its service."""
        await self._session.all(PUT, *(getattr(plan, name) for name in StoredPlan.__struct_fields__))
        await self._session.all(DELETE_OLD, plan.service, plan.service, keep_count)

    async def delete_of(self, service: str) -> None:
        await self._session.all(DELETE_OF_SERVICE, service)
