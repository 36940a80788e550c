"""Freezes the workload of a deployment: it is computed once, stored encrypted with the deployment, and not
recomputed."""

from __future__ import annotations

from msgspec.structs import replace

from windlass.control.context.log_store import DeploymentLog
from windlass.control.deploying.ledger import Ledger, LostClaim
from windlass.control.records.deployment_inputs import InputRows, KeptInputs, read_kept
from windlass.control.records.deployments import name_of, particulars
from windlass.control.records.sealed_workload import decrypt_workload
from windlass.control.variables.inputs import inputs_of
from windlass.control.workloads.build_input import BuildInput
from windlass.core.declare.stored import rewritten
from windlass.core.deploy.progress import BuiltArtifact, Particulars
from windlass.core.deploy.states import DeploymentPhase, Do
from windlass.engines.engine import EngineError
from windlass.engines.workload import Workload


async def build_input_of(ledger: Ledger, details: Particulars, deployment_log: DeploymentLog) -> BuildInput:
    """Reads the current settings and variables of a service for a deployment."""
    ctx, stored = ledger.ctx, ledger.service
    others = ctx.kinds[stored.family].settings(details)
    service = replace(stored, body=rewritten(stored.body, others)) if others else stored
    # A run on a server's machine gets the addresses that hold at the cluster of its environment.
    home = await ctx.places.of_environment(ctx.store.reads, stored.parent)
    inputs, levels = await inputs_of(ctx, ctx.store.reads, service, home.engine.neighbour_address)
    rows = InputRows(stored, levels)
    return BuildInput(
        service=service, deployment=ledger.deployment, inputs=inputs, rows=rows, say=deployment_log
    )


async def freeze(ledger: Ledger) -> Workload:
    """Returns the workload of the deployment. Freezes it first if the deployment reuses a build."""
    deployment = await ledger.ctx.store.reads.deployments.get(ledger.deployment.id)
    if deployment is None:
        raise LostClaim(ledger.claim.id)
    if workload := decrypt_workload(ledger.ctx, deployment):
        return workload
    details = particulars(deployment)
    if ledger.action is Do.RESTART:
        workload = await _freeze_running(ledger)
    else:
        workload = await _freeze_earlier(ledger, details)
    await ledger.ctx.point("frozen")
    return workload


async def _freeze_running(ledger: Ledger) -> Workload:
    """Freezes the running workload as a new generation."""
    running = await ledger.find_serving()
    if running is None:
        raise EngineError("Deploy it instead: it does not run any more")
    serving = await ledger.ctx.store.reads.deployments.get(running.deployment)
    earlier = particulars(serving if serving else ledger.deployment)
    deployment = ledger.deployment
    workload = replace(_without_release(running), generation=deployment.number, deployment=deployment.id)
    kept = await read_kept(ledger.ctx.store.reads, running.deployment)
    return await freeze_to_start(ledger, workload, _artifact_of(earlier), ledger.status.digest, kept)


async def _freeze_earlier(ledger: Ledger, details: Particulars) -> Workload:
    """Freezes a workload with the artifact of an earlier deployment and the current settings."""
    ctx, kind, built = ledger.ctx, ledger.ctx.kinds[ledger.service.family], _artifact_of(details)
    if not await kind.is_kept(ctx, ledger.service, built.made.artifact):
        raise EngineError("Deploy its commit again: its build is gone")
    build_input = await build_input_of(ledger, details, ledger.say)
    await kind.fetch(ctx, build_input, built.made.artifact)
    workload = _without_release(await kind.compute(ctx, build_input, built.made.artifact))
    return await freeze_to_start(ledger, workload, built, build_input.inputs.digest, build_input.rows)


async def freeze_to_start(
    ledger: Ledger,
    workload: Workload,
    built: BuiltArtifact,
    digest: str,
    kept_inputs: InputRows | KeptInputs | None,
) -> Workload:
    """Freezes the workload, and logs that the service starts unless a release command runs first.
    `kept_inputs`: the inputs that are kept with the deployment."""
    frozen = await ledger.freeze(workload, built, digest, kept_inputs)
    if not frozen.artifact.release:
        log_start(ledger)
    return frozen


def log_start(ledger: Ledger) -> None:
    ledger.say.begin(DeploymentPhase.START)
    ledger.say(f"Starting {name_of(ledger.service)}")


def _without_release(workload: Workload) -> Workload:
    """Returns the workload without its release command, which already ran in the deployment that built it."""
    return replace(workload, artifact=replace(workload.artifact, release=()))


def _artifact_of(details: Particulars) -> BuiltArtifact:
    assert details.made is not None
    return BuiltArtifact(details.made, details.commit, details.branch, details.image_tag)
