"""The history and the queue of deployments of a service or an environment, in the format of existing
clients."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import groupby

from msgspec import Struct

from windlass.base.clock import SECOND, stamp
from windlass.base.errors import Invalid
from windlass.control.context.call import Call, Reply, encode, reads, results
from windlass.control.context.context import Context
from windlass.control.records.deployments import name_of, particulars, status_of
from windlass.control.records.shown_deployments import details_of
from windlass.control.request.paths import target
from windlass.control.request.reading import paging
from windlass.control.services.deployment_groups import (
    MAX_CHECKED_DEPLOYMENTS,
    STAGE_NAME,
    Group,
    PastDeployment,
    as_past,
    groups,
    request_of,
    state_of,
)
from windlass.control.services.environments import services_of, statuses_of
from windlass.core.declare.document import Document
from windlass.core.declare.queries import PastDeploymentsQuery
from windlass.core.declare.registry import sub_actions_of
from windlass.core.deploy.states import Do, Progress, State, action_status
from windlass.families.deployment_history import HistoryQuery
from windlass.families.environment import UNSUPPORTED_LISTS
from windlass.store import DeploymentRow, Reads, Row

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
    name = name_of(service)
    shown = [encode(_history_entry(row, name)) for row in rows]
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


def _history_entry(row: DeploymentRow, name: str) -> Document:
    return {
        "id": row.id,
        "created_at": stamp(row.created),
        "updated_at": stamp(row.changed),
        "name": name,
        "status": "SUCCESS" if row.status == Progress.SUCCEEDED else "FAILED",
        "commit": particulars(row).commit,
    }


@reads("*.deploymentHistoryV2")
async def list_of_service(ctx: Context, call: Call) -> Reply:
    service, query = await target(ctx.store.reads, call), call.asked(HistoryQuery)
    newest = await _newest(ctx.store.reads, service, query.startId or None, MAX_CHECKED_DEPLOYMENTS)
    rows = await ctx.store.reads.deployments.latest(service.id, query.pageSize, newest)
    entries = [_service_entry(ctx, call, as_past(service, row)) for row in rows]
    return _page(query, entries)


def _service_entry(ctx: Context, call: Call, deployment: PastDeployment) -> Document:
    return {
        "identifier": _identifier(ctx, deployment),
        "status": call.dialect.exact(deployment.state),
        "auditing_data": _auditing_data([deployment]),
        "details": ctx.kinds[deployment.service.family].shown_version(deployment.service, deployment.details),
        "status_details": details_of(deployment.state, deployment.details.sub_action),
        "icon_uri": deployment.service.read(_Icon).icon_uri,
        "total_duration": _duration([deployment]),
    }


def _identifier(ctx: Context, deployment: PastDeployment) -> Document:
    return {
        "name": name_of(deployment.service),
        "service_id": deployment.service.id,
        "service_type": ctx.registry[deployment.service.family].enum_value,
        "execution_id": deployment.row.id,
    }


class _Icon(Struct):
    icon_uri: str = ""


# A whole environment


@reads("environment.deploymentHistory")
async def list_of_environment(ctx: Context, call: Call) -> Reply:
    return await _list_groups(ctx, call, _environment_entry)


@reads("environment.deploymentHistoryV2")
async def list_of_environment_by_stage(ctx: Context, call: Call) -> Reply:
    return await _list_groups(ctx, call, _stages_entry)


async def _list_groups(
    ctx: Context, call: Call, describe: Callable[[Context, Call, str, Group], Document]
) -> Reply:
    environment, query = await target(ctx.store.reads, call), call.asked(HistoryQuery)
    services = await services_of(ctx, ctx.store.reads, environment)
    start = await _start(ctx.store.reads, query, services)
    is_begun = start is None
    entries: list[Document] = []
    async for group in groups(ctx, services, start.created if start else None):
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
    lists: dict[str, list[Document]] = {
        name: [] for name in (*UNSUPPORTED_LISTS, *(f"{family}s" for family in ctx.kinds))
    }
    for past in group:
        lists[f"{past.service.family}s"].append(_part(ctx, call, past))
    auditing = _auditing_data(group)
    return {"id": group[0].row.id, "status": call.dialect.exact(state_of(group)), **auditing, **lists}


def _part(ctx: Context, call: Call, deployment: PastDeployment) -> Document:
    return {
        **ctx.kinds[deployment.service.family].shown_version(deployment.service, deployment.details),
        "id": deployment.row.id,
        "created_at": stamp(deployment.row.created),
        "updated_at": stamp(deployment.row.changed),
        "name": name_of(deployment.service),
        "status": call.dialect.exact(deployment.state),
    }


def _stages_entry(ctx: Context, call: Call, environment: str, group: Group) -> Document:
    state, duration = state_of(group), _duration(group)
    stage = {
        "name": STAGE_NAME,
        "status": _stage_status(state),
        "duration": duration,
        "services": [_service_entry(ctx, call, past) for past in group],
    }
    return {
        "identifier": {"execution_id": group[0].row.id, "environment_id": environment},
        "auditing_data": _auditing_data(group),
        "status": call.dialect.exact(state),
        "trigger_action": _trigger(ctx, group),
        "total_duration": duration,
        "stages": [stage],
        "action_status": action_status(state),
    }


def _trigger(ctx: Context, group: Group) -> str:
    action, parts = group[0].row.action, {past.details.sub_action for past in group}
    if action != Do.RUN:
        return action
    part = sub_actions_of(ctx.registry[group[0].service.family]).get(parts.pop()) if len(parts) == 1 else None
    return part.trigger if part else Do.DEPLOY


def _auditing_data(group: Group) -> Document:
    first = group[0]
    return {
        "created_at": stamp(first.row.created),
        "updated_at": stamp(max(past.row.changed for past in group)),
        "triggered_by": first.details.actor.name,
        "origin": first.details.origin,
    }


def _duration(group: Group) -> str:
    milliseconds = max(past.row.changed for past in group) - group[0].row.created
    return f"PT{milliseconds // SECOND}S"


def _stage_status(state: State) -> str:
    word = action_status(state)
    return {"SUCCESS": "DONE", "CANCELING": "ONGOING", "NEVER": "SKIPPED"}.get(word, word)


def _page(query: HistoryQuery, entries: Sequence[Document]) -> Reply:
    body = results([encode(entry) for entry in entries])
    return Reply(body[:-1] + b',"page":1,"page_size":%d}' % query.pageSize)


# Waiting and running deployments


@reads("service.deploymentQueue")
async def list_queue_of_service(ctx: Context, call: Call) -> Reply:
    service = await target(ctx.store.reads, call)
    rows = await ctx.store.reads.deployments.open(service.id)
    return Reply(results([encode(_queue_entry(ctx, as_past(service, row))) for row in rows]))


def _queue_entry(ctx: Context, deployment: PastDeployment) -> Document:
    identifier = _identifier(ctx, deployment)
    return {
        "identifier": {**identifier, "deployment_request_id": identifier.pop("execution_id")},
        "auditing_data": _auditing_data([deployment]),
        "status_details": details_of(deployment.state, deployment.details.sub_action),
        "icon_uri": deployment.service.read(_Icon).icon_uri,
    }


@reads("environment.deploymentQueue")
async def list_queue_of_environment(ctx: Context, call: Call) -> Reply:
    source = ctx.store.reads
    environment = await target(source, call)
    waiting = [
        as_past(service, row)
        for service in await services_of(ctx, source, environment)
        for row in await source.deployments.open(service.id)
    ]
    waiting.sort(key=request_of)
    together = [[*group] for _, group in groupby(waiting, request_of)]
    return Reply(results([encode(_queue_group(ctx, environment.id, group)) for group in together]))


def _queue_group(ctx: Context, environment: str, group: Group) -> Document:
    services = [_queued_service(ctx, past) for past in group]
    return {
        "identifier": {"deployment_request_id": group[0].row.id, "environment_id": environment},
        "auditing_data": _auditing_data(group),
        "trigger_action": _trigger(ctx, group),
        "stages": [{"name": STAGE_NAME, "status": _stage_status(state_of(group)), "services": services}],
    }


def _queued_service(ctx: Context, deployment: PastDeployment) -> Document:
    """Returns the entry of a service in a queue. `details` are present only for jobs, because clients refuse
    them without a job type."""
    version = ctx.kinds[deployment.service.family].shown_version(deployment.service, deployment.details)
    return {
        "identifier": _identifier(ctx, deployment),
        "status": _stage_status(deployment.state),
        "icon_uri": deployment.service.read(_Icon).icon_uri,
        **({"details": version} if "job_type" in version else {}),
    }


# Statuses


@reads("environment.statusesWithStages")
async def read_statuses_with_stages(ctx: Context, call: Call) -> Reply:
    environment = await target(ctx.store.reads, call)
    statuses = await statuses_of(ctx, ctx.store.reads, call, environment)
    stage = {
        "id": environment.id,
        "name": STAGE_NAME,
        "description": "All services of the environment",
        "status": _stage_status(State(str(statuses.environment["deployment_state"]))),
    }
    stages = [{**statuses.services, "stage": stage}]
    return Reply(encode({"environment": statuses.environment, "stages": stages}))
