"""Deployment restrictions: each exists once at a service, and there are not too many."""

from __future__ import annotations

from typing import Final

from msgspec.structs import astuple

from windlass.base.errors import Conflict
from windlass.control.context.context import Context
from windlass.control.request.behaviour import Behaviour, Change, Draft, behaves
from windlass.families.deployment_restriction import DeploymentRestriction, deployment_restriction
from windlass.store import Reads, Row, Tx

MOST: Final = 1000
"""Restrictions of one service."""


async def restrictions_of(source: Reads, service: str) -> list[DeploymentRestriction]:
    rows = await source.resources.of_parent(service, deployment_restriction.name)
    return [row.read(DeploymentRestriction) for row in rows]


@behaves(deployment_restriction)
class DeploymentRestrictions(Behaviour[DeploymentRestriction]):
    async def creating(self, ctx: Context, tx: Tx, draft: Draft[DeploymentRestriction]) -> None:
        rows = await tx.resources.of_parent(draft.above.id, deployment_restriction.name)
        if len(rows) >= MOST:
            raise Conflict(f"Delete a restriction first: a service has at most {MOST}")
        _refuse_twin(rows, draft.spec)

    async def updating(self, ctx: Context, tx: Tx, change: Change[DeploymentRestriction]) -> None:
        rows = await tx.resources.of_parent(change.row.parent, deployment_restriction.name)
        _refuse_twin([row for row in rows if row.id != change.row.id], change.spec)


def _refuse_twin(rows: list[Row], spec: DeploymentRestriction) -> None:
    if any(astuple(row.read(DeploymentRestriction)) == astuple(spec) for row in rows):
        raise Conflict(f"value: choose another one: {spec.mode} {spec.value} is a restriction already")
