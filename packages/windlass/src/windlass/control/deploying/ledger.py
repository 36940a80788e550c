"""Records the progress of a service. Each method is one transaction, and writes only while the worker holds
the claim.

After a worker was paused past its lease, its methods raise LostClaim and change nothing.

A value that Windlass chooses, such as a port, is recorded like a change by a client: the document gets a new
tag, and an audit event by Windlass. Results of a deployment, such as the running commit, are recorded without
a tag and an event.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Concatenate, ParamSpec, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from windlass.base import ids
from windlass.base.clock import stamp
from windlass.control.context.call import Origin
from windlass.control.context.context import Context
from windlass.control.context.log_store import DeploymentLog
from windlass.control.context.place import Place
from windlass.control.deploying.dependents import fail_dependents, wake_dependents
from windlass.control.deploying.input_keeping import keep_inputs
from windlass.control.records.deployment_inputs import InputRows, KeptInputs
from windlass.control.records.deployments import (
    finish,
    forget_earlier,
    has_switched,
    move,
    name_of,
    note_wait,
    particulars,
    record_health,
    status_of,
    with_report,
    yield_to_newer,
)
from windlass.control.records.names import reserve_declared, reserve_names
from windlass.control.records.recording import record
from windlass.control.records.run_results import measure_run_of_deployment
from windlass.control.records.sealed_workload import encrypt_workload, workload_of
from windlass.control.request.deleting import Requester, finish_deletion, give_up_above
from windlass.control.request.hidden_fields import decrypt_hidden, encrypt_hidden
from windlass.control.variables.injected import refresh_derived
from windlass.core.access import SYSTEM
from windlass.core.declare.stored import rewritten
from windlass.core.deploy.plan import FIRST_STAGES, Step
from windlass.core.deploy.progress import BuiltArtifact, RunReport
from windlass.core.deploy.states import (
    ACTIONS_WITH_RELEASE,
    OUTPUT_FOLLOWS,
    STATES_OF_ACTIONS,
    Do,
    Progress,
    Sleep,
    State,
)
from windlass.core.words.events import Event
from windlass.engines.engine import EngineError
from windlass.engines.workload import Phase, Workload
from windlass.store import Claim, DeploymentRow, Row, StatusRow, Tx, route_topic


async def write_choices(ctx: Context, tx: Tx, workload: Workload) -> None:
    """Writes the values that Windlass chose into the service's document, in the transaction that freezes the
    workload."""
    service = await tx.resources.get(workload.service)
    assert service is not None
    changes = ctx.kinds[service.family].frozen(service, workload)
    if not changes:
        return
    tag = ids.new_tag()
    body = rewritten(service.body, {**changes, "updated_at": stamp(max(tx.now, service.created))})
    sealed = encrypt_hidden(ctx, service.org, service.id, tag, decrypt_hidden(ctx, service))
    changed = replace(service, tag=tag, body=body, sealed=sealed)
    await tx.resources.change(changed)
    await refresh_derived(ctx, tx, changed)
    await record(ctx, tx, Event.UPDATED, changed, SYSTEM, None, old_body=service.body, new_body=body)


async def write_deployed(ctx: Context, tx: Tx, current: DeploymentRow) -> Row:
    """Writes the results of a successful deployment into the service's document."""
    service = await tx.resources.get(current.service)
    assert service is not None
    changes = ctx.kinds[service.family].deployed(service, particulars(current))
    if not changes:
        return service
    body = rewritten(service.body, changes)
    await tx.resources.rewrite(service.id, body)
    return replace(service, body=body)


async def still_serving_remark(
    ctx: Context, place: Place, service: Row, status: StatusRow, deployment: DeploymentRow
) -> str:
    """Returns a sentence about the version that serves after a failure; empty for actions that do not release
    a version."""
    if Do(deployment.action) not in ACTIONS_WITH_RELEASE:
        return ""
    serving = await ctx.store.reads.deployments.get(status.serving) if status.serving else None
    if serving is None:
        return f"No version of {name_of(service)} serves now"
    try:
        instances = (await place.engine.observe(service.id)).of(serving.number).instances
    except EngineError as error:
        return (
            f"{_version(serving)} is to serve as before, but its engine does not say whether it runs: {error}"
        )
    if status.instances and not any(instance.phase is Phase.RUNNING for instance in instances):
        return f"{_version(serving)} is to serve as before, but none of its instances runs now"
    return f"{_version(serving)} still serves"


