"""Executes runs of jobs. Each run is started once, awaited, and ends in exactly one final state.

The engine identifies a run by its unique generation, so that a worker that repeats this waits for the same
run. The final state is stored before the engine's record of the run is removed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from windlass.base.errors import Conflict, Invalid, Missing
from windlass.control.context.context import Context
from windlass.control.context.place import Place
from windlass.control.deploying.ledger import fence
from windlass.control.deploying.rebuilding import request_rebuild
from windlass.control.deploying.release import last_output
from windlass.control.deploying.retry_later import RETRY_PAUSE_MS, RetryLater
from windlass.control.deploying.steps.outcome import RunFailed, wait_for_outcome
from windlass.control.records.deployments import cancel_word, particulars
from windlass.control.records.job_outputs import (
    BadOutput,
    JobOutputs,
    parse_outputs,
    store_outputs,
    with_secrets_marked,
)
from windlass.control.records.runs import ABANDONED_REASON, change_run, end_run, run_details
from windlass.control.records.sealed_workload import workload_of
from windlass.control.variables.injected import refresh_derived
from windlass.core.deploy.injected_variables import prefixes_of
from windlass.core.words.masking import Mask
from windlass.core.words.naming import enum_value
from windlass.engines.engine import ArtifactLost, EngineError, EngineUnavailable
from windlass.engines.job_plans import OPEN_RUNS, RunCommand, RunDetails, RunEvent, RunState
from windlass.engines.workload import Outcome, Workload
from windlass.store import Claim, RunRow, Tx

T = TypeVar("T")
_CHECK_INTERVAL: Final = 5.0
"""Seconds after which a wait polls for cancellation, in case a notification was lost."""
_STOP_GRACE_SECONDS: Final = 10.0
"""The grace period in seconds of a run whose version is gone, and of one that has ended."""
_WITH_OUTPUT: Final = frozenset({RunEvent.ON_START, RunEvent.ON_STOP})
"""Events whose runs may set variables. A deleted job has no variables, so deletions are missing here."""
GONE_VERSION_REASON: Final = "Deploy the job again: the version that this run would start is gone"


class RunTask(Struct, frozen=True):
    """A run, the claim on its work, and the place where it runs."""

    ctx: Context
    claim: Claim
    run: RunRow
    place: Place

    async def write(self, change: Callable[[Tx, RunRow, RunDetails], Awaitable[T]]) -> T:
        """Changes the run in one transaction, if this worker still holds the claim."""

        async def write(tx: Tx) -> T:
            await fence(tx, self.claim)
            current = await tx.runs.get(self.run.id)
            assert current is not None
            return await change(tx, current, run_details(current))

        return await self.ctx.store.write(write)


async def execute_run(ctx: Context, claim: Claim) -> None:
    """Executes a run to its end. A long run is postponed and checked again later."""
    run = await ctx.store.reads.runs.get(claim.id)
    if run is None:
        await ctx.store.write(lambda tx: tx.work.done(claim))
        return
    place = await ctx.places.of(run.job)
    if place.elsewhere is not None:
        await ctx.store.write(partial(_leave_to_owner, claim, run))
        return
    task = RunTask(ctx, claim, run, place)
    try:
        if run.status in OPEN_RUNS:
            await _run(task)
        await place.engine.remove(run.job, generation=run.generation, grace=_STOP_GRACE_SECONDS)
    except RetryLater as later:
        await ctx.store.write(partial(_reschedule, task, later))
        return
    await ctx.point("run removed")
    await ctx.store.write(lambda tx: tx.work.done(claim))


async def _reschedule(task: RunTask, later: RetryLater, tx: Tx) -> None:
    """Reschedules a run. Records the reason if its engine is unavailable."""
    if not await tx.work.reschedule(task.claim, tx.now + later.wait):
        return
    current = await tx.runs.get(task.run.id)
    if current is None or current.status not in OPEN_RUNS:
        return
    details = run_details(current)
    reason = str(later) if isinstance(later.__cause__, EngineUnavailable) else ""
    if details.waits != (masked := task.ctx.logs.masks.text(current.id, reason)):
        details.waits = masked
        await change_run(tx, current, RunState(current.status), details)


async def _leave_to_owner(claim: Claim, run: RunRow, tx: Tx) -> None:
    """Hands a run over to the server that owns its place now."""
    await tx.work.done(claim)
    await tx.work.schedule(claim.kind, run.id, org=run.org, queue=await tx.work.queue_of_runs(run.job))


async def _run(task: RunTask) -> None:
    details = run_details(task.run)
    if details.is_cancelled or details.is_given_up:
        await _end_early(task, details)
        return
    version = await workload_of(task.ctx, task.run.deployment)
    if version is None:
        await _end(task, RunState.FAILED, GONE_VERSION_REASON)
        return
    task.ctx.logs.masks.know(task.run.id, version.secrets)
    workload = workload_of_run(version, task.run, details)
    began = await task.write(_begin)
    await task.ctx.point("run begun")
    await _wait(task, workload, began)


async def _begin(tx: Tx, run: RunRow, details: RunDetails) -> int:
    """Records the start time of a run, on which its time limit depends. A repeated step keeps the first start
    time."""
    if not details.began:
        details.began = tx.now
        await change_run(tx, run, RunState.RUNNING, details)
    return details.began


def workload_of_run(version: Workload, run: RunRow, details: RunDetails) -> Workload:
    """Returns the workload of a run: a version of the job with the command of the run."""
    return replace(
        _with_command(version, details.command),
        generation=run.generation,
        deployment=run.id,
        writes_output=_may_set_variables(version, details),
    )


def _may_set_variables(version: Workload, details: RunDetails) -> bool:
    """Returns whether a run may set variables. Only a command that is part of the job's settings may:
    changing these requires the same permission as changing variables, but starting a run with another command
    requires less."""
    commands = version.job.commands if version.job else {}
    return details.event in _WITH_OUTPUT and commands.get(details.event) == details.command


def _with_command(workload: Workload, command: RunCommand) -> Workload:
    if workload.artifact.kind == "image":
        return replace(workload, entrypoint=command.entrypoint, command=command.arguments)
    return replace(workload, entrypoint=(), command=(*command.entrypoint, *command.arguments))


async def _wait(task: RunTask, workload: Workload, started_at: int) -> None:
    try:
        outcome = await _unless_cancelled(task, wait_for_outcome(task.ctx, task.place, workload, started_at))
    except EngineUnavailable as error:
        raise RetryLater(RETRY_PAUSE_MS, str(error)) from error
    except ArtifactLost as error:
        await _wait_for_build(task, str(error))
        return
    except RunFailed as error:
        details = await task.write(partial(_give_up, message=str(error)))
        await task.ctx.point("run given up")
        await _end_early(task, details)
        return
    except EngineError as error:
        await _end(task, RunState.FAILED, str(error))
        return
    if outcome is None:
        await _end_early(task, await task.write(_cancel))
        return
    await task.ctx.point("run ended")
    await _record(task, workload, outcome)


async def _wait_for_build(task: RunTask, reason: str) -> None:
    """Requests a rebuild of a run's version, and lets the run wait for it. A run that a deployment waits for
    fails instead."""
    failure = reason if task.run.awaited_by else await task.write(partial(_take_rebuilt, task.ctx))
    if failure is not None:
        await _end(task, RunState.FAILED, failure or reason)
        return
    raise RetryLater(RETRY_PAUSE_MS, "The job is built again")


async def _take_rebuilt(ctx: Context, tx: Tx, run: RunRow, details: RunDetails) -> str | None:
    """Moves a run to the rebuilt version, or requests the rebuild. Returns why the rebuild failed."""
    job, version = await tx.resources.get(run.job), await tx.deployments.get(run.deployment)
    timetable = await tx.timetables.get(run.job)
    if job is None or version is None or timetable is None:
        return GONE_VERSION_REASON
    details.began = 0  # the time limit begins when the run can start
    await change_run(tx, replace(run, deployment=timetable.deployment), RunState.QUEUED, details)
    if timetable.deployment != run.deployment or await tx.deployments.open(run.job):
        return None
    tried = await request_rebuild(ctx, tx, job, version)
    return particulars(tried).message if tried else None


async def _give_up(tx: Tx, run: RunRow, details: RunDetails, *, message: str) -> RunDetails:
    """Records that a run fails, before it is ended. The next worker then does not wait for it again."""
    if details.waits:  # the engine was unavailable until the time limit: changing the job does not help
        message = f"{details.waits}. The time limit of the run passed meanwhile"
    details.is_given_up, details.message = True, message
    await change_run(tx, run, RunState(run.status), details)
    return details


async def _cancel(tx: Tx, run: RunRow, details: RunDetails) -> RunDetails:
    """Records that a run is cancelled, before it is ended. The next worker then does not wait for it
    again."""
    if not details.is_cancelled:
        details.is_cancelled, details.message = True, ABANDONED_REASON
        await change_run(tx, run, RunState(run.status), details)
    return details


async def _end_early(task: RunTask, details: RunDetails) -> None:
    """Ends a run that was cancelled or exceeded its time limit."""
    version = await workload_of(task.ctx, task.run.deployment)
    grace = version.grace if version else _STOP_GRACE_SECONDS
    try:
        await task.place.engine.remove(task.run.job, generation=task.run.generation, grace=grace)
    except EngineUnavailable as error:
        raise RetryLater(RETRY_PAUSE_MS, str(error)) from error
    await task.ctx.point("run ended early")
    state = RunState.CANCELED if details.is_cancelled else RunState.FAILED
    await _end(task, state, "", output=await _last_lines(task))


async def _record(task: RunTask, workload: Workload, outcome: Outcome) -> None:
    """Records the end of a run together with its outputs."""
    output = await _last_lines(task)

    async def write(
        tx: Tx, run: RunRow, details: RunDetails, outputs: JobOutputs | None, failure: str
    ) -> None:
        if run.status not in OPEN_RUNS:
            return
        details.message, details.exit_code = failure or outcome.reason, outcome.exit_code
        details.output, details.peak_memory = output, outcome.peak_memory
        if outputs is not None:
            details.outputs = await _set_outputs(task.ctx, tx, run, outputs)
        failed = failure or outcome.exit_code != 0
        await end_run(tx, run, RunState.FAILED if failed else RunState.SUCCEEDED, details)

    try:
        outputs = await _read_outputs(task, workload, outcome)
        await task.write(partial(write, outputs=outputs, failure=""))
    except EngineUnavailable as error:
        raise RetryLater(RETRY_PAUSE_MS, str(error)) from error
    except (BadOutput, EngineError, Conflict, Invalid, Missing) as error:
        await task.write(partial(write, outputs=None, failure=str(error)))
    await task.ctx.point("run recorded")


async def _read_outputs(task: RunTask, workload: Workload, outcome: Outcome) -> JobOutputs | None:
    """Returns the outputs of a run; None if it failed or wrote none. The outputs of the previous run are then
    kept."""
    if outcome.exit_code != 0 or not workload.writes_output:
        return None
    outputs = parse_outputs(await task.place.engine.read_output(workload))
    return outputs and with_secrets_marked(outputs, Mask(workload.secrets))


async def _set_outputs(ctx: Context, tx: Tx, run: RunRow, outputs: JobOutputs) -> tuple[str, ...]:
    """Replaces the outputs of the run's job. Returns the names of their variables."""
    job = await tx.resources.get(run.job)
    if job is None:
        return ()
    await store_outputs(ctx, tx, job.org, job.parent, job.id, outputs)
    await refresh_derived(ctx, tx, job)
    _, prefix = prefixes_of(enum_value(job.family), job.id)
    return tuple(sorted(prefix + word for word in outputs))


