"""A new tag of an image, and the services that are deployed with it."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import UnsetType

from windlass.control.context.call import Call, Reply, encode
from windlass.control.context.context import Context
from windlass.control.records.shown_deployments import shown_deployment
from windlass.control.request.permissions import allows
from windlass.control.services.actions import deploy
from windlass.control.services.services import freshness
from windlass.control.workloads.images import find_registry, name_in
from windlass.core.access import Scope
from windlass.core.declare.document import Document
from windlass.core.declare.spec import Spec
from windlass.core.deploy.states import State, action, action_status
from windlass.store import Row, Tx


async def deploy_new_tag(
    ctx: Context, tx: Tx, call: Call, organization: Row, services: Iterable[Row], body: Spec
) -> Reply:
    """Deploys those of the services that the caller may deploy."""
    deployments: list[Document] = []
    for service in services:
        if await allows(tx, call.actor, Scope.DEPLOY, service):
            accepted, status = await deploy(ctx, tx, call, service, body)
            fresh = await freshness(ctx, tx, service, status)
            deployments.append(shown_deployment(call, service, accepted, status, fresh))
    return Reply(encode(_summary(call, organization, deployments)))


async def is_named(
    ctx: Context, tx: Tx, org: str, asked: str, image_name: str, registry_id: str | UnsetType | None
) -> bool:
    """True if a name is that of an image: relative to its registry, or whole."""
    return asked in (image_name, name_in(await find_registry(ctx, org, registry_id, tx), image_name))


def _summary(call: Call, organization: Row, deployments: list[Document]) -> Document:
    """Returns the whole as existing clients expect it: as one status."""
    state = State.QUEUED if deployments else State.DEPLOYED
    return {
        "id": organization.id,
        "state": call.dialect.state(state),
        "deployment_state": call.dialect.exact(state),
        "service_deployment_status": "OUT_OF_DATE" if deployments else "UP_TO_DATE",
        "status_details": {"action": action(state), "status": action_status(state), "sub_action": "NONE"},
        "deployment_requests_count": len(deployments),
        "deployments": deployments,
    }
