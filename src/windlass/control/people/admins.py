"""The rule that an organization keeps its last Admin token or Admin member."""

from __future__ import annotations

import msgspec

from windlass.base.clock import stamp
from windlass.base.errors import Conflict
from windlass.control.people.callers import actor_of_token, permits_of_member
from windlass.control.request.context import Context
from windlass.core.access import Actor, Scope, Where, may_below
from windlass.core.declare.document import Document
from windlass.families.api_token import api_token
from windlass.families.member import member
from windlass.store import Row, Tx


async def keep_an_admin(ctx: Context, tx: Tx, leaving: Row, role_id: str = "") -> None:
    """Refuses to delete a token or a member, or to give a member another role, if no Admin would be left.

    The caller is an Admin too, and counts: so this only stops callers from locking themselves out.
    """
    if role_id and _is_admin(_actor(leaving, {"role_id": role_id}), leaving.org):
        return
    if not _administers(ctx, leaving, tx.now) or await _operated(ctx, tx, leaving.org):
        return
    ways_in = await tx.resources.of_org(leaving.org, api_token.name) + await tx.resources.of_org(
        leaving.org, member.name
    )
    if not any(row.id != leaving.id and _administers(ctx, row, tx.now) for row in ways_in):
        raise Conflict(
            "This is the last way into the organization as an Admin, and your own: "
            "make another Admin token, or another member Admin, first"
        )


async def _operated(ctx: Context, tx: Tx, org: str) -> bool:
    """True if the token of the settings is an Admin there."""
    first = await tx.resources.first("", "organization") if ctx.settings.admin_token else None
    return first is not None and first.id == org


def _administers(ctx: Context, row: Row, now: int) -> bool:
    document: Document = msgspec.json.decode(row.body)
    if not _is_admin(_actor(row, document), row.org):
        return False
    if row.family == member.name:
        return bool(ctx.settings.oidc_issuer)
    return document["expires_at"] is None or document["expires_at"] > stamp(now)


def _is_admin(actor: Actor, org: str) -> bool:
    return may_below(actor, Scope.ADMIN, Where(org))


def _actor(row: Row, document: Document) -> Actor:
    if row.family == api_token.name:
        return actor_of_token(row.id, row.org, document)
    permits = permits_of_member([(row.org, document)])
    return Actor(id=row.id, name="", subject="", permits=permits)