async def _end(task: RunTask, state: RunState, message: str, output: tuple[str, ...] = ()) -> None:
    masked = task.ctx.logs.masks.text(task.run.id, message)

    async def write(tx: Tx, run: RunRow, details: RunDetails) -> None:
        if run.status in OPEN_RUNS:
            details.message = masked or details.message
            details.output = output
            await end_run(tx, run, state, details)

    await task.write(write)


async def _last_lines(task: RunTask) -> tuple[str, ...]:
    return tuple((await last_output(task.ctx, task.run.job, task.run.id)).splitlines())


async def _unless_cancelled(task: RunTask, outcome_wait: Awaitable[Outcome]) -> Outcome | None:
    """Returns the outcome; None if the run is to be cancelled."""
    doing = asyncio.ensure_future(outcome_wait)
    cancelling = asyncio.ensure_future(_wait_for_cancel(task))
    try:
        await asyncio.wait([doing, cancelling], return_when=asyncio.FIRST_COMPLETED)
        return await doing if doing.done() else None
    finally:
        doing.cancel()
        cancelling.cancel()
        await asyncio.gather(doing, cancelling, return_exceptions=True)


async def _wait_for_cancel(task: RunTask) -> None:
    """Returns when the run, or the deployment that waits for it, is to be cancelled. Polls, in case a
    notification is lost."""
    words = [cancel_word(id) for id in (task.run.id, task.run.awaited_by) if id]
    nudged = asyncio.Event()
    for word in words:
        task.ctx.nudges.expect(word, nudged)
    try:
        while not await _is_cancelled(task):
            with suppress(TimeoutError):
                async with asyncio.timeout(_CHECK_INTERVAL):
                    await nudged.wait()
            nudged.clear()
    finally:
        for word in words:
            task.ctx.nudges.forget(word, nudged)


async def _is_cancelled(task: RunTask) -> bool:
    reads = task.ctx.store.reads
    run = await reads.runs.get(task.run.id)
    if run is None or run_details(run).is_cancelled:
        return True
    waiting = await reads.deployments.get(run.awaited_by) if run.awaited_by else None
    return waiting is not None and particulars(waiting).cancelled
