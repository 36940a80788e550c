"""Documents of past deployments with their stages and durations, in the format of existing clients."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from windlass.base.clock import SECOND, stamp
from windlass.control.context.call import Call
from windlass.control.context.context import Context
from windlass.control.records.deployments import name_of
from windlass.control.records.shown_deployments import details_of
from windlass.control.services.deployment_groups import (
    Group,
    PastDeployment,
    by_stage,
    id_of,
    milliseconds_of,
    state_of,
    status_of,
)
from windlass.core.declare.document import Document
from windlass.core.declare.registry import sub_actions_of
from windlass.core.deploy.progress import StageRecord
from windlass.core.deploy.stage_status import StageStatus
from windlass.core.deploy.states import OUTPUT_FOLLOWS, Do, State
from windlass.core.words.audit import origin_of

_ACTION_STATUSES: Final = {StageStatus.DONE: "SUCCESS", StageStatus.SKIPPED: "NEVER"}


class _Icon(Struct):
    icon_uri: str = ""


def stages_entry(ctx: Context, call: Call, environment: str, group: Group) -> Document:
    """Returns a deployment of an environment by stage."""
    now = ctx.clock.now()
    end = max(past.ended_at(now) for past in group)
    return {
        "identifier": {"execution_id": id_of(group), "environment_id": environment},
        "auditing_data": auditing_data(call, group),
        "status": call.dialect.exact(state_of(group)),
        "trigger_action": trigger_of(ctx, group),
        "total_duration": _duration(end - group[0].row.created),
        "stages": [_stage(ctx, call, stage, part) for stage, part in by_stage(ctx, group)],
        "action_status": _action_status(group),
    }


def _stage(ctx: Context, call: Call, stage: StageRecord, group: Group) -> Document:
    return {
        "name": stage.name,
        "deployment_order": stage.place,
        "status": status_of(group),
        "duration": _duration(milliseconds_of(group, ctx.clock.now())),
        "services": [service_entry(ctx, call, past) for past in group],
    }


def _action_status(group: Group) -> str:
    is_cancelling = any(past.state is State.CANCELING for past in group)
    status = status_of(group)
    return State.CANCELING if is_cancelling else _ACTION_STATUSES.get(status, status)


def service_entry(ctx: Context, call: Call, deployment: PastDeployment) -> Document:
    details = deployment.details
    return {
        "identifier": identifier(ctx, deployment),
        "status": call.dialect.exact(deployment.state),
        "auditing_data": auditing_data(call, [deployment]),
        "details": ctx.kinds[deployment.service.family].shown_version(deployment.service, details),
        "status_details": details_of(deployment.state, details.sub_action),
        "icon_uri": icon_of(deployment),
        "total_duration": _duration(milliseconds_of([deployment], ctx.clock.now())),
        "message": (details.message or details.waits).partition(OUTPUT_FOLLOWS)[0],
        "number": deployment.row.number,
        "stage_status": deployment.stage_status,
    }


def identifier(ctx: Context, deployment: PastDeployment) -> Document:
    return {
        "name": name_of(deployment.service),
        "service_id": deployment.service.id,
        "service_type": ctx.registry[deployment.service.family].enum_value,
        "execution_id": deployment.row.id,
    }


def icon_of(deployment: PastDeployment) -> str:
    return deployment.service.read(_Icon).icon_uri


def auditing_data(call: Call, group: Group) -> Document:
    first = group[0]
    return {
        "created_at": stamp(first.row.created),
        "updated_at": stamp(max(past.row.changed for past in group)),
        "triggered_by": first.details.actor.name,
        "origin": origin_of(first.details.origin, is_full_interface=call.dialect.is_full),
    }


def trigger_of(ctx: Context, group: Group) -> str:
    """Returns the action of a deployment of an environment."""
    action, parts = group[0].row.action, {past.details.sub_action for past in group}
    if action != Do.RUN:
        return action
    part = sub_actions_of(ctx.registry[group[0].service.family]).get(parts.pop()) if len(parts) == 1 else None
    return part.trigger if part else Do.DEPLOY


def _duration(milliseconds: int) -> str:
    return f"PT{milliseconds // SECOND}S"
