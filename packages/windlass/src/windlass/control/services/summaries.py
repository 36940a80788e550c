"""Lists of statuses and of numbers of services, environments and projects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from windlass.control.context.call import Call, Reply, encode, reads, results
from windlass.control.context.context import Context
from windlass.control.records.deployments import name_of, status_of
from windlass.control.request.paths import parent_of, target
from windlass.control.request.permissions import Visibility, visible_below
from windlass.control.request.reading import ROW_FILTERS, in_dialect, page_of, paging, slice_of
from windlass.control.services.environments import services_of, status_of_environment
from windlass.control.services.services import freshness
from windlass.core.declare.document import Document
from windlass.core.declare.stored import NamedDocument
from windlass.families.environment import EnvironmentShown, environment
from windlass.families.project import project
from windlass.families.summaries import ClusterEnvironment, ClusterService, OrganizationEnvironment
from windlass.store import Reads, Row

Describe = Callable[[Row], Awaitable[Document]]


async def _page(ctx: Context, call: Call, describe: Describe) -> Reply:
    """Returns a page of a list, with a description of each resource on the page."""
    rows = await _visible(ctx.store.reads, call)
    bodies = [encode(await describe(row)) for row in rows[slice_of(call)]]
    return Reply(results(bodies, *paging(call), len(rows)))


async def _visible(reads: Reads, call: Call) -> list[Row]:
    parent = await parent_of(reads, call)
    rows = await visible_below(reads, call.actor, parent, call.family)
    return await reads.resources.of_parent(parent.id, call.family.name) if rows is None else rows


async def _is_outdated(ctx: Context, reads: Reads, service: Row, asked: object) -> bool:
    status = await status_of(reads, service)
    return await freshness(ctx, reads, service, status) == "OUT_OF_DATE"


ROW_FILTERS["to_update"] = _is_outdated


@reads("environment.listStatus")
async def list_environment_statuses(ctx: Context, call: Call) -> Reply:
    return await _page(ctx, call, lambda row: status_of_environment(ctx, ctx.store.reads, call, row))


@reads("environment.services")
async def list_services_of_all_kinds(ctx: Context, call: Call) -> Reply:
    source = ctx.store.reads
    services = await services_of(ctx, source, await target(source, call))
    bodies = [in_dialect(call, row.body, ctx.registry[row.family]) for row in services[slice_of(call)]]
    return Reply(results(bodies, *paging(call), len(services)))


@reads("environment.stats")
async def list_environment_stats(ctx: Context, call: Call) -> Reply:
    async def describe(row: Row) -> Document:
        return {"id": row.id, "service_total_number": await count_services(ctx, ctx.store.reads, row)}

    return await _page(ctx, call, describe)


async def count_services(ctx: Context, reads: Reads, row: Row) -> int:
    """Returns the number of services in an environment, from the stored lengths of lists."""
    return sum([(await reads.lists.page(row.id, family, 0, 0))[1] for family in ctx.kinds])


@reads("project.stats")
async def list_project_stats(ctx: Context, call: Call) -> Reply:
    source = ctx.store.reads

    async def describe(row: Row) -> Document:
        environments = await source.resources.of_parent(row.id, environment.name)
        return {
            "id": row.id,
            "service_total_number": sum(
                [await count_services(ctx, source, inside) for inside in environments]
            ),
            "environment_total_number": len(environments),
        }

    return await _page(ctx, call, describe)


@reads("environment.overview")
async def list_environment_overviews(ctx: Context, call: Call) -> Reply:
    source = ctx.store.reads

    async def describe(row: Row) -> Document:
        shown = row.read(EnvironmentShown)
        document = msgspec.json.decode(row.body)
        managed_by = "QOVERY" if call.dialect.is_full else "WINDLASS"
        return {
            **{name: document[name] for name in ("id", "created_at", "updated_at", "name", "mode")},
            "cluster": {
                "id": shown.cluster_id,
                "name": shown.cluster_name,
                "cloud_provider": shown.cloud_provider.provider,
                "is_demo": False,
            },
            "services_overview": {
                "service_count": await count_services(ctx, source, row),
                "managed_by": managed_by,
            },
            "deployment_status": await status_of_environment(ctx, source, call, row),
        }

    return await _page(ctx, call, describe)


@reads("organization.environments")
async def list_organization_environments(ctx: Context, call: Call) -> Reply:
    source = ctx.store.reads
    org = await target(source, call)
    sight = Visibility(source, call.actor, org.id)
    rows = [
        row
        for above in await source.resources.of_parent(org.id, project.name)
        for row in await source.resources.of_parent(above.id, environment.name)
        if await sight.includes(row.family, row.id, row.parent)
    ]
    fields = OrganizationEnvironment.__struct_fields__
    in_order = sorted(rows, key=lambda row: (row.created, row.id))
    documents = [msgspec.json.decode(row.body) for row in in_order]
    return page_of(call, [encode({name: document[name] for name in fields}) for document in documents])


@reads("cluster.environments")
async def list_environments_of_cluster(ctx: Context, call: Call) -> Reply:
    source = ctx.store.reads
    row = await target(source, call)
    sight = Visibility(source, call.actor, row.org)
    answers: list[ClusterEnvironment] = []
    for env in await source.links.users_of_family(row.id, environment.name):
        if not await sight.includes(env.family, env.id, env.parent):
            continue
        _, above, *_ = await source.tree.above(env.id)
        services = [
            ClusterService(
                id=service.id,
                name=name_of(service),
                type=ctx.registry[service.family].enum_value,
            )
            for service in await services_of(ctx, source, env)
        ]
        answers.append(
            ClusterEnvironment(
                environment_id=env.id,
                environment_name=env.read(NamedDocument).name,
                project_id=env.parent,
                project_name=above.read(NamedDocument).name,
                services=services,
            )
        )
    answers.sort(key=lambda answer: (answer.project_name, answer.environment_name))
    return Reply(results([*map(encode, answers)]))
