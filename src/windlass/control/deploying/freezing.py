"""Freezes what a deployment runs: worked out once, sealed with the deployment, the same ever after."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from windlass.control.deploying.ledger import Ledger, LostClaim
from windlass.control.kinds.service_kind import compute_workload
from windlass.control.records.deployments import particulars
from windlass.control.records.sealed_workload import decrypt_workload
from windlass.control.variables.inputs import inputs_of
from windlass.core.declare.stored import rewritten
from windlass.core.deploy.progress import BuiltArtifact, Particulars
from windlass.core.deploy.states import Do
from windlass.core.deploy.workload import Workload
from windlass.core.words.variables import Inputs
from windlass.engines.engine import EngineError
from windlass.store import Row


class RunSettings(Struct, frozen=True):
    """The settings and variables that a deployment runs with."""

    service: Row
    """The service, with these settings."""
    inputs: Inputs


async def settings_of(ledger: Ledger, details: Particulars) -> RunSettings:
    """Reads the settings and variables of a service as they are now."""
    ctx, service = ledger.ctx, ledger.service
    if others := ctx.kinds[service.family].settings(details):
        service = replace(service, body=rewritten(service.body, others))
    inputs = await inputs_of(ctx, ctx.store.reads, service, ledger.place.engine.neighbour_address)
    return RunSettings(service, inputs)


async def workload_with(ledger: Ledger, built: BuiltArtifact, settings: RunSettings) -> Workload:
    """Works out what the deployment runs."""
    return await compute_workload(
        ledger.ctx,
        settings.service,
        ledger.deployment,
        built.made.artifact,
        settings.inputs,
    )


async def frozen(ledger: Ledger) -> Workload:
    """Returns what the deployment runs. One that built nothing is frozen here."""
    deployment = await ledger.ctx.store.reads.deployments.get(ledger.deployment.id)
    if deployment is None:
        raise LostClaim(ledger.claim.id)
    if workload := decrypt_workload(ledger.ctx, deployment):
        return workload
    details = particulars(deployment)
    if ledger.action is Do.RESTART:
        workload = await _restarted(ledger)
    else:
        workload = await _built_earlier(ledger, details)
    await ledger.ctx.point("frozen")
    return workload


async def _restarted(ledger: Ledger) -> Workload:
    """Returns the running workload as a new generation."""
    running = await ledger.serving()
    if running is None:
        raise EngineError("It does not run any more: deploy it instead")
    serving = await ledger.ctx.store.reads.deployments.get(running.deployment)
    earlier = particulars(serving if serving else ledger.deployment)
    deployment = ledger.deployment
    workload = replace(running, generation=deployment.number, deployment=deployment.id)
    return await ledger.frozen(workload, _built_by(earlier), ledger.status.digest)


async def _built_earlier(ledger: Ledger, details: Particulars) -> Workload:
    """Returns a workload with the artifact of an earlier deployment and the present settings."""
    ctx, built = ledger.ctx, _built_by(details)
    if not await ctx.kinds[ledger.service.family].is_kept(ctx, ledger.service, built.made.artifact):
        raise EngineError("What was built for it is no more: deploy its commit again")
    settings = await settings_of(ledger, details)
    workload = await workload_with(ledger, built, settings)
    return await ledger.frozen(workload, built, settings.inputs.digest)


def _built_by(details: Particulars) -> BuiltArtifact:
    assert details.made is not None
    return BuiltArtifact(details.made, details.commit, details.branch, details.image_tag)
