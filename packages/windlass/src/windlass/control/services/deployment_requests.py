"""The status and the cancellation of a request that started deployments. The id of a deployment identifies
its request."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from windlass.base.errors import Conflict
from windlass.control.context.call import Call, Reply, encode, reads, writes
from windlass.control.context.context import Context
from windlass.control.records.deployments import cancel
from windlass.control.request.permissions import absent, is_allowed_throughout, require
from windlass.control.services.deployment_groups import Group, PastDeployment, as_past, group_of, state_of
from windlass.control.services.environments import services_of, status_of_environment
from windlass.families.deployment import deployment
from windlass.families.deployment_request import DeploymentRequestQuery
from windlass.families.environment import environment
from windlass.store import Reads, Row, Tx


class RequestOrigin(Struct, frozen=True):
    """The environment of a request, and the deployment whose id identifies the request.

    A request that started no deployments has the id of its environment, and `named` is None.
    """

    place: Row
    named: PastDeployment | None


@reads("getDeploymentRequestStatus")
async def read_status(ctx: Context, call: Call) -> Reply:
    source, id = ctx.store.reads, call.asked(DeploymentRequestQuery).deploymentRequestId
    origin = await _find(source, id)
    await _require(source, call, [origin.place])
    if group := await _group(ctx, source, origin):
        state: object = call.dialect.exact(state_of(group))
    else:
        state = (await status_of_environment(ctx, source, call, origin.place))["deployment_state"]
    return Reply(encode({"deployment_request_id": id, "environment_id": origin.place.id, "status": state}))


@writes("cancelDeploymentRequest")
async def cancel_request(ctx: Context, tx: Tx, call: Call) -> Reply:
    """Cancels the open deployments of a request. Does nothing if they are being cancelled already."""
    origin = await _find(tx, call.ids[0])
    left = await _open_of(ctx, tx, origin)
    concerned = left or ([origin.named] if origin.named else [])
    await _require(tx, call, [past.service for past in concerned] or [origin.place])
    if not left:
        raise Conflict("Look at the statuses of the environment: this request has ended")
    for past in left:
        if not past.details.cancelled:
            await cancel(tx, past.service, [past.row], call)
    return Reply()


async def _find(reads: Reads, id: str) -> RequestOrigin:
    row = await reads.deployments.get(id)
    service = await reads.resources.get(row.service) if row else None
    place = await reads.resources.find(environment.name, service.parent if service else id)
    status = await reads.statuses.get(id)
    if place is None or (place.id == id and (status is None or status.deployment != id)):
        raise absent(deployment.noun)
    return RequestOrigin(place, as_past(service, row) if service and row else None)


async def _require(reads: Reads, call: Call, concerned: Sequence[Row]) -> None:
    for row in concerned:
        if not is_allowed_throughout(call, row.org):
            await require(reads, call, row, deployment.noun)


async def _group(ctx: Context, reads: Reads, origin: RequestOrigin) -> Group:
    if origin.named is None:
        return ()
    return await group_of(reads, await services_of(ctx, reads, origin.place), origin.named.row)


async def _open_of(ctx: Context, reads: Reads, origin: RequestOrigin) -> list[PastDeployment]:
    """Returns the open deployments of a request."""
    if origin.named is None:
        return []
    waiting = [
        as_past(service, row)
        for service in await services_of(ctx, reads, origin.place)
        for row in await reads.deployments.open(service.id)
    ]
    return [past for past in waiting if past.request == origin.named.request]
