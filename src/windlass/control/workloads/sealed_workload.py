"""The workload of a deployment: computed once, stored encrypted with the deployment, and never changed."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from windlass.control.request.context import Context
from windlass.core.deploy.workload import Artifact, Workload
from windlass.core.words.variables import Inputs
from windlass.store import DeploymentRow, Row

_decode = msgspec.msgpack.Decoder(Workload).decode


class SizeSettings(Struct):
    """The settings that services of all kinds have."""

    name: str
    cpu: int
    memory: int


async def compute_workload(
    ctx: Context,
    service: Row,
    deployment: DeploymentRow,
    artifact: Artifact,
    inputs: Inputs,
) -> Workload:
    """Returns what a deployment runs: what all services have in common, completed by the kind."""
    settings = service.read(SizeSettings)
    usual = Workload(
        service=service.id,
        family=service.family,
        name=settings.name,
        environment=service.parent,
        org=service.org,
        generation=deployment.number,
        deployment=deployment.id,
        artifact=artifact,
        variables=inputs.variables,
        files=inputs.files,
        hidden=inputs.secrets | inputs.secret_files,
        cpu=settings.cpu,
        memory=settings.memory,
        settle=ctx.settings.settle_seconds,
        patience=ctx.settings.ready_seconds,
        grace=ctx.settings.stop_seconds,
        time_limit=ctx.settings.run_seconds,
    )
    return await ctx.kinds[service.family].workload(ctx, service, usual)


# Sealed with its deployment


def encrypt_workload(ctx: Context, workload: Workload) -> bytes:
    ctx.logs.masks.add(workload.deployment, workload.secrets)
    return ctx.encryption.encrypt(
        msgspec.msgpack.encode(workload), workload.org, workload.deployment, "wanted", "1"
    )


def decrypt_workload(ctx: Context, deployment: DeploymentRow) -> Workload | None:
    if deployment.sealed is None:
        return None
    workload = _decode(
        ctx.encryption.decrypt(deployment.sealed, deployment.org, deployment.id, "wanted", "1")
    )
    ctx.logs.masks.know(deployment.id, workload.secrets)
    return workload


async def find_secrets(ctx: Context, deployment: str) -> None:
    """Looks up the secrets to hide in logs of a deployment; there are none if it is gone."""
    row = await ctx.store.reads.deployments.get(deployment)
    if row is None or decrypt_workload(ctx, row) is None:
        ctx.logs.masks.know(deployment, ())
