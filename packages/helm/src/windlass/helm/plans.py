"""Plans of releases: what a run has changed, or would change, by object. They are stored encrypted."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from windlass.control.context.context import Context
from windlass.control.records.deployments import particulars
from windlass.core.deploy.states import Do, Progress
from windlass.helm.families.helm import DIFFERENCE
from windlass.helm.health import DeployedController
from windlass.helm.manifests import ManifestDifference
from windlass.store import DeploymentRow, Reads, Tx
from windlass.store.tables.plans import StoredPlan
from windlass.store.tables.sealed import PLAN

MAX_KEPT_PLANS: Final = 20
"""Number of plans of a service that are kept."""


class ReleasePlan(Struct, frozen=True):
    """The encrypted part of a plan."""

    comparison: ManifestDifference
    revision: int
    """The revision of the release before the run; 0 if there was none."""
    controllers: list[DeployedController] = []
    """The Deployments and StatefulSets as the run left them; empty before its end, and for a plan alone."""


async def put_plan(ctx: Context, tx: Tx, run: DeploymentRow, plan: ReleasePlan) -> None:
    """Stores the plan of a deployment. A repeated request replaces the plan."""
    owner = PLAN.owner(org=run.org, service=run.service, deployment=run.id)
    sealed = ctx.encryption.encrypt(msgspec.msgpack.encode(plan), *owner)
    count = plan.comparison.count
    counts = count("create"), count("update"), count("destroy")
    await tx.plans.put(StoredPlan(run.id, run.org, run.service, tx.now, *counts, sealed), MAX_KEPT_PLANS)


def plan_in(ctx: Context, stored: StoredPlan) -> ReleasePlan:
    owner = PLAN.owner(org=stored.org, service=stored.service, deployment=stored.deployment)
    return msgspec.msgpack.decode(ctx.encryption.decrypt(stored.sealed, *owner), type=ReleasePlan)


async def released_plan(ctx: Context, reads: Reads, service: str) -> ReleasePlan | None:
    """Returns the plan of the newest run that has changed the release and succeeded; None if there is none,
    or the release was removed since."""
    for deployment in await reads.deployments.latest(service, 100):
        if deployment.status != Progress.SUCCEEDED:
            continue
        if deployment.action in (Do.UNINSTALL, Do.DELETE):
            return None
        plan = await reads.plans.get(deployment.id)
        if plan is not None and particulars(deployment).event != DIFFERENCE:
            return plan_in(ctx, plan)
    return None
