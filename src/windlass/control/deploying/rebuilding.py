"""Deploys a service again when what was built for it is gone: its commit and settings are known."""

from __future__ import annotations

from typing import Final

from windlass.control.context.call import ITSELF, Call, Dialect
from windlass.control.context.context import Context
from windlass.control.deploying.ledger import Ledger, fence
from windlass.control.records.deployments import accept, particulars, status_of
from windlass.core.access import SYSTEM
from windlass.core.deploy.progress import ChosenVersion
from windlass.core.deploy.states import Do
from windlass.store import DeploymentRow, Row, Tx

_WORDS: Final = Dialect(name="plain", state=str, event=str)
_REMEMBERED: Final = 20


async def rebuild(ledger: Ledger) -> bool:
    """Asks for a deployment of the version that serves. Returns False if one was tried since that version was
    deployed: then the failure of that one is for people."""
    ctx, service = ledger.ctx, ledger.service

    async def change(tx: Tx) -> bool:
        await fence(tx, ledger.claim)
        status = await status_of(tx, service)
        serving = await tx.deployments.get(status.serving) if status.serving else None
        if serving is None or await _was_tried(tx, serving):
            return False
        await accept(tx, service, Do.DEPLOY, _call(ctx, service), _version_of(serving))
        return True

    is_asked = await ctx.store.write(change)
    if is_asked:
        ctx.logs.write(
            service.id, ctx.clock.now(), "What was built for this service is gone: it is built again"
        )
    return is_asked


async def _was_tried(tx: Tx, serving: DeploymentRow) -> bool:
    later = await tx.deployments.latest(serving.service, _REMEMBERED)
    return any(row.number > serving.number and particulars(row).actor.id == SYSTEM.id for row in later)


def _version_of(serving: DeploymentRow) -> ChosenVersion:
    details = particulars(serving)
    commit = details.commit.git_commit_id if details.commit else None
    return ChosenVersion(git_commit_id=commit, image_tag=details.image_tag, of=serving.id)


def _call(ctx: Context, service: Row) -> Call:
    """Returns the call that would do the same."""
    operation, *_ = ctx.registry.handled_by(f"{service.family}.deploy")
    return Call(operation=operation, actor=SYSTEM, ids=(service.id,), dialect=_WORDS, origin=ITSELF)
