"""Encrypts the workload of a deployment for storage, and decrypts it."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from windlass.control.context.context import Context
from windlass.engines.workload import Workload
from windlass.store import DeploymentRow
from windlass.store.tables.sealed import DEPLOYMENT

_MAX_SHARED: Final = 20_000
MAX_SHARED_LENGTH: Final = 512
"""Maximum length of a shared value, so that all of them take some megabytes."""

_decode = msgspec.msgpack.Decoder(Workload).decode
_shared: dict[str, str] = {}


def encrypt_workload(ctx: Context, workload: Workload) -> bytes:
    ctx.logs.masks.add(workload.deployment, workload.secrets)
    owner = DEPLOYMENT.owner(org=workload.org, id=workload.deployment)
    return ctx.encryption.encrypt(msgspec.msgpack.encode(workload), *owner)


def decrypt_workload(ctx: Context, deployment: DeploymentRow) -> Workload | None:
    if deployment.sealed is None:
        return None
    owner = DEPLOYMENT.owner(org=deployment.org, id=deployment.id)
    workload = _with_shared_words(_decode(ctx.encryption.decrypt(deployment.sealed, *owner)))
    ctx.logs.masks.know(deployment.id, workload.secrets)
    return workload


def _with_shared_words(workload: Workload) -> Workload:
    """Shares equal variable names and short values between decrypted workloads. Services of an environment
    have largely the same variables, so this saves memory on a server with hundreds of services. Secret values
    are not shared."""
    if len(_shared) > _MAX_SHARED:
        _shared.clear()
    variables = {
        _shared.setdefault(name, name): value
        if name in workload.hidden or len(value) > MAX_SHARED_LENGTH
        else _shared.setdefault(value, value)
        for name, value in workload.variables.items()
    }
    return replace(workload, variables=variables)


async def workload_of(ctx: Context, deployment: str | None) -> Workload | None:
    """Returns the frozen workload of a deployment; None if the deployment has none."""
    row = await ctx.store.reads.deployments.get(deployment) if deployment else None
    return decrypt_workload(ctx, row) if row else None


async def find_secrets(ctx: Context, version: str) -> None:
    """Registers the secrets of a deployment or run for masking in logs. A deleted deployment has no
    secrets."""
    run = await ctx.store.reads.runs.get(version)
    workload = await workload_of(ctx, run.deployment if run else version)
    ctx.logs.masks.know(version, workload.secrets if workload else ())
