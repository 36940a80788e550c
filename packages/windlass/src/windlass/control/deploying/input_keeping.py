"""Keeps the settings and variables with which a deployment runs, so that a rollback can go back to them.

Built-in variables and credentials are not kept: each deployment uses those of its own time.
"""

from __future__ import annotations

from typing import Final

from windlass.control.context.call import encode
from windlass.control.context.context import Context
from windlass.control.records.deployment_inputs import InputRows, KeptInputs, KeptLevel, KeptVariable
from windlass.control.request.hidden_fields import decrypt_hidden, encrypt_hidden
from windlass.families.variable import secret, variable
from windlass.store import DeploymentRow, ResourceVersionRow, Row, Tx

_FAMILIES: Final = (variable.name, secret.name)


async def keep_inputs(
    ctx: Context, tx: Tx, deployment: DeploymentRow, inputs: InputRows | KeptInputs | None
) -> None:
    """Keeps the inputs of a deployment. A restart keeps those of the deployment that it starts again."""
    if inputs is None:
        return
    if isinstance(inputs, InputRows):
        inputs = await _keep_versions(ctx, tx, inputs)
    await tx.deployment_inputs.set(deployment.id, deployment.service, encode(inputs))


async def _keep_versions(ctx: Context, tx: Tx, inputs: InputRows) -> KeptInputs:
    service = inputs.service
    await tx.deployment_inputs.add(
        ResourceVersionRow(service.id, service.tag, service.id, service.org, service.family, service.body)
    )
    for level in inputs.levels:
        await tx.deployment_inputs.add_of_level(level.level.id, _FAMILIES)
        present = set(await tx.tree.tags(level.level.id, _FAMILIES))
        for row in level.variables:
            if (row.id, row.tag) not in present:
                await _keep_former(ctx, tx, row)
    return KeptInputs(
        service.tag,
        [
            KeptLevel(
                level.level.id,
                level.level.family,
                [KeptVariable(row.id, row.tag, row.family, row.name or "") for row in level.variables],
            )
            for level in inputs.levels
        ],
    )


async def _keep_former(ctx: Context, tx: Tx, row: Row) -> None:
    """Keeps a version that was replaced during the deployment. A secret that was deleted meanwhile is kept
    without its value. The value is encrypted again, because the key may have been rotated meanwhile."""
    is_deleted = await tx.resources.get(row.id) is None
    sealed = None
    if row.sealed and not is_deleted:
        sealed = encrypt_hidden(ctx, row.org, row.id, row.tag, decrypt_hidden(ctx, row))
    await tx.deployment_inputs.add(
        ResourceVersionRow(row.id, row.tag, row.parent, row.org, row.family, row.body, sealed)
    )
