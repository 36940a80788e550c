"""The queue of deployments of a service or an environment, in the format of existing clients."""

from __future__ import annotations

from itertools import groupby

from windlass.control.context.call import Call, Reply, encode, reads, results
from windlass.control.context.context import Context
from windlass.control.records.shown_deployments import details_of
from windlass.control.request.paths import target
from windlass.control.request.stage_placement import prepare_stages
from windlass.control.services.deployment_groups import (
    Group,
    PastDeployment,
    as_past,
    by_stage,
    id_of,
    request_of,
    status_of,
)
from windlass.control.services.environments import services_of
from windlass.control.services.shown_groups import auditing_data, icon_of, identifier, trigger_of
from windlass.core.declare.document import Document
from windlass.store import Reads


@reads("service.deploymentQueue")
async def list_queue_of_service(ctx: Context, call: Call) -> Reply:
    service = await target(ctx.store.reads, call)
    rows = await ctx.store.reads.deployments.open(service.id)
    return Reply(results([encode(_queue_entry(ctx, call, as_past(service, row))) for row in rows]))


def _queue_entry(ctx: Context, call: Call, deployment: PastDeployment) -> Document:
    shown = identifier(ctx, deployment)
    return {
        "identifier": {**shown, "deployment_request_id": shown.pop("execution_id")},
        "auditing_data": auditing_data(call, [deployment]),
        "status_details": details_of(deployment.state, deployment.details.sub_action),
        "icon_uri": icon_of(deployment),
    }


@reads("environment.deploymentQueue")
async def list_queue_of_environment(ctx: Context, call: Call) -> Reply:
    """Lists the open deployments by request, the oldest request first. Reads them with one statement."""
    source = ctx.store.reads
    environment = await target(source, call)
    await prepare_stages(ctx, environment)
    services = {service.id: service for service in await services_of(ctx, source, environment)}
    waiting = [
        as_past(services[one.deployment.service], one.deployment)
        for one in await source.deployment_stages.open_deployments(environment.id)
        if one.deployment.service in services
    ]
    waiting.sort(key=request_of)
    requests = [[*group] for _, group in groupby(waiting, request_of)]
    shown = [_queue_group(ctx, call, group, await _request_id(source, group)) for group in requests]
    return Reply(results([encode(entry) for entry in shown]))


async def _request_id(reads: Reads, group: Group) -> str:
    """Returns the id that the history shows, also after the first deployment of the request has ended."""
    first = group[0].details.group
    return first if first and await reads.deployments.get(first) else id_of(group)


def _queue_group(ctx: Context, call: Call, group: Group, request: str) -> Document:
    return {
        "identifier": {"deployment_request_id": request, "environment_id": call.id},
        "auditing_data": auditing_data(call, group),
        "trigger_action": trigger_of(ctx, group),
        "stages": [
            {
                "name": stage.name,
                "status": status_of(part),
                "services": [_queued_service(ctx, past) for past in part],
            }
            for stage, part in by_stage(ctx, group)
        ],
    }


def _queued_service(ctx: Context, deployment: PastDeployment) -> Document:
    """Returns the entry of a service in a queue. `details` are present only for jobs, because clients refuse
    them without a job type."""
    version = ctx.kinds[deployment.service.family].shown_version(deployment.service, deployment.details)
    return {
        "identifier": identifier(ctx, deployment),
        "status": deployment.stage_status,
        "icon_uri": icon_of(deployment),
        **({"details": version} if "job_type" in version else {}),
    }
