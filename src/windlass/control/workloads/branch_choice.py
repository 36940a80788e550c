"""The branch whose new commits an application deploys by itself. Choosing it needs the scope Deploy."""

from __future__ import annotations

from windlass.base.clock import SECOND
from windlass.base.errors import Forbidden
from windlass.control.context.context import Context
from windlass.control.records.branch_watches import skip_next_commit, watch_branch
from windlass.control.request.behaviour import Change, Draft
from windlass.control.request.permissions import allows
from windlass.core.access import Actor, Scope
from windlass.core.declare.resource import clash
from windlass.families.application import GIT, Application
from windlass.store import Row, Tx


async def watch_created(ctx: Context, tx: Tx, draft: Draft[Application]) -> None:
    if draft.spec.auto_deploy:
        _require_branch(draft.spec)
        await _require_deploy(tx, draft.actor, draft.above, "auto_deploy")
        await watch_branch(tx, draft.id, draft.org, _next_look(ctx, tx))


async def watch_updated(ctx: Context, tx: Tx, change: Change[Application]) -> None:
    spec, before, row = change.spec, change.before, change.row
    if not spec.auto_deploy:
        return
    if not before.auto_deploy:
        _require_branch(spec)
        await _require_deploy(tx, change.actor, row, "auto_deploy")
    elif _code_source(spec) != _code_source(before):
        await _require_deploy(tx, change.actor, row, "git_repository")
    if _code_source(spec)[:2] != _code_source(before)[:2]:
        await skip_next_commit(tx, row.id)
    await watch_branch(tx, row.id, row.org, _next_look(ctx, tx))


def _next_look(ctx: Context, tx: Tx) -> int:
    return tx.now + ctx.settings.auto_deploy_seconds * SECOND


def _code_source(spec: Application) -> tuple[str, str | None, str]:
    """Returns the address, branch and folder that an application is built from."""
    repository = spec.git_repository
    return (repository.url, repository.branch or None, repository.root_path) if repository else ("", None, "")


def _require_branch(spec: Application) -> None:
    if spec.source != GIT:
        raise clash("auto_deploy", "leave it out: an application that is built from uploads has no branch")


async def _require_deploy(tx: Tx, actor: Actor, place: Row, field: str) -> None:
    if not await allows(tx, actor, Scope.DEPLOY, place):
        raise Forbidden(
            f"{field}: use a token with the scope Deploy, or leave auto_deploy out: it deploys new commits"
        )
