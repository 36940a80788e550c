"""The statuses of the services of an environment by deployment stage."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from windlass.base.clock import SECOND
from windlass.control.context.call import Call, Reply, encode, reads
from windlass.control.context.context import Context
from windlass.control.request.paths import target
from windlass.control.request.stage_placement import prepare_stages
from windlass.control.services.deployment_groups import (
    Group,
    PastDeployment,
    by_stage,
    group_of,
    milliseconds_of,
    status_of,
)
from windlass.control.services.environments import Statuses, services_of, statuses_of
from windlass.core.declare.document import Document
from windlass.core.deploy import stage_status
from windlass.core.deploy.stage_status import StageStatus
from windlass.core.deploy.states import State
from windlass.families.deployment_stage import DeploymentStage, deployment_stage
from windlass.store import Reads, Row

_RESULTS: Final = {
    StageStatus.DONE: "SUCCESS",
    StageStatus.ERROR: "ERROR",
    StageStatus.CANCELED: "CANCEL",
    StageStatus.SKIPPED: "SKIP",
}


@reads("environment.statusesWithStages")
async def read_statuses_with_stages(ctx: Context, call: Call) -> Reply:
    source = ctx.store.reads
    environment = await target(source, call)
    await prepare_stages(ctx, environment)
    statuses = await statuses_of(ctx, source, call, environment)
    last = await _last_deployment(ctx, source, environment)
    now = ctx.clock.now()
    times = {stage.id: _times(stage.id, part, last, now) for stage, part in by_stage(ctx, last) if stage.id}
    deployments = {past.row.id: past for past in last}
    shown = await _stages(source, environment, statuses, times, deployments)
    metrics = {"metrics": [*times.values()]} if times else {}
    own = {**statuses.environment, **_duration(last, now), **metrics}
    return Reply(encode({"environment": own, "stages": shown}))


async def _last_deployment(ctx: Context, reads: Reads, environment: Row) -> Group:
    """Returns the last deployment of the whole environment; empty if there was none."""
    status = await reads.statuses.get(environment.id)
    row = await reads.deployments.get(status.deployment) if status and status.deployment else None
    return await group_of(reads, await services_of(ctx, reads, environment), row) if row else ()


def _duration(group: Group, now: int) -> Document:
    """Returns the duration of a deployment, once it has ended."""
    if not group or any(past.is_open for past in group):
        return {}
    milliseconds = max(past.ended_at(now) for past in group) - group[0].row.created
    return {"total_deployment_duration_in_seconds": milliseconds // SECOND}


def _times(stage: str, stage_group: Group, environment_group: Group, now: int) -> Document:
    """Returns the times of a stage in a deployment of its environment."""
    requested, total = environment_group[0].row.created, milliseconds_of(stage_group, now) // SECOND
    waited = (
        min((past.details.began for past in stage_group if past.details.began), default=requested) - requested
    )
    result = _RESULTS.get(status_of(stage_group))
    details = [
        {"stage_id": stage, "step_name": name, "duration_sec": seconds}
        | ({"status": result} if result else {})
        for name, seconds in (("QUEUEING", waited // SECOND), ("TOTAL", waited // SECOND + total))
    ]
    return {"stage_id": stage, "total_duration_sec": total, "details": details}


def _steps(deployment: PastDeployment) -> Document:
    """Returns the times of the steps of a deployment that have ended. The last step has the result of the
    deployment."""
    row, details = deployment.row, deployment.details
    names = ("DEPLOYMENT_QUEUEING", "BUILD", "DEPLOYMENT")
    is_build_last = bool(details.ended) and not details.built and deployment.state is State.BUILD_ERROR
    build_end = details.ended if is_build_last else details.built
    ends = (details.began or details.ended, build_end, 0 if is_build_last else details.ended)
    steps, start = [], row.created
    for name, end in zip(names, ends, strict=True):
        if end and (name == names[0] or details.began):
            steps.append({"step_name": name, "status": "SUCCESS", "duration_sec": (end - start) // SECOND})
            start = end
    if steps and details.ended:
        steps[-1]["status"] = _RESULTS.get(deployment.stage_status, "SUCCESS")
    return {
        "total_duration_sec": (details.ended - row.created) // SECOND if details.ended else None,
        "total_computing_duration_sec": (start - details.began) // SECOND if details.began else 0,
        "details": steps,
    }


async def _stages(
    reads: Reads,
    environment: Row,
    statuses: Statuses,
    times: Mapping[str, Document],
    deployments: Mapping[str, PastDeployment],
) -> list[Document]:
    """`deployments`: those of the last deployment of the environment, by id."""
    documents = {
        row.id: row.read(DeploymentStage)
        for row in await reads.resources.of_parent(environment.id, deployment_stage.name)
    }
    placed = await reads.deployment_stages.services_of_environment(environment.id)
    stage_of = {one.row.service: one.row.stage for one in placed}
    skipped = {one.row.service for one in placed if one.row.is_skipped}
    lists: defaultdict[str, dict[str, list[Document]]] = defaultdict(
        lambda: {name: [] for name in statuses.services}
    )
    results: defaultdict[str, list[StageStatus]] = defaultdict(list)
    for name, listed in statuses.services.items():
        for status in listed:
            id = str(status["id"])
            stage = stage_of.get(id, "")
            last = deployments.get(str(status["execution_id"]))
            lists[stage][name].append({**status, "steps": _steps(last)} if last else status)
            if id not in skipped:
                own = stage_status.of_state(State(str(status["deployment_state"])))
                did_not_begin = last is not None and last.details.is_skipped
                results[stage].append(StageStatus.SKIPPED if did_not_begin else own)
    return [
        {
            "stage": {
                "id": stage.id,
                "name": documents[stage.id].name,
                "description": documents[stage.id].description or "",
                "deployment_order": stage.place,
                "status": stage_status.together(results[stage.id]),
                **({"steps": times[stage.id]} if stage.id in times else {}),
            },
            **lists[stage.id],
        }
        for stage in await reads.deployment_stages.of_environment(environment.id)
    ]
