"""Rebuilds a service whose artifact is lost, from the commit and settings of the lost build."""

from __future__ import annotations

from typing import Final

from windlass.control.context.call import ITSELF, Call, Dialect
from windlass.control.context.context import Context
from windlass.control.deploying.ledger import Ledger, fence
from windlass.control.records.deployments import accept, particulars, status_of
from windlass.core.access import SYSTEM
from windlass.core.deploy.progress import ChosenVersion
from windlass.store import DeploymentRow, Row, Tx

_WORDS: Final = Dialect(name="plain", state=str, event=str)
_MAX_SEARCHED_DEPLOYMENTS: Final = 20
_FIRST_PAUSE: Final = 300_000
"""Milliseconds until a failed rebuild is repeated. The pause doubles with each further failure."""
_MAX_PAUSE: Final = 86_400_000


async def rebuild(ledger: Ledger) -> str | None:
    """Requests a rebuild of the serving version. Returns None if the rebuild was requested, otherwise a
    message that explains why not."""
    ctx, service = ledger.ctx, ledger.service

    async def change(tx: Tx) -> str | None:
        await fence(tx, ledger.claim)
        status = await status_of(tx, service)
        serving = await tx.deployments.get(status.serving) if status.serving else None
        if serving is None:
            return ""
        tried = await request_rebuild(ctx, tx, service, serving)
        return particulars(tried).message if tried else None

    return await ctx.store.write(change)


async def request_rebuild(ctx: Context, tx: Tx, service: Row, serving: DeploymentRow) -> DeploymentRow | None:
    """Requests a deployment that rebuilds a version. If an earlier rebuild was requested recently, returns
    that deployment and requests none. A failed rebuild is repeated after a pause, because a missing resource
    such as a registry may be available again."""
    tried = await _find_tried(tx, serving)
    if tried is None:
        do = ctx.kinds[service.family].deploys_by
        await accept(tx, service, do, _call(ctx, service), _version_of(serving))
        ctx.logs.write(service.id, tx.now, "What was built for this service is gone: it is built again")
    return tried


async def _find_tried(tx: Tx, serving: DeploymentRow) -> DeploymentRow | None:
    """Returns the newest rebuild of the version; None if another rebuild may be requested."""
    later = await tx.deployments.latest(serving.service, _MAX_SEARCHED_DEPLOYMENTS)
    asked = [row for row in later if row.number > serving.number and is_rebuild(row, serving.id)]
    pause = min(_FIRST_PAUSE << len(asked) >> 1, _MAX_PAUSE)
    return asked[0] if asked and tx.now < asked[0].changed + pause else None


def is_rebuild(deployment: DeploymentRow, serving: str | None) -> bool:
    """Returns whether the deployment is a rebuild of the version `serving` that Windlass itself requested."""
    details = particulars(deployment)
    return details.actor.id == SYSTEM.id and details.of is not None and details.of == serving


def _version_of(serving: DeploymentRow) -> ChosenVersion:
    details = particulars(serving)
    commit = details.commit.git_commit_id if details.commit else None
    return ChosenVersion(git_commit_id=commit, image_tag=details.image_tag, of=serving.id)


def _call(ctx: Context, service: Row) -> Call:
    """Returns an API call that is equivalent to the rebuild."""
    operation, *_ = ctx.registry.handled_by(f"{service.family}.deploy")
    return Call(operation=operation, actor=SYSTEM, ids=(service.id,), dialect=_WORDS, origin=ITSELF)
