"""Operations for databases only: credentials, available configurations, and versions for an upgrade."""

from __future__ import annotations

from windlass.base.fair_share import FairShare
from windlass.control.context.call import Call, Reply, encode, reads, results
from windlass.control.context.context import Context
from windlass.control.records.ports import public_port
from windlass.control.records.reachability import check_here
from windlass.control.request.paths import parent_of, target
from windlass.control.request.permissions import Visibility
from windlass.control.request.reading import in_dialect
from windlass.control.variables.uses import UsedServices
from windlass.control.workloads.credentials import credentials_of
from windlass.core.deploy.databases import configurations, kind_of, upgrades
from windlass.families.application import application
from windlass.families.database import Database


@reads("database.application")
async def list_applications(ctx: Context, call: Call) -> Reply:
    source = ctx.store.reads
    database = await target(source, call)
    sight, share = Visibility(source, call.actor, database.org), FairShare()
    used = UsedServices(ctx, source)
    bodies: list[bytes] = []
    for row in await source.resources.of_parent(database.parent, application.name):
        await share.pause()
        if await sight.includes(row.family, row.id, row.parent) and await used.includes(row, database):
            bodies.append(in_dialect(call, row.body, application))
    return Reply(results(bodies))


@reads("database.masterCredentials")
async def master_credentials(ctx: Context, call: Call) -> Reply:
    """Returns the master credentials of a database. The operation needs the scope Admin."""
    row = await target(ctx.store.reads, call)
    spec = row.read(Database)
    credentials = await credentials_of(ctx, ctx.store.reads, row)
    place = await ctx.places.of(row.id)
    if spec.accessibility == "PUBLIC":
        host, port = place.public_host, await public_port(ctx, row)
    else:
        await check_here(ctx, row.id)
        address = await place.engine.neighbour_address(row.parent, row.id, spec.name, kind_of(spec.type).port)
        host, port = address.host, address.port
    answer = {
        "host": host,
        "port": port,
        "login": credentials.login,
        "password": credentials.password,
        "access_mode": spec.accessibility,
    }
    return Reply(encode(answer))


@reads("database.databaseConfiguration")
async def configuration(ctx: Context, call: Call) -> Reply:
    environment = await parent_of(ctx.store.reads, call)
    place = await ctx.places.of_environment(ctx.store.reads, environment.id)
    choices = configurations(runs_installed=place.builder.makes != "image")
    return Reply(results([encode(choice) for choice in choices]))


@reads("database.version")
async def versions(ctx: Context, call: Call) -> Reply:
    row = await target(ctx.store.reads, call)
    spec = row.read(Database)
    names = upgrades(spec.type, spec.version)
    return Reply(results([encode({"name": name}) for name in names]))
