"""The public addresses of a service, and whether they are reachable."""

from __future__ import annotations

from windlass.control.context.call import Call, Reply, encode, reads, results
from windlass.control.context.context import Context
from windlass.control.records.deployments import status_of
from windlass.control.records.links import links_of
from windlass.control.records.reachability import status_as_reachable
from windlass.control.request.paths import target
from windlass.core.deploy.states import State
from windlass.store import StatusRow


@reads("*.link")
async def read_links(ctx: Context, call: Call) -> Reply:
    service = await target(ctx.store.reads, call)
    return Reply(results([encode(link) for link in await links_of(ctx, ctx.store.reads, service)]))


@reads("*.ingressDeploymentStatus")
async def read_ingress_status(ctx: Context, call: Call) -> Reply:
    source = ctx.store.reads
    service = await target(source, call)
    status = await status_as_reachable(ctx, await status_of(source, service))
    state = _routed_state(status) if await links_of(ctx, source, service) else State.READY
    return Reply(encode({"routerId": service.id, "status": state}))


def _routed_state(status: StatusRow) -> State:
    """Returns the state of a service's addresses. They are DEPLOYED while a release serves, even during a new
    deployment."""
    state = State(status.state)
    if status.serving is None or state is State.UNAVAILABLE:
        return state
    # only static sites serve without instances
    return State.DEPLOYED if status.ready or not status.instances else State.UNAVAILABLE
