"""The applications that use a database, as their variables tell."""

from __future__ import annotations

from windlass.base.fair_share import FairShare
from windlass.control.context.call import Call, Reply, reads, results
from windlass.control.context.context import Context
from windlass.control.request.paths import target
from windlass.control.request.permissions import Sight
from windlass.control.request.reading import in_dialect
from windlass.control.variables.uses import UsedServices
from windlass.families.application import application


@reads("database.application")
async def list_applications(ctx: Context, call: Call) -> Reply:
    source = ctx.store.reads
    database = await target(source, call)
    sight, share = Sight(source, call.actor, database.org), FairShare()
    used = UsedServices(ctx, source)
    bodies: list[bytes] = []
    for row in await source.resources.of_parent(database.parent, application.name):
        await share.pause()
        if await sight.includes(row.family, row.id, row.parent) and database.id in await used.of(row):
            bodies.append(in_dialect(call, row.body, application))
    return Reply(results(bodies))
