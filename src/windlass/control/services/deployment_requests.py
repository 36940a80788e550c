"""Requests that have started deployments, found by the id of one of them."""

from __future__ import annotations

from windlass.control.context.call import Call, Reply, encode, reads
from windlass.control.context.context import Context
from windlass.control.request.permissions import absent, is_allowed_throughout, require
from windlass.control.services.deployment_groups import Group, group_of, state_of
from windlass.control.services.environments import services_of, status_of_environment
from windlass.families.deployment import deployment
from windlass.families.deployment_request import DeploymentRequestQuery
from windlass.families.environment import environment
from windlass.store import Reads, Row


@reads("getDeploymentRequestStatus")
async def read_status(ctx: Context, call: Call) -> Reply:
    source, id = ctx.store.reads, call.asked(DeploymentRequestQuery).deploymentRequestId
    place, group = await _find(ctx, source, call, id)
    if group:
        state: object = call.dialect.exact(state_of(group))
    else:
        state = (await status_of_environment(ctx, source, call, place))["deployment_state"]
    return Reply(encode({"deployment_request_id": id, "environment_id": place.id, "status": state}))


async def _find(ctx: Context, source: Reads, call: Call, id: str) -> tuple[Row, Group]:
    """Returns the environment of a request, and its deployments.

    A request for an environment in which there was nothing to do has none, and has the environment's id."""
    row = await source.deployments.get(id)
    service = await source.resources.get(row.service) if row else None
    place = await source.resources.find(environment.name, service.parent if service else id)
    status = await source.statuses.get(id)
    if place is None or (place.id == id and (status is None or status.deployment != id)):
        raise absent(deployment.noun)
    if not is_allowed_throughout(call, place.org):
        await require(source, call, place, deployment.noun)
    return place, await group_of(ctx, await services_of(ctx, source, place), row) if row else ()
