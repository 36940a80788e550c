"""Writes into the document of a service what its deployments change in it.

What Windlass chooses, such as a port, is a change of what clients change: the document gets a new tag, and
the audit an event of Windlass itself. What a success shows, such as the commit that runs, is not.
"""

from __future__ import annotations

from msgspec.structs import replace

from windlass.base import ids
from windlass.base.clock import stamp
from windlass.control.context.context import Context
from windlass.control.records.deployments import particulars
from windlass.control.records.recording import record
from windlass.control.request.hidden import decrypt_hidden, encrypt_hidden
from windlass.control.variables.injected import refresh_derived
from windlass.core.access import SYSTEM
from windlass.core.declare.stored import rewritten
from windlass.core.words.events import Event
from windlass.engines.workload import Workload
from windlass.store import DeploymentRow, Row, Tx


async def write_choices(ctx: Context, tx: Tx, workload: Workload) -> None:
    """Called in the transaction that freezes the workload: neither is there without the other."""
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
    await record(ctx, tx, Event.UPDATED, changed, SYSTEM, None, before=service.body, after=body)


async def write_deployed(ctx: Context, tx: Tx, current: DeploymentRow) -> Row:
    """Writes what a successful deployment changes."""
    service = await tx.resources.get(current.service)
    assert service is not None
    changes = ctx.kinds[service.family].deployed(service, particulars(current))
    if not changes:
        return service
    body = rewritten(service.body, changes)
    await tx.resources.rewrite(service.id, body)
    return replace(service, body=body)
