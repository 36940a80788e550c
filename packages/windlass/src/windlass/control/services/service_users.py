"""Lists the services that use a resource, such as a container registry or a git token."""

from __future__ import annotations

from collections.abc import Mapping

from windlass.control.context.call import Call, Reply, encode, reads, results
from windlass.control.context.context import Context
from windlass.control.records.deployments import name_of
from windlass.control.request.paths import target
from windlass.control.request.permissions import is_visible
from windlass.core.declare.stored import NamedDocument
from windlass.store import Reads, Row


@reads("*.associatedServices")
async def list_users(ctx: Context, call: Call) -> Reply:
    users = await visible_users(ctx, call)
    return Reply(results([encode(await _describe(ctx, service)) for service in users]))


async def visible_users(ctx: Context, call: Call) -> list[Row]:
    """Returns the services that use the resource of a call, as far as the caller sees them."""
    source = ctx.store.reads
    users = await services_that_use(ctx, source, await target(source, call))
    return [user for user in users if await is_visible(source, call.actor, user)]


async def services_that_use(ctx: Context, source: Reads, resource: Row) -> list[Row]:
    """Returns the services that refer to a resource, each once."""
    users = {user.id: user for user in await source.links.users(resource.id)}
    return [user for user in users.values() if user.family in ctx.kinds]


async def _describe(ctx: Context, service: Row) -> Mapping[str, object]:
    _, environment, project, *_ = await ctx.store.reads.tree.above(service.id)
    return {
        "project_id": project.id,
        "project_name": project.read(NamedDocument).name,
        "environment_id": environment.id,
        "environment_name": environment.read(NamedDocument).name,
        "service_id": service.id,
        "service_name": name_of(service),
        "service_type": ctx.kinds[service.family].service_type(service),
    }