def _version(deployment: DeploymentRow) -> str:
    """Returns the name of a deployment's version: v3 (174e685, deployment 01999f…)."""
    details = particulars(deployment)
    short = details.image_tag or (details.commit_id or "")[:7]
    return f"v{deployment.number} ({', '.join(filter(None, (short, f'deployment {deployment.id}')))})"


def with_remarks(failure: str, serving: str = "", output: str = "") -> str:
    """Returns the message of a deployment: the reason, the sentence `serving`, and the last log lines at the
    end."""
    apart = "\n" if "\n" in failure else ". "
    reason = apart.join(filter(None, (failure.rstrip(".") if serving else failure, serving)))
    return f"{reason}{OUTPUT_FOLLOWS}{output}" if output else reason


P = ParamSpec("P")
T = TypeVar("T")


class LostClaim(Exception):
    """Another worker has the claim on this work now."""


class Task(Struct, frozen=True):
    """The next step of a service and the records on which it was planned, read in one transaction."""

    step: Step
    claim: Claim
    service: Row
    status: StatusRow
    deployment: DeploymentRow | None = None


def in_transaction(
    change: Callable[Concatenate[Ledger, Tx, DeploymentRow, P], Awaitable[T]],
) -> Callable[Concatenate[Ledger, P], Awaitable[T]]:
    """Runs a method as one transaction, which may be repeated. The method receives the current row of the
    deployment."""

    @functools.wraps(change)
    async def method(ledger: Ledger, /, *args: P.args, **options: P.kwargs) -> T:
        async def write(tx: Tx) -> T:
            return await change(ledger, tx, await ledger.current(tx), *args, **options)

        return await ledger.ctx.store.write(write)

    return method


