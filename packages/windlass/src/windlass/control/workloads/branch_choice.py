"""The branch whose new commits are deployed automatically. Setting it requires the scope Deploy."""

from __future__ import annotations

from typing import Final, TypeVar

from msgspec import Struct

from windlass.base.clock import SECOND
from windlass.base.errors import Forbidden
from windlass.control.context.context import Context
from windlass.control.records.branch_watches import skip_next_commit, watch_branch
from windlass.control.request.behaviour import Change, Draft
from windlass.control.request.permissions import allows
from windlass.core.access import Actor, Scope
from windlass.core.declare.shapes import GitRepositoryRequest
from windlass.core.declare.spec import Spec
from windlass.store import Row, Tx

S = TypeVar("S", bound=Spec)
_AUTO_DEPLOY: Final = "auto_deploy"


class BranchChoice(Struct, frozen=True):
    """The settings of a service for automatic deployment."""

    is_watched: bool
    repository: GitRepositoryRequest | None
    field: str = "git_repository"
    """Name of the repository field, for error messages."""
    action: str = ""
    """The action that a new commit starts, if there is a choice."""
    action_field: str = ""


async def watch_created(ctx: Context, tx: Tx, draft: Draft[S], choice: BranchChoice) -> None:
    if choice.is_watched:
        await _require_deploy(tx, draft.actor, draft.above, _AUTO_DEPLOY)
        await watch_branch(tx, draft.id, draft.org, draft.above.id, _next_look(ctx, tx))


async def watch_updated(
    ctx: Context, tx: Tx, change: Change[S], choice: BranchChoice, previous_choice: BranchChoice
) -> None:
    row = change.row
    if not choice.is_watched:
        return
    if not previous_choice.is_watched:
        await _require_deploy(tx, change.actor, row, _AUTO_DEPLOY)
    elif _code_source(choice) != _code_source(previous_choice):
        await _require_deploy(tx, change.actor, row, choice.field)
    elif choice.action != previous_choice.action:
        await _require_deploy(tx, change.actor, row, choice.action_field)
    if _code_source(choice)[:2] != _code_source(previous_choice)[:2]:
        await skip_next_commit(tx, row.id)
    await watch_branch(tx, row.id, row.org, row.parent, _next_look(ctx, tx))


def _next_look(ctx: Context, tx: Tx) -> int:
    return tx.now + ctx.settings.auto_deploy_seconds * SECOND


def _code_source(choice: BranchChoice) -> tuple[str, str | None, str]:
    """Returns the address, branch and folder that a service is built from."""
    repository = choice.repository
    return (repository.url, repository.branch or None, repository.root_path) if repository else ("", None, "")


async def _require_deploy(tx: Tx, actor: Actor, environment: Row, field: str) -> None:
    if not await allows(tx, actor, Scope.DEPLOY, environment):
        raise Forbidden(
            f"{field}: use a token with the scope Deploy, or leave auto_deploy out: it deploys new commits"
        )
