"""Deploys a new tag of an image to the services that use the image and have `auto_deploy` enabled."""

from __future__ import annotations

from windlass.control.context.call import Call, Reply, encode
from windlass.control.context.context import Context
from windlass.control.records.shown_deployments import details_of, shown_deployment
from windlass.control.request.paths import target
from windlass.control.request.permissions import allows
from windlass.control.services.actions import deploy
from windlass.control.services.services import freshness
from windlass.control.workloads.images import is_named
from windlass.core.access import Scope
from windlass.core.declare.document import Document
from windlass.core.declare.resource import Family
from windlass.core.deploy.states import State
from windlass.families.container import ImageToDeploy
from windlass.store import Row, Tx


async def deploy_new_tag(ctx: Context, tx: Tx, call: Call, family: Family) -> Reply:
    """Deploys a new tag to the services that run the image with another tag and that the caller may
    deploy."""
    organization, asked = await target(tx, call), call.sent(ImageToDeploy)
    deployments: list[Document] = []
    kind = ctx.kinds[family.name]
    body = kind.request_of_tag(asked.tag)
    for service in await tx.resources.of_org(organization.id, family.name):
        image = kind.image(service)
        if image is None or image.tag == asked.tag or not kind.deploys_new_tags(service):
            continue
        if not await is_named(tx, service.org, asked.image_name, image):
            continue
        if await allows(tx, call.actor, Scope.DEPLOY, service):
            accepted, status = await deploy(ctx, tx, call, service, body)
            fresh = await freshness(ctx, tx, service, status)
            deployments.append(shown_deployment(call, service, accepted, status, fresh))
    request = deployments[0]["deployment_request_id"] if deployments else None
    summary = summary_of(call, organization, len(deployments), request)
    return Reply(encode({**summary, "deployments": deployments}))


def summary_of(call: Call, organization: Row, count: int, request: object = None) -> Document:
    """Returns what a new tag has started in the form of one status, as existing clients expect.

    Its request id is the one of the first deployment, because a request belongs to one environment.
    """
    state = State.QUEUED if count else State.DEPLOYED
    return {
        "id": organization.id,
        "state": call.dialect.state(state),
        "deployment_state": call.dialect.exact(state),
        "service_deployment_status": "OUT_OF_DATE" if count else "UP_TO_DATE",
        "is_part_last_deployment": bool(count),
        "status_details": details_of(state),
        "execution_id": request or "",
        "deployment_request_id": request,
        "deployment_requests_count": count,
    }
