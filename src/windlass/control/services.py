"""What applications and databases do: be deployed, say how they are, show their log."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.base import ids
from windlass.base.clock import stamp
from windlass.base.errors import Conflict
from windlass.control.context import Call, Context, Reply, encode, reads, results, writes
from windlass.control.resources import Behaviour, Draft, behaves, target
from windlass.core.document import Document
from windlass.core.events import Event
from windlass.core.plan import superseded
from windlass.core.states import Progress, State, action, action_status
from windlass.families.application import Application, application
from windlass.families.database import database
from windlass.store.store import DeploymentRow, Row, StatusRow, Tx

RECONCILE = "reconcile"


@behaves(application, database)
class Services(Behaviour):
    async def creating(self, ctx: Context, tx: Tx, draft: Draft) -> None:
        _identify_parts(draft.spec, {})
        draft.give(maximum_cpu=64_000, maximum_memory=1_048_576)

    async def created(self, ctx: Context, tx: Tx, draft: Draft) -> None:
        await tx.add_status(draft.id, draft.org, State.READY)

    async def updating(
        self, ctx: Context, tx: Tx, row: Row, before: Document, spec: Any, extras: Document
    ) -> None:
        _identify_parts(spec, before)
        old, new = before.get("git_repository"), getattr(spec, "git_repository", None)
        if old and new and old["url"] == new.url:
            kept = {name: value for name, value in old.items() if name.startswith("deployed_commit")}
            extras["git_repository"] = {**msgspec.to_builtins(new), **kept}

    async def deleting(self, ctx: Context, tx: Tx, row: Row) -> None:
        tx.nudge(f"gone:{row.id}")


def _identify_parts(spec: Any, before: Document) -> None:
    """Ports and volumes keep their id from one version to the next."""
    if not isinstance(spec, Application):
        return
    known_ports = {port["internal_port"]: port["id"] for port in before.get("ports", ())}
    for port in spec.ports:
        port.id = port.id or known_ports.get(port.internal_port) or ids.new_id()
    known_volumes = {volume["mount_point"]: volume["id"] for volume in before.get("storage", ())}
    for volume in spec.storage:
        volume.id = volume.id or known_volumes.get(volume.mount_point) or ids.new_id()


@writes("*.deploy")
async def deploy(ctx: Context, tx: Tx, call: Call) -> Reply:
    """Accepted and durable: the deployment, the state, the event and the work are one transaction."""
    service = await target(tx, call)
    status = await tx.status(service.id)
    if status is None:
        raise Conflict("This service cannot be deployed")
    waiting = await tx.open_deployments(service.id)
    for place in superseded([one.status for one in waiting]):
        await close(tx, waiting[place], Progress.SUPERSEDED, "A newer deployment took its place")
    started = [one for one in waiting if one.status != Progress.QUEUED]
    deployment = await _queued(tx, service, status.deployments + 1, call)
    status = msgspec.structs.replace(
        status,
        state=status.state if started else State.QUEUED,
        message=status.message if started else "",
        deployment=deployment.id,
        deployments=deployment.number,
    )
    await tx.change_status(status)
    announce(tx, Event.DEPLOYMENT_QUEUED, service, deployment)
    await tx.ask(RECONCILE, service.id)
    return Reply(encode(_deployment(call, service, deployment, status)))


async def _queued(tx: Tx, service: Row, number: int, call: Call) -> DeploymentRow:
    id = ids.new_id()
    body = {
        "family": service.family,
        "actor": {"id": call.actor.id, "name": call.actor.name},
        "origin": call.origin,
        "git_commit_id": getattr(call.body, "git_commit_id", None) or None,
        "message": "",
    }
    row = DeploymentRow(id, service.org, service.id, number, Progress.QUEUED, tx.now, tx.now, encode(body))
    await tx.add_deployment(row)
    return row


async def close(tx: Tx, deployment: DeploymentRow, progress: Progress, message: str) -> DeploymentRow:
    """Moves a deployment on, with the reason."""
    body = msgspec.json.decode(deployment.body) | {"message": message}
    new = msgspec.structs.replace(deployment, status=progress, body=encode(body))
    await tx.change_deployment(new)
    return new


def announce(tx: Tx, kind: Event, service: Row, deployment: DeploymentRow, message: str = "") -> None:
    document, body = msgspec.json.decode(service.body), msgspec.json.decode(deployment.body)
    tx.emit(
        kind,
        service.org,
        service.id,
        encode(
            {
                "family": service.family,
                "name": document["name"],
                "environment_id": service.parent,
                "deployment_id": deployment.id,
                "git_commit_id": body["git_commit_id"],
                "actor": body["actor"],
                "status": deployment.status,
                "message": message,
            }
        ),
    )


def _deployment(call: Call, service: Row, deployment: DeploymentRow, status: StatusRow) -> Document:
    beside = _status(call, service, status)
    own = {
        "id": deployment.id if call.dialect.deployment_first else service.id,
        "status": deployment.status,
        "created_at": stamp(deployment.created),
        "service_id": service.id,
        "git_commit_id": msgspec.json.decode(deployment.body)["git_commit_id"],
    }
    if service.family == application.name:
        own["application_id"] = service.id
    return {**beside, **own}


@reads("*.status")
async def read_status(ctx: Context, call: Call) -> Reply:
    service = await target(ctx.store.reads, call)
    status = await ctx.store.reads.status(service.id)
    assert status is not None
    return Reply(encode(_status(call, service, status)))


def _status(call: Call, service: Row, status: StatusRow) -> Document:
    document: Document = {
        "id": service.id,
        "state": call.dialect.state(status.state),
        "deployment_state": status.state,
        "message": status.message,
        "service_deployment_status": _freshness(status),
        "is_part_last_deployment": status.deployments > 0,
        "status_details": {
            "action": action(status.state),
            "status": action_status(status.state),
            "sub_action": "NONE",
        },
        "execution_id": status.deployment or "",
        "deployment_request_id": status.deployment,
        "deployment_requests_count": status.deployments,
    }
    if status.deployed_at is not None:
        document["last_deployment_date"] = stamp(status.deployed_at)
    return document


def _freshness(status: StatusRow) -> str:
    """Whether what runs is what was asked for last."""
    if status.deployed_at is None:
        return "NEVER_DEPLOYED"
    return "OUT_OF_DATE" if status.state.endswith("_ERROR") else "UP_TO_DATE"


@reads("*.log")
async def read_log(ctx: Context, call: Call) -> Reply:
    service = await target(ctx.store.reads, call)
    return Reply(results(ctx.logs.tail(service.id, call.query.tail)))
