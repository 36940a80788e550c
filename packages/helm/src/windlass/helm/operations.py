"""API operations of Helm services: the Services, Pods and events of a release, and plans."""

from __future__ import annotations

from msgspec import UNSET

from windlass.base.clock import stamp
from windlass.base.errors import Unavailable
from windlass.control.context.call import Call, Reply, encode, reads, results
from windlass.control.context.context import Context
from windlass.control.records.sealed_workload import find_secrets
from windlass.control.request.paths import target
from windlass.core.declare.document import Document
from windlass.core.words.masking import EMPTY_MASK, Mask
from windlass.engines.releases import ReleaseDetails, ReleaseEngine
from windlass.helm.families.shapes import HelmPlanQuery
from windlass.helm.manifests import UNCHANGED
from windlass.helm.plans import plan_in, released_plan
from windlass.helm.release_watch import release_name
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


@reads("helm.pods")
async def list_pods(ctx: Context, call: Call) -> Reply:
    details, mask = await _details(ctx, call)
    return Reply(
        results(
            [
                encode(
                    {
                        "name": pod.name,
                        "phase": pod.phase,
                        "ready": pod.ready,
                        "restarts": pod.restarts,
                        "node": pod.node,
                        "reason": mask.text(pod.reason),
                        **({"created_at": stamp(pod.created)} if pod.created else {}),
                    }
                )
                for pod in details.pods
            ]
        )
    )


@reads("helm.clusterEvents")
async def list_cluster_events(ctx: Context, call: Call) -> Reply:
    details, mask = await _details(ctx, call)
    return Reply(
        results(
            [
                encode(
                    {
                        "address": event.address,
                        "reason": event.reason,
                        "message": mask.text(event.message),
                        "warning": event.is_warning,
                        "count": event.count,
                        **({"last_at": stamp(event.at)} if event.at else {}),
                    }
                )
                for event in details.events
            ]
        )
    )


async def _details(ctx: Context, call: Call) -> tuple[ReleaseDetails, Mask]:
    """Returns the Pods and events of a release; none if its cluster can have no release. Also returns the
    mask for secrets, which a command of a probe may write into them."""
    source = ctx.store.reads
    service = await target(source, call)
    place = await ctx.places.of_environment(source, service.parent)
    newest = await source.deployments.latest(service.id, 1)
    if not newest or not isinstance(place.engine, ReleaseEngine):
        return ReleaseDetails(), EMPTY_MASK
    details = await place.engine.releases.details(service.parent, release_name(service.id))
    if details is None:
        raise Unavailable("Try again later: the cluster of this environment does not answer")
    if ctx.logs.masks.of(newest[0].id) is None:
        await find_secrets(ctx, newest[0].id)
    return details, ctx.logs.masks.of(newest[0].id) or EMPTY_MASK


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
