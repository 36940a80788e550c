"""Nobody locks an organization for good: the last way in as an Admin stays."""

from __future__ import annotations

import msgspec

from windlass.base.clock import stamp
from windlass.base.errors import Conflict
from windlass.control.context import Context
from windlass.core.access import ROLE_IDS, Scope
from windlass.families.api_token import api_token
from windlass.families.member import member
from windlass.store.store import Row, Tx


async def keep_an_admin(ctx: Context, tx: Tx, leaving: Row) -> None:
    """Refuses to take away this token or member, or its role, if nobody else would be left to administer.

    Who asks is an Admin too, and counts: so this only ever stops somebody from locking themselves out.
    """
    if not _administers(ctx, leaving, tx.now) or await _operated(ctx, tx, leaving.org):
        return
    ways_in = await tx.of_org(leaving.org, api_token.name) + await tx.of_org(leaving.org, member.name)
    if not any(row.id != leaving.id and _administers(ctx, row, tx.now) for row in ways_in):
        raise Conflict(
            "This is the last way into the organization as an Admin, and your own: "
            "make another Admin token, or another member Admin, first"
        )


async def _operated(ctx: Context, tx: Tx, org: str) -> bool:
    """Whether the token of the settings opens it."""
    first = await tx.first("", "organization") if ctx.settings.admin_token else None
    return first is not None and first.id == org


def _administers(ctx: Context, row: Row, now: int) -> bool:
    document = msgspec.json.decode(row.body)
    if row.family == member.name:
        return bool(ctx.settings.oidc_issuer) and document["role_id"] == ROLE_IDS[Scope.ADMIN]
    ends = document["expires_at"]
    return (
        Scope.ADMIN.word in document["scopes"]
        and document["limited_to"] is None
        and (ends is None or ends > stamp(now))
    )
