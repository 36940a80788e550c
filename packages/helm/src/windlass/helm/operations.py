"""API operations of Helm services: the Services of a release, and plans."""

from __future__ import annotations

from msgspec import UNSET

from windlass.base.clock import stamp
from windlass.control.context.call import Call, Reply, encode, reads, results
from windlass.control.context.context import Context
from windlass.control.request.paths import target
from windlass.core.declare.document import Document
from windlass.helm.families.shapes import HelmPlanQuery
from windlass.helm.manifests import UNCHANGED
from windlass.helm.plans import plan_in, released_plan
from windlass.store.tables.plans import StoredPlan


@reads("helm.listServices")
async def list_services(ctx: Context, call: Call) -> Reply:
    source = ctx.store.reads
    service = await target(source, call)
    plan = await released_plan(ctx, source, service.id)
    documents: list[Document] = [
        {
            "metadata": {"name": item.name},
            "service_spec": {
                "type": item.type,
                "ports": item.ports,
                "selectors": [{"key": key, "value": value} for key, value in item.selectors.items()],
            },
        }
        for item in (plan.comparison.services if plan else ())
    ]
    return Reply(results([encode(document) for document in documents]))


@reads("helm.plan")
async def list_plans(ctx: Context, call: Call) -> Reply:
    source = ctx.store.reads
    service = await target(source, call)
    asked = call.asked(HelmPlanQuery).deployment_id
    plans = source.plans.each(service.id, None if asked is UNSET else asked)
    return Reply(results([encode(_shown_plan(ctx, plan)) async for plan in plans]))


def _shown_plan(ctx: Context, stored: StoredPlan) -> Document:
    plan = plan_in(ctx, stored)
    changes = [change for change in plan.comparison.changes if change.action != UNCHANGED]
    return {
        "deployment_id": stored.deployment,
        "created_at": stamp(stored.created),
        "added": stored.added,
        "changed": stored.changed,
        "destroyed": stored.destroyed,
        "applicable": False,
        "revision": plan.revision,
        "resources": [
            {
                "address": change.address,
                "namespace": change.namespace,
                "action": change.action,
                "difference": change.difference,
            }
            for change in changes
        ],
        "text": "\n".join(f"{change.address}\n{change.difference}\n" for change in changes),
    }
