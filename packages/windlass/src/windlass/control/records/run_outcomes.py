"""Reports the results of scheduled runs: each failure, and the first success after it."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from windlass.control.context.call import ITSELF
from windlass.control.records.deployments import announce, name_of, particulars
from windlass.control.records.outbox import write_deliveries
from windlass.control.records.recording import about_itself, emit
from windlass.core.access import SYSTEM
from windlass.core.deploy.progress import Initiator
from windlass.core.deploy.states import ACTIONS_WITH_RELEASE, STATES_OF_RUNNING_SERVICES, Do, Progress, State
from windlass.core.words.events import Event
from windlass.core.words.webhook_payload import NamedRun
from windlass.engines.job_plans import RunDetails, RunState
from windlass.store import DeploymentRow, Row, RunRow, StatusRow, Tx

_STARTS: Final = ACTIONS_WITH_RELEASE | {Do.RUN}


async def report_outcome(tx: Tx, run: RunRow, details: RunDetails) -> None:
    """Reports the end of a run, in the transaction that ends it. Not used for a run that is retried."""
    if run.status not in {RunState.FAILED, RunState.SUCCEEDED} or not details.is_scheduled:
        return
    status = await tx.statuses.get(run.job)
    if status is None or (run.status == RunState.SUCCEEDED and status.state != State.DEPLOYMENT_ERROR):
        return
    service, version = await tx.resources.get(run.job), await tx.deployments.get(run.deployment)
    if service is None or version is None:
        return
    if run.status == RunState.SUCCEEDED:
        if await _set_state(tx, status, State.DEPLOYED, ""):
            await announce(tx, Event.RECOVERED, service, version, particulars(version))
        return
    message = f"Look at the log of run {run.number}, which failed: {details.message}"
    await _set_state(tx, status, State.DEPLOYMENT_ERROR, message)
    await _announce_failure(tx, run, details, service, version, message)


async def _set_state(tx: Tx, status: StatusRow, state: State, message: str) -> bool:
    """Changes the state of a job, unless its last deployment has set another state. Returns whether it
    did."""
    last = await tx.deployments.get(status.deployment) if status.deployment else None
    is_settled = last is not None and last.status == Progress.SUCCEEDED and last.action in _STARTS
    if not is_settled or status.state not in STATES_OF_RUNNING_SERVICES | {State.DEPLOYMENT_ERROR}:
        return False
    await tx.statuses.change(replace(status, state=state, message=message))
    return True


async def _announce_failure(
    tx: Tx, run: RunRow, details: RunDetails, service: Row, version: DeploymentRow, message: str
) -> None:
    failed = replace(
        particulars(version), actor=Initiator("", SYSTEM.name), began=details.began, ended=details.ended
    )
    row = replace(version, action=Do.RUN, status=Progress.FAILED)
    await write_deliveries(
        tx, Event.DEPLOYMENT_FAILED, service, row, failed, message, NamedRun(run.id, run.number)
    )
    data = {
        "name": name_of(service),
        "environment_id": service.parent,
        "run_id": run.id,
        "number": run.number,
        "deployment_id": version.id,
        "status": run.status,
        "message": message,
    }
    about = await about_itself(tx, service)
    emit(tx, Event.RUN_FAILED, service.org, about, SYSTEM.id, SYSTEM.name, ITSELF, data)
