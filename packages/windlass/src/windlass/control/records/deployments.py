"""Records of deployments: accept, move to the next status, finish, and announce.

All functions that write do so in the transaction of their caller.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec.structs import replace

from windlass.base import ids
from windlass.base.clock import SECOND
from windlass.base.errors import Conflict
from windlass.control.context.call import ITSELF, Call, Origin, encode
from windlass.control.context.place import NOT_CONNECTED
from windlass.control.records import sole_organization
from windlass.control.records.deployment_inputs import forget_inputs
from windlass.control.records.disk_shares import refuse_above_share
from windlass.control.records.outbox import write_deliveries
from windlass.control.records.recording import about_itself, emit, origin_of
from windlass.control.records.run_results import measure_run_of_deployment
from windlass.control.records.served_names import host_names
from windlass.control.records.stored_clusters import lock_in, place_of
from windlass.core.declare.stored import NamedDocument
from windlass.core.deploy.plan import superseded_positions
from windlass.core.deploy.progress import (
    DEPLOYMENT_EVENTS,
    ChosenVersion,
    Initiator,
    Particulars,
    RunReport,
    StageRecord,
)
from windlass.core.deploy.states import (
    ACTIONS_WITH_BUILD,
    ACTIONS_WITH_RELEASE,
    ENDING_ACTIONS,
    OPEN_STATES_OF_DEPLOYMENTS,
    STATES_OF_ACTIONS,
    Do,
    Progress,
    Sleep,
    State,
)
from windlass.core.words.events import Event
from windlass.families.cluster import Cluster, cluster
from windlass.store import DeploymentRow, Reads, Row, StatusRow, Tx, route_topic

RECONCILE = "reconcile"
NEWEST: Final = ChosenVersion()
_NEED_AN_ENGINE = frozenset({Do.DEPLOY, Do.RESTART, Do.RUN})
LARGE_WORKLOAD_BYTES: Final = 256 * 1024
"""The size of a workload, which has the variables and files of a service, that an organization above its disk
quota cannot restart."""
_LATEST_WORKLOADS: Final = 20
KEPT_WORKLOADS: Final = 20
"""The newest deployments of a service that keep their workloads. A rollback does not need them."""
KEPT_INPUTS: Final = 200
"""The newest deployments of a service that keep the settings and variables with which they ran."""

_decode_details = msgspec.json.Decoder(Particulars).decode


def particulars(deployment: DeploymentRow) -> Particulars:
    return _decode_details(deployment.body)


def request_key(deployment: DeploymentRow) -> str:
    """Returns what the deployments of one request have in common. Deployments that Windlass itself starts
    together have no request id, but the same first deployment."""
    details = particulars(deployment)
    return details.request or details.group or deployment.id


async def accept(
    tx: Tx, service: Row, action: Do, call: Call, version: ChosenVersion = NEWEST
) -> tuple[DeploymentRow, StatusRow]:
    """Stores a deployment with its state, its event and its work, and supersedes the service's waiting
    deployments."""
    status = await status_of(tx, service)
    if action in _NEED_AN_ENGINE:
        # Windlass itself repeats a version if its build is lost, and at the start of running hours.
        repeats = call.origin == ITSELF and version.of is not None
        await _refuse_cluster(tx, status.cluster, service.org, action, repeats=repeats)
        if call.origin != ITSELF and (await _adds_data(tx, service, action, version)):
            await _refuse_above_share(tx, status.cluster, service.org)
    waiting = await tx.deployments.open(service.id)
    if in_deletion(waiting):
        raise Conflict(f"Wait until {name_of(service)} is gone, and create it again: it is being deleted")
    if not status.deployments:
        await refuse_in_deletion(tx, service.parent)
    number = status.deployments + 1
    is_one_off = bool(version.command)
    replaced = [] if is_one_off else [row for row in waiting if not particulars(row).command]
    is_under_way = await _end_replaced(tx, service, status, replaced, _replaced_by(service, number))
    stage = await tx.deployment_stages.record_of(service.id)
    details = _new_details(service, call, version, stage)
    deployment = DeploymentRow(
        ids.new_id(), service.org, service.id, number, Progress.QUEUED, tx.now, tx.now,
        encode(details), action, None, service.parent,
    )  # fmt: skip
    await tx.deployments.add(deployment)
    status = replace(status, deployments=deployment.number)
    if status.sleep and action not in ENDING_ACTIONS:
        status = replace(status, sleep=Sleep.WAKING)
    if not is_one_off:
        status = replace(
            status,
            state=status.state if is_under_way else STATES_OF_ACTIONS[action].queued,
            message=status.message if is_under_way else "",
            deployment=deployment.id,
        )
    await tx.statuses.change(status)
    await announce(tx, DEPLOYMENT_EVENTS[action].queued, service, deployment, details, call=call)
    await tx.work.schedule(
        RECONCILE,
        service.id,
        org=service.org,
        environment=service.parent,
        builds=has_to_be_built(deployment),
    )
    return deployment, status


async def forget_earlier(tx: Tx, service: str, number: int, *, with_workloads: bool) -> None:
    """Erases data of past deployments that a new one makes obsolete, so that the amount stored for a
    service is bounded. Everything that the history shows is kept."""
    if with_workloads and number > KEPT_WORKLOADS:
        await tx.deployments.forget_workloads(service, number - KEPT_WORKLOADS)
    if (last := number - KEPT_INPUTS) > 0:
        await forget_inputs(tx, service, last)


def _new_details(service: Row, call: Call, version: ChosenVersion, stage: StageRecord | None) -> Particulars:
    return Particulars(
        family=service.family,
        actor=Initiator(call.actor.id, call.actor.name),
        origin=call.origin.origin,
        trace=call.trace,
        git_commit_id=version.git_commit_id,
        choices=version.choices,
        image_tag=version.image_tag,
        commit=version.commit,
        made=version.made,
        of=version.of,
        purpose=version.purpose,
        command=version.command,
        sub_action=version.sub_action,
        event=version.event,
        pushed=version.pushed,
        request=call.origin.request_id,
        group=call.group,
        stage=stage,
    )


async def _end_replaced(
    tx: Tx, service: Row, status: StatusRow, replaced: list[DeploymentRow], reason: str
) -> bool:
    """Supersedes waiting deployments, and cancels deployments in progress that only wait. Returns whether a
    deployment is in progress."""
    for position in superseded_positions([deployment.status for deployment in replaced]):
        await finish(tx, service, replaced[position], Progress.SUPERSEDED, reason)
    under_way = [deployment for deployment in replaced if deployment.status != Progress.QUEUED]
    for deployment in under_way:
        await _cancel_waiting(tx, status, deployment, reason)
    return bool(under_way)


def _replaced_by(service: Row, number: int) -> str:
    return f"Look at v{number} of {name_of(service)}, a newer deployment, which took the place of this one"


async def yield_to_newer(tx: Tx, service: Row, status: StatusRow, deployment: DeploymentRow) -> None:
    """Cancels a release in progress that only waits, if a newer deployment was requested meanwhile."""
    waiting = [row for row in await tx.deployments.open(service.id) if not particulars(row).command]
    if waiting and waiting[-1].number > deployment.number:
        await _cancel_waiting(tx, status, deployment, _replaced_by(service, waiting[-1].number))


async def _cancel_waiting(tx: Tx, status: StatusRow, deployment: DeploymentRow, reason: str) -> None:
    """Cancels a release in progress that only waits for its engine or for healthy instances. Such a release
    has begun, so it is cancelled and not superseded: webhooks that received its first event also receive its
    last event."""
    details = particulars(deployment)
    if not details.waits or deployment.action not in ACTIONS_WITH_RELEASE or status.serving == deployment.id:
        return
    details.cancelled = True
    details.message = reason
    await move(tx, deployment, Progress(deployment.status), details)
    tx.nudge(cancel_word(deployment.id))


async def _refuse_cluster(tx: Tx, id: str, org: str, action: Do, *, repeats: bool) -> None:
    row = await tx.resources.find(cluster.name, id)
    if row is None:
        return
    if not row.read(Cluster).engine:
        raise Conflict(NOT_CONNECTED)
    if not repeats and (lock := lock_in(row, tx.now)):
        end = f", or wait until {lock.ends_at}" if lock.ends_at else ""
        raise Conflict(
            f"Ask {lock.owner_name} to remove the lock of the cluster {row.read(NamedDocument).name}{end}: "
            f"deployments are refused until then. Reason of the lock: {lock.reason}"
        )
    if action is not Do.RESTART:  # a running service is not a new organization at its place
        await sole_organization.check_sole_organization(tx, row, org)


async def _adds_data(tx: Tx, service: Row, action: Do, version: ChosenVersion) -> bool:
    """Returns whether a deployment stores much: a build, or a large workload, which each deployment keeps."""
    if action is not Do.RESTART and version.made is None:
        return True
    return await tx.deployments.workload_bytes(service.id, _LATEST_WORKLOADS) > LARGE_WORKLOAD_BYTES


async def _refuse_above_share(tx: Tx, id: str, org: str) -> None:
    """Refuses new builds if an organization exceeds its disk quota on the cluster's machine. Rebuilds of the
    serving version are allowed."""
    row = await tx.resources.find(cluster.name, id)
    if row is not None and (place := place_of(row.read(Cluster))):
        await refuse_above_share(tx, org, place)


async def refuse_in_deletion(reads: Reads, parent: str) -> None:
    """Refuses to add resources to an environment or project that is being deleted. This includes the first
    deployment of a service, because the deletion erases the service."""
    if row := await reads.deletions.at_or_above(parent):
        raise Conflict(
            f"Use another {row.family}: {row.name} is being deleted, and nothing can be added to it"
        )


async def refuse_below_deleted(reads: Reads, service: Row) -> None:
    """Refuses to add resources to a service that is being deleted."""
    if in_deletion(await reads.deployments.open(service.id)):
        raise Conflict(
            f"Use another {service.family}: nothing is added to {name_of(service)}, which is being deleted"
        )


def in_deletion(waiting_deployments: Iterable[DeploymentRow]) -> bool:
    return any(deployment.action == Do.DELETE for deployment in waiting_deployments)


def name_of(service: Row) -> str:
    return service.read(NamedDocument).name


async def status_of(reads: Reads, service: Row) -> StatusRow:
    status = await reads.statuses.get(service.id)
    if status is None:
        raise Conflict("Choose a service that can be deployed: this one cannot")
    return status


async def move(
    tx: Tx,
    deployment: DeploymentRow,
    progress: Progress,
    details: Particulars,
    sealed_value: bytes | None = None,
) -> DeploymentRow:
    new = replace(
        deployment,
        status=progress,
        body=encode(details),
        sealed=sealed_value or deployment.sealed,
        changed=tx.now,
    )
    await tx.deployments.change(new)
    return new


async def note_wait(tx: Tx, service: Row, deployment: DeploymentRow, reason: str) -> DeploymentRow:
    """Records why a deployment waits. An empty reason records that the deployment continues."""
    details, status = particulars(deployment), await status_of(tx, service)
    if not details.command and status.message in {"", details.waits}:
        await tx.statuses.change(replace(status, message=reason))
    details.waits = reason
    return await move(tx, deployment, Progress(deployment.status), details)


async def finish(
    tx: Tx,
    service: Row,
    deployment: DeploymentRow,
    progress: Progress,
    message: str = "",
    call: Call | None = None,
) -> DeploymentRow:
    """Finishes a deployment: writes its final state and its final event, each once."""
    assert deployment.status in OPEN_STATES_OF_DEPLOYMENTS
    details = particulars(deployment)
    details.message, details.waits, details.ended = message, "", tx.now
    if details.run and not details.run.ended_at:
        details.run = replace(details.run, ended_at=tx.now, reason=message.partition("\n")[0])
    if details.release and not details.release.ended_at:
        details.release = replace(details.release, ended_at=tx.now, reason=message.partition("\n")[0])
    closed = await move(tx, deployment, progress, details)
    seconds = (tx.now - deployment.created) / SECOND
    tx.measure("deployment", seconds, deployment.action.lower(), progress.lower())
    measure_run_of_deployment(tx, details, progress)
    await announce(
        tx, DEPLOYMENT_EVENTS[Do(deployment.action)].ended[progress], service, closed, details, call=call
    )
    await nudge_names(tx, service.id)
    return closed


def has_to_be_built(deployment: DeploymentRow) -> bool:
    return Do(deployment.action) in ACTIONS_WITH_BUILD and particulars(deployment).made is None


def has_switched(deployment: DeploymentRow, status: StatusRow) -> bool:
    """Returns whether it is too late to cancel a deployment: its generation serves already, or the serving
    generation was ended already."""
    if deployment.action in ENDING_ACTIONS:
        return deployment.status != Progress.QUEUED and status.serving is None
    return status.serving == deployment.id


async def nudge_names(tx: Tx, service: str) -> None:
    """Makes routers check a service without serving instances, because their error page shows whether the
    service is being deployed."""
    status = await tx.statuses.get(service)
    if status and not (status.serving and status.instances) and host_names(await tx.names.of(service)):
        tx.nudge(route_topic(service))


async def cancel(
    tx: Tx, service: Row, which: list[DeploymentRow], call: Call, message: str = ""
) -> StatusRow:
    """Cancels waiting deployments at once, and requests the cancellation of deployments in progress.
    `message` replaces the usual reason."""
    message = message or f"Cancelled by {call.actor.name}"
    if in_deletion(which):
        raise Conflict(
            f"Wait until {name_of(service)} is gone: it is being deleted, and that cannot be cancelled"
        )
    status = await status_of(tx, service)
    waiting = [deployment for deployment in which if deployment.status == Progress.QUEUED]
    for deployment in waiting:
        await finish(tx, service, deployment, Progress.CANCELED, message, call)
    under_way = [deployment for deployment in which if deployment.status != Progress.QUEUED]
    for deployment in under_way:
        details = particulars(deployment)
        details.cancelled = True
        details.message = message
        await move(tx, deployment, Progress(deployment.status), details)
        await announce(tx, Event.CANCEL_ASKED, service, deployment, details, call=call)
        tx.nudge(cancel_word(deployment.id))
        await tx.work.schedule(RECONCILE, service.id, org=service.org, environment=service.parent)
    if all(particulars(deployment).command for deployment in which):
        return status  # one-off runs do not affect the status of the service
    if under_way:
        status = replace(status, state=State.CANCELING)
    elif len(await tx.deployments.open(service.id)) == 0:
        at_rest = State.STOPPED if status.sleep else State.CANCELED
        status = replace(status, state=at_rest, message=message)
    await tx.statuses.change(status)
    return status


async def record_health(
    tx: Tx, service: Row, state: State, message: str, released: str | None = None
) -> None:
    """Records the health of a service without an open deployment, and emits an event if the health has
    changed. `released`: the deployment whose version is there, if it is not the serving one."""
    status = await status_of(tx, service)
    await tx.statuses.change(replace(status, state=state, message=message))
    present = released or status.serving
    serving = await tx.deployments.get(present) if present else None
    if state != status.state and serving:
        kind = Event.BROKE if state is State.DEPLOYMENT_ERROR else Event.RECOVERED
        await announce(tx, kind, service, serving, particulars(serving), message)


def cancel_word(deployment: str) -> str:
    return f"cancel:{deployment}"


async def announce(
    tx: Tx,
    kind: Event,
    service: Row,
    deployment: DeploymentRow,
    details: Particulars,
    message: str = "",
    call: Call | None = None,
) -> None:
    """Emits an event about a deployment. `call` is the request that caused the event; without it, the actor
    of the deployment is the author."""
    await write_deliveries(tx, kind, service, deployment, details, message)
    data = {
        "name": name_of(service),
        "environment_id": service.parent,
        "deployment_id": deployment.id,
        "action": deployment.action,
        "git_commit_id": details.commit_id,
        "status": deployment.status,
        "message": message or details.message,
    }
    by = Initiator(call.actor.id, call.actor.name) if call else details.actor
    asked = origin_of(call) if call else Origin(details.origin)
    emit(tx, kind, service.org, await about_itself(tx, service), by.id, by.name, asked, data)


async def version_of(reads: Reads, deployment: str | None) -> str:
    """Returns the version of a deployment, such as v3; empty without a deployment."""
    row = await reads.deployments.past(deployment) if deployment else None
    return f"v{row.number}" if row else ""


async def with_report(tx: Tx, deployment: DeploymentRow, report: RunReport) -> DeploymentRow:
    details = particulars(deployment)
    details.run = report
    return await move(tx, deployment, Progress(deployment.status), details)
