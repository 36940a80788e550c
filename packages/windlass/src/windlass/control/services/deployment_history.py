"""The history of deployments of a service or an environment, in the format of existing clients."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from windlass.base.clock import stamp
from windlass.base.errors import Invalid
from windlass.control.context.call import Call, Reply, encode, reads, results
from windlass.control.context.context import Context
from windlass.control.records.deployments import name_of, status_of
from windlass.control.request.paths import target
from windlass.control.request.reading import paging
from windlass.control.services.deployment_groups import (
    Group,
    PastDeployment,
    as_past,
    group_of,
    groups,
    id_of,
    state_of,
)
from windlass.control.services.environments import services_of
from windlass.control.services.shown_groups import auditing_data, service_entry, stages_entry
from windlass.core.declare.document import Document
from windlass.core.declare.queries import PastDeploymentsQuery
from windlass.core.deploy.states import Progress
from windlass.families.deployment_history import HistoryQuery, StagesHistoryQuery
from windlass.store import NEVER, DeploymentRow, Reads, Row

# One service


@reads("*.deploymentHistory")
async def history(ctx: Context, call: Call) -> Reply:
    """Returns the finished deployments of a service with version and result, as existing clients expect."""
    source = ctx.store.reads
    service = await target(source, call)
    page, size = paging(call)
    status, going = await status_of(source, service), await source.deployments.open(service.id)
    start_id = call.asked(PastDeploymentsQuery).start_id or None
    newest = await _newest(source, service, start_id, status.deployments)
    older = {deployment.number for deployment in going if deployment.number <= newest}
    first = nth_without(newest, (page - 1) * size, older)
    rows = await source.deployments.ended(service.id, size, first)
    total = status.deployments - len(going)
    shown = [encode(_history_entry(ctx, call, as_past(service, row))) for row in rows]
    body = results(shown, page, size, total)
    return Reply(body[:-1] + b',"page":%d,"page_size":%d}' % (page, size))


async def _newest(reads: Reads, service: Row, start_id: str | None, highest: int) -> int:
    """Returns the number of the newest deployment to list. The list may continue after the deployment
    `start_id`."""
    if not start_id:
        return highest
    start = await reads.deployments.get(start_id)
    if start is None or start.service != service.id:
        raise _unknown_start("this service")
    return start.number - 1


def nth_without(highest: int, skip: int, without: Collection[int]) -> int:
    """Returns the number of the deployment at position `skip` of a list, counting down from `highest` and
    leaving out the numbers in `without`."""
    number = highest - skip
    for missing in sorted(without, reverse=True):
        number -= missing >= number
    return number


def _history_entry(ctx: Context, call: Call, deployment: PastDeployment) -> Document:
    entry, commit = _part(ctx, call, deployment), deployment.details.commit
    if commit:
        entry["commit"] = commit
    if ctx.kinds[deployment.service.family].has_short_results:
        entry["status"] = "SUCCESS" if deployment.row.status == Progress.SUCCEEDED else "FAILED"
    return entry


@reads("*.deploymentHistoryV2")
async def list_of_service(ctx: Context, call: Call) -> Reply:
    service, query = await target(ctx.store.reads, call), call.asked(HistoryQuery)
    newest = await _newest(ctx.store.reads, service, query.startId or None, NEVER)
    rows = await ctx.store.reads.deployments.latest(service.id, query.pageSize, newest)
    entries = [service_entry(ctx, call, as_past(service, row)) for row in rows]
    return _page(query, entries)


# A whole environment


@reads("environment.deploymentHistory")
async def list_of_environment(ctx: Context, call: Call) -> Reply:
    return await _list_groups(ctx, call, _environment_entry)


@reads("environment.deploymentHistoryV2")
async def list_of_environment_by_stage(ctx: Context, call: Call) -> Reply:
    query = call.asked(StagesHistoryQuery)
    if not query.executionId:
        return await _list_groups(ctx, call, stages_entry)
    source = ctx.store.reads
    environment = await target(source, call)
    services = await services_of(ctx, source, environment)
    row = await source.deployments.get(query.executionId)
    group = await group_of(source, services, row) if row else ()
    return _page(query, [stages_entry(ctx, call, environment.id, group)] if group else [])


async def _list_groups(
    ctx: Context, call: Call, describe: Callable[[Context, Call, str, Group], Document]
) -> Reply:
    environment, query = await target(ctx.store.reads, call), call.asked(HistoryQuery)
    services = await services_of(ctx, ctx.store.reads, environment)
    start = await _start(ctx.store.reads, query, services)
    is_begun = start is None
    entries: list[Document] = []
    async for group in groups(ctx, environment.id, services, start.created if start else None):
        if is_begun:
            entries.append(describe(ctx, call, environment.id, group))
        elif start and start.id in {past.row.id for past in group}:
            is_begun = True
        if len(entries) == query.pageSize:
            break
    return _page(query, entries)


async def _start(reads: Reads, query: HistoryQuery, services: Iterable[Row]) -> DeploymentRow | None:
    """Returns the deployment after whose entry a list begins; None for a list that begins with the newest."""
    if not query.startId:
        return None
    row = await reads.deployments.get(query.startId)
    if row is None or row.service not in {service.id for service in services}:
        raise _unknown_start("this environment")
    return row


def _unknown_start(where: str) -> Invalid:
    return Invalid(f"startId: must be the id of an entry of this list: no deployment of {where} has it")


def _environment_entry(ctx: Context, call: Call, environment: str, group: Group) -> Document:
    lists: dict[str, list[Document]] = {f"{family}s": [] for family in ctx.kinds}
    for past in group:
        lists[f"{past.service.family}s"].append(_part(ctx, call, past))
    status = call.dialect.exact(state_of(group))
    return {"id": id_of(group), "status": status, **auditing_data(call, group), **lists}


def _part(ctx: Context, call: Call, deployment: PastDeployment) -> Document:
    return {
        **ctx.kinds[deployment.service.family].shown_version(deployment.service, deployment.details),
        "id": deployment.row.id,
        "created_at": stamp(deployment.row.created),
        "updated_at": stamp(deployment.row.changed),
        "name": name_of(deployment.service),
        "status": call.dialect.exact(deployment.state),
    }


def _page(query: HistoryQuery, entries: Sequence[Document]) -> Reply:
    body = results([encode(entry) for entry in entries])
    return Reply(body[:-1] + b',"page":1,"page_size":%d}' % query.pageSize)
