"""Deployment restrictions of a service: paths whose changes `auto_deploy` deploys or ignores.

Their number is limited. Duplicates are harmless.
"""

from __future__ import annotations

from typing import Final

from windlass.base.errors import Conflict
from windlass.control.context.context import Context
from windlass.control.request.behaviour import Behaviour, Draft, behaves
from windlass.families.deployment_restriction import DeploymentRestriction, deployment_restriction
from windlass.store import Reads, Tx

MAX_RESTRICTIONS: Final = 1000
"""Maximum number of restrictions of one service."""


async def restrictions_of(reads: Reads, service: str) -> list[DeploymentRestriction]:
    rows = await reads.resources.of_parent(service, deployment_restriction.name)
    return [row.read(DeploymentRestriction) for row in rows]


@behaves(deployment_restriction)
class DeploymentRestrictions(Behaviour[DeploymentRestriction]):
    async def creating(self, ctx: Context, tx: Tx, draft: Draft[DeploymentRestriction]) -> None:
        rows = await tx.resources.of_parent(draft.above.id, deployment_restriction.name)
        if len(rows) >= MAX_RESTRICTIONS:
            raise Conflict(f"Delete a restriction first: a service has at most {MAX_RESTRICTIONS}")
