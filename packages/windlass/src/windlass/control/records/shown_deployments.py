"""Documents of deployments and service statuses for the API."""

from __future__ import annotations

from msgspec import Struct

from windlass.base.clock import stamp
from windlass.builders.usage import BuildUsage
from windlass.control.context.call import Call
from windlass.control.records.deployments import particulars
from windlass.control.records.reachability import LOST_SERVER_REASON
from windlass.core.declare.document import Document
from windlass.core.declare.traits import Deployment
from windlass.core.deploy.progress import RunReport
from windlass.core.deploy.states import (
    OPEN_STATES_OF_DEPLOYMENTS,
    STATES_OF_RUNNING_SERVICES,
    State,
    action_status,
    contract_state,
    full_action,
)
from windlass.engines.registries import digest_of
from windlass.store import DeploymentRow, Row, StatusRow

_FIELDS = frozenset(Deployment.__struct_encode_fields__)


def shown_deployment(
    call: Call, service: Row, deployment: DeploymentRow, status: StatusRow, freshness: str
) -> Document:
    """Returns the document of a deployment, combined with the fields of the service's status."""
    details = particulars(deployment)
    own = {
        "id": service.id if call.dialect.is_full else deployment.id,
        "action": deployment.action,
        "status": deployment.status,
        "created_at": stamp(deployment.created),
        "updated_at": stamp(deployment.changed),
        "number": deployment.number,
        "service_id": service.id,
        "git_commit_id": details.commit_id,
        "commit": details.commit,
        "message": details.message or details.waits or _lost_reason(deployment, status),
        "triggered_by": details.actor.name,
        "origin": details.origin,
        "started_at": stamp(details.began) if details.began else None,
        "finished_at": stamp(details.ended) if details.ended else None,
        "repeats": details.of,
        "serves": deployment.id == status.serving,
        "execution_id": deployment.id,
        "deployment_request_id": deployment.id,
    }
    if details.image_tag:
        own["image_tag"] = details.image_tag
        if details.made and (digest := digest_of(details.made.artifact.ref)):
            own["image_digest"] = digest
    if details.usage:
        own["build_usage"] = shown_usage(details.usage)
    if details.purpose:
        own["purpose"] = details.purpose
    if details.command:
        own["command"] = details.command
    if details.run:
        own["run"] = _shown_run(details.run)
    if details.release:
        own["release"] = _shown_run(details.release)
    if (id_field := f"{service.family}_id") in _FIELDS:
        own[id_field] = service.id
    if details.sub_action:
        own["status_details"] = details_of(status.state, details.sub_action)
    return {**shown_status(call, service, status, freshness), **own}


def shown_usage(usage: BuildUsage) -> Document:
    return {
        "cpu_seconds": None if usage.cpu_ms is None else usage.cpu_ms / 1000,
        "peak_memory_bytes": usage.peak_memory,
    }


def _lost_reason(deployment: DeploymentRow, status: StatusRow) -> str:
    """Returns why a deployment waits, if the server that runs the service is lost."""
    return (
        LOST_SERVER_REASON
        if deployment.status in OPEN_STATES_OF_DEPLOYMENTS and status.message.startswith(LOST_SERVER_REASON)
        else ""
    )


def _shown_run(run: RunReport) -> Document:
    return {
        "started_at": stamp(run.started_at),
        "ended_at": stamp(run.ended_at) if run.ended_at else None,
        "exit_code": run.exit_code,
        "reason": run.reason,
        "output": run.output,
    }


def details_of(state: str, sub_action: str = "") -> Document:
    # A task in small letters is no word of the contract, and clients refuse words that they do not know.
    word = sub_action if sub_action.isupper() else "NONE"
    return {"action": full_action(state), "status": action_status(state), "sub_action": word}


def shown_status(call: Call, service: Row, status: StatusRow, freshness: str) -> Document:
    document: Document = {
        "id": service.id,
        "state": shown_state(call, service, status),
        "deployment_state": call.dialect.exact(status.state),
        "sleeping": bool(status.sleep),
        "message": status.message,
        "service_deployment_status": freshness,
        "is_part_last_deployment": status.deployments > 0,
        "status_details": details_of(status.state),
        "execution_id": status.deployment or "",
        "deployment_request_id": status.deployment,
        "deployment_requests_count": status.deployments,
        **shown_instances(status),
    }
    if status.deployed_at is not None:
        document["last_deployment_date"] = stamp(status.deployed_at)
    return document


class _Scaled(Struct):
    min_running_instances: int = 1


def shown_state(call: Call, service: Row, status: StatusRow) -> str:
    """Returns the state of a service in the caller's vocabulary. A service that was deployed with no
    instances, as its settings say, is STOPPED; clients of the full interface wait for DEPLOYED after each
    deployment."""
    if call.dialect.is_full or not has_no_instances(service, status):
        return call.dialect.state(status.state)
    return contract_state(State.STOPPED)


def has_no_instances(service: Row, status: StatusRow) -> bool:
    """Returns whether a service serves a version with no instances, because its settings ask for none. A
    static site has none either, but its settings ask for one."""
    is_up = status.state in STATES_OF_RUNNING_SERVICES and bool(status.serving) and not status.instances
    return is_up and service.read(_Scaled).min_running_instances == 0


def shown_instances(status: StatusRow) -> Document:
    """Returns the numbers of wanted, running and ready instances."""
    names = ("instances", "running_instances", "ready_instances")
    counts = (status.instances, status.running, status.ready)
    return dict(zip(names, counts if status.serving else (0, 0, 0), strict=True))