class Ledger:
    """Reads and writes the records of one task."""

    def __init__(self, ctx: Context, task: Task, place: Place) -> None:
        self.ctx = ctx
        self.task = task
        self.place = place
        self.claim = task.claim
        self.service = task.service
        self.status = task.status
        self._waits = particulars(task.deployment).waits if task.deployment else ""
        """The recorded reason why the deployment waits."""

    @property
    def deployment(self) -> DeploymentRow:
        """The deployment in progress, as it was when the step was planned."""
        assert self.task.deployment is not None
        return self.task.deployment

    @functools.cached_property
    def say(self) -> DeploymentLog:
        stage = FIRST_STAGES.get(self.task.step)
        return self.ctx.logs.deployment(self.service.id, self.deployment.id, stage)

    @property
    def action(self) -> Do:
        return Do(self.deployment.action)

    async def find_serving(self) -> Workload | None:
        """Returns the workload that serves according to the records."""
        return await workload_of(self.ctx, self.status.serving)

    async def note_waiting(self, reason: str) -> None:
        """Records why the deployment waits, and logs the reason in the deployment's log. An empty reason
        records that the deployment continues."""
        if reason != self._waits:
            if reason:
                self.say(reason)
            self._waits = reason
            await self._note_waiting(self._mask(reason))

    @in_transaction
    async def _note_waiting(self, tx: Tx, current: DeploymentRow, reason: str) -> None:
        moved = await note_wait(tx, self.service, current, reason)
        await yield_to_newer(tx, self.service, await status_of(tx, self.service), moved)

    @in_transaction
    async def freeze(
        self,
        tx: Tx,
        current: DeploymentRow,
        workload: Workload,
        built: BuiltArtifact,
        digest: str,
        kept_inputs: InputRows | KeptInputs | None = None,
    ) -> Workload:
        """Stores the encrypted workload of the deployment, and keeps its inputs. Returns the workload with
        its reserved host names."""
        details = particulars(current)
        details.made, details.commit, details.branch = built.made, built.commit, built.branch
        details.image_tag, details.digest, details.usage = built.image_tag, digest, built.usage
        if not details.command:  # a rollback never goes back to a command
            await keep_inputs(self.ctx, tx, current, kept_inputs)
        if current.status == Progress.BUILDING:
            details.built = tx.now
        named = await self._name(tx, workload)
        await move(tx, current, Progress.DEPLOYING, details, encrypt_workload(self.ctx, named))
        await self.forget_earlier(tx, current)
        if current.status == Progress.BUILDING:
            status = await status_of(tx, self.service)
            await tx.statuses.change(replace(status, state=STATES_OF_ACTIONS[Do(current.action)].under_way))
        return named

    async def forget_earlier(self, tx: Tx, current: DeploymentRow) -> None:
        needs_past = self.ctx.kinds[self.service.family].needs_past_workloads
        await forget_earlier(tx, self.service.id, current.number, with_workloads=not needs_past)

    @in_transaction
    async def refreeze(self, tx: Tx, current: DeploymentRow, workload: Workload) -> Workload:
        """Replaces the encrypted workload before any instance of it serves."""
        named = await self._name(tx, workload)
        details, sealed = particulars(current), encrypt_workload(self.ctx, named)
        await move(tx, current, Progress(current.status), details, sealed)
        return named

    async def _name(self, tx: Tx, workload: Workload) -> Workload:
        await write_choices(self.ctx, tx, workload)
        return await reserve_names(self.ctx, tx, workload)

    async def give_up(self, message: str, *, timed_out: bool = False) -> None:
        """Records that the deployment fails, before its instances are removed. A worker that was paused
        past its lease then cannot remove instances of a newer worker, and the next worker continues the
        removal."""
        await self._give_up(self._mask(message), timed_out)
        await self.ctx.point("given up")

    @in_transaction
    async def _give_up(self, tx: Tx, current: DeploymentRow, message: str, timed_out: bool) -> None:
        details = particulars(current)
        details.run = replace(details.run, is_timed_out=timed_out) if details.run else None
        details.message = details.message or message
        await move(tx, current, Progress(current.status), details)

    @in_transaction
    async def switch(self, tx: Tx, current: DeploymentRow, workload: Workload, count: int) -> bool:
        """Records that this generation serves from now on. Returns False if the deployment was cancelled just
        before."""
        status = await status_of(tx, self.service)
        details = particulars(current)
        if details.cancelled and not has_switched(current, status):
            return False
        if count:  # without instances, the volumes do not exist yet
            await tx.volumes.add(self.service.id, [volume.name for volume in workload.volumes])
        served = replace(status, serving=current.id, digest=details.digest, deployed_at=tx.now)
        await tx.statuses.change(
            replace(served, instances=count, running=count, ready=count, sleep=Sleep.NONE)
        )
        tx.nudge(route_topic(self.service.id))
        return True

    @in_transaction
    async def clear_serving(self, tx: Tx, current: DeploymentRow) -> None:
        """Records that no generation of the service serves from now on."""
        status = await status_of(tx, self.service)
        await tx.statuses.change(replace(status, serving=None, sleep=Sleep.NONE))
        tx.nudge(route_topic(self.service.id))

    @in_transaction
    async def succeed(self, tx: Tx, current: DeploymentRow, message: str = "") -> None:
        """Records the success of a release and its results in the service's document. `message` becomes the
        message of the service."""
        service = await write_deployed(self.ctx, tx, current)
        await finish(tx, service, current, Progress.SUCCEEDED)
        await self.settle(tx, service, STATES_OF_ACTIONS[Do(current.action)].done, self._mask(message))

    @in_transaction
    async def begin_run(self, tx: Tx, current: DeploymentRow) -> RunReport:
        """Records the start time of a run, on which its time limit depends. A repeated step keeps the first
        start time."""
        details = particulars(current)
        if details.run is None:
            details.run = RunReport(started_at=tx.now)
            await move(tx, current, Progress(current.status), details)
        return details.run

    @in_transaction
    async def finish_run(self, tx: Tx, current: DeploymentRow, report: RunReport) -> None:
        """Records the success of a run."""
        reported = await with_report(tx, current, report)
        service = await write_deployed(self.ctx, tx, reported)
        await finish(tx, service, reported, Progress.SUCCEEDED)
        status = await status_of(tx, service)
        await tx.statuses.change(replace(status, digest=particulars(reported).digest, deployed_at=tx.now))
        await self.settle(tx, service, STATES_OF_ACTIONS[Do(current.action)].done)

    @in_transaction
    async def end(self, tx: Tx, current: DeploymentRow) -> None:
        """Records the success of a stop or uninstall: no instance of the service runs."""
        await finish(tx, self.service, current, Progress.SUCCEEDED)
        state = STATES_OF_ACTIONS[Do(current.action)].done
        if state is State.READY:
            await tx.volumes.delete_of(self.service.id)
            await tx.timetables.delete_of(self.service.id)
            status = await status_of(tx, self.service)
            await tx.statuses.change(replace(status, deployed_at=None, digest="", instances=0))
        await self.settle(tx, self.service, state)

    async def cancel(self) -> None:
        await self._cancel(await self._still_serving())

    @in_transaction
    async def _cancel(self, tx: Tx, current: DeploymentRow, serving: str) -> None:
        message = with_remarks(particulars(current).message, serving)
        await finish(tx, self.service, current, Progress.CANCELED, message)
        await self.settle(tx, self.service, State.CANCELED, message)

    async def fail(
        self, failure: str, state: State | None = None, report: RunReport | None = None, output: str = ""
    ) -> None:
        """Records the failure of the deployment and the version that still serves. `state` overrides the
        usual state after a failure of this action; `output` contains the last log lines of the failed
        instances."""
        message = self._mask(with_remarks(failure, await self._still_serving(), output))
        await self._fail(message, state or STATES_OF_ACTIONS[self.action].failed, report)
        line = f"Deployment {self.deployment.id} failed: {self._mask(failure)}".splitlines()[0]
        self.ctx.logs.write(self.service.id, self.ctx.clock.now(), line)

    async def _still_serving(self) -> str:
        return await still_serving_remark(self.ctx, self.place, self.service, self.status, self.deployment)

    @in_transaction
    async def _fail(
        self, tx: Tx, current: DeploymentRow, message: str, state: State, report: RunReport | None
    ) -> None:
        if report:
            current = await with_report(tx, current, report)
        await finish(tx, self.service, current, Progress.FAILED, message)
        status = await status_of(tx, self.service)
        await tx.statuses.change(replace(status, deployed_at=tx.now))
        await self.settle(tx, self.service, state, message)
        await fail_dependents(self.ctx, tx, self.service, current)
        if current.action == Do.DELETE:
            await give_up_above(tx, self.service)

    @in_transaction
    async def delete(self, tx: Tx, current: DeploymentRow) -> None:
        details = particulars(current)
        measure_run_of_deployment(tx, details, Progress.SUCCEEDED)
        await finish_deletion(self.ctx, tx, self.service, Requester(details.actor, Origin(details.origin)))
        await wake_dependents(self.ctx, tx, self.service)

    async def note_health(self, workload: Workload, state: State, message: str) -> None:
        """Records the health of the service if it has changed and no deployment is in progress."""
        message = self.ctx.logs.masks.text(workload.deployment, message)
        was = self.status.state
        if (state, message) == (was, self.status.message):
            return

        async def write(tx: Tx) -> None:
            await self._fence(tx)
            status = await status_of(tx, self.service)
            if status.state == was and not await tx.deployments.open(self.service.id):
                await record_health(tx, self.service, state, message)

        await self.ctx.store.write(write)

    async def note_volumes(self, workload: Workload) -> None:
        """Records the volumes of a service that an earlier version of Windlass deployed without recording
        them."""
        names = {volume.name for volume in workload.volumes}
        if names <= (await self.ctx.store.reads.volumes.of(self.service.id) if names else names):
            return

        async def write(tx: Tx) -> None:
            await self._fence(tx)
            await tx.volumes.add(self.service.id, sorted(names))

        await self.ctx.store.write(write)

    async def check_claim(self) -> None:
        """Raises LostClaim if another worker has the claim. Used before irreversible actions that were not
        recorded before."""
        await self.ctx.store.write(self._fence)

    async def rest(self) -> None:
        """Removes the work, because the service needs no further step."""

        async def write(tx: Tx) -> None:
            await self._fence(tx)
            await tx.work.done(self.claim)

        await self.ctx.store.write(write)

    async def put_off(self, wait: int, attempts: int = 0) -> None:
        """Releases the claim. The work is due again in `wait` milliseconds, or when it is requested."""
        if not await self.ctx.store.write(lambda tx: tx.work.reschedule(self.claim, tx.now + wait, attempts)):
            raise LostClaim(self.claim.id)

    async def current(self, tx: Tx) -> DeploymentRow:
        """Returns the current row of the deployment. Raises LostClaim if another worker has the claim or has
        moved the deployment on."""
        await self._fence(tx)
        current = await tx.deployments.get(self.deployment.id)
        if current is None or current.status != self.deployment.status:
            raise LostClaim(self.claim.id)
        return current

    async def _fence(self, tx: Tx) -> None:
        await fence(tx, self.claim)

    async def settle(self, tx: Tx, service: Row, state: State, message: str = "") -> None:
        """Writes the service's state after a deployment: `state`, or the queued state of the next deployment
        if one waits."""
        await reserve_declared(self.ctx, tx, service.family, service.id)
        waiting = [row for row in await tx.deployments.open(service.id) if not particulars(row).command]
        status = await status_of(tx, service)
        if waiting:
            state, message = STATES_OF_ACTIONS[Do(waiting[0].action)].queued, ""
        await tx.statuses.change(replace(status, state=state, message=message))
        await wake_dependents(self.ctx, tx, service)

    def _mask(self, message: str) -> str:
        return self.ctx.logs.masks.text(self.deployment.id, message)


async def fence(tx: Tx, claim: Claim) -> None:
    if not await tx.work.held(claim):
        raise LostClaim(claim.id)
