"""API tokens: created and shown once, and stored only as a digest."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import msgspec

from windlass.base import tokens
from windlass.base.clock import instant, stamp
from windlass.base.errors import Invalid
from windlass.control.context.context import Context
from windlass.control.people.callers import is_admin_token, subject_of_token
from windlass.control.people.handed_links import end_links_of
from windlass.control.people.members import keep_another_admin
from windlass.control.request.behaviour import Behaviour, Change, Draft, behaves
from windlass.control.request.creating import NewResource, create_in
from windlass.control.request.reading import ROW_FILTERS
from windlass.core.access import ROLE_IDS, Actor, Scope, role_of, scopes_of, words_of
from windlass.core.declare.document import Document
from windlass.core.declare.stored import NamedDocument, rewritten
from windlass.families.api_token import ApiToken, ApiTokenShown, api_token
from windlass.store import Reads, Row, Tx

# RFC 3339, also with a blank instead of the T, as a date alone, or without a zone, which then is UTC. Python
# would accept weeks (2026-W05) and dates without dashes too, and would parse a Unix time as a date long ago.
_TIME_PATTERN = re.compile(
    r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,18})?)?(Z|[+-]\d\d:?\d\d)?)?", re.ASCII | re.IGNORECASE
)


async def issue(ctx: Context, tx: Tx, org: Row, name: str, scopes: Scope, actor: Actor) -> str:
    """Creates an API token on behalf of the server. Returns the token."""
    spec = ApiToken(name=name, scopes=words_of(scopes))
    reply = await create_in(ctx, tx, NewResource(api_token, spec, org, actor))
    return str(msgspec.json.decode(reply.body)["token"])


async def _has_name(ctx: Context, reads: Reads, token: Row, name: object) -> bool:
    return token.read(NamedDocument).name.casefold() == str(name).casefold()


async def _was_created_by(ctx: Context, reads: Reads, token: Row, name: object) -> bool:
    return token.read(ApiTokenShown).creator_name.casefold() == str(name).casefold()


ROW_FILTERS.update(name=_has_name, creator_name=_was_created_by)


@behaves(api_token)
class ApiTokens(Behaviour[ApiToken]):
    async def creating(self, ctx: Context, tx: Tx, draft: Draft[ApiToken]) -> None:
        spec = draft.spec
        check_expiry(spec.expires_at, tx.now)
        await self._check_limits(ctx, tx, draft)
        scopes = scopes_of(spec.scopes or ())
        spec.scopes = words_of(scopes)
        token = tokens.new_token()
        draft.answer = {"token": token}
        draft.extras |= self._roles(scopes) | {
            "creator_name": draft.actor.name,
            "expires_at": _normal(spec.expires_at),
        }

    async def created(self, ctx: Context, tx: Tx, draft: Draft[ApiToken]) -> None:
        await tx.tokens.add(tokens.digest(str(draft.answer["token"])), draft.id)

    async def updating(self, ctx: Context, tx: Tx, change: Change[ApiToken]) -> None:
        change.extras |= self._roles(scopes_of(change.before.scopes or ()))

    async def updated(self, ctx: Context, tx: Tx, row: Row) -> None:
        tx.nudge("tokens")

    async def deleting(self, ctx: Context, tx: Tx, row: Row) -> None:
        if is_admin_token(row, tx.now):
            await keep_another_admin(ctx, tx, row)
        await end_links_of(tx, row.org, subject_of_token(row.id))
        await tx.tokens.revoke(row.id, row.org, row.read(NamedDocument).name)

    def _roles(self, scopes: Scope) -> Document:
        role = role_of(scopes)
        return {"role_id": ROLE_IDS[role], "role_name": role.word}

    async def _check_limits(self, ctx: Context, tx: Tx, draft: Draft[ApiToken]) -> None:
        limits = {family.name for family in ctx.registry.services_and_above}
        for place, id in enumerate(draft.spec.limited_to or ()):
            row = await tx.resources.get(id)
            if row is None or row.org != draft.org or row.family not in limits:
                raise Invalid(f"limited_to[{place}]: no project, environment or service has this id")


async def note_uses(tx: Tx, uses: dict[str, int]) -> None:
    """Stores the times at which tokens were last used, unless another replica has stored a later time."""
    for id, at in uses.items():
        row = await tx.resources.find(api_token.name, id)
        if row is None:
            continue
        if (row.read(ApiTokenShown).last_used_at or "") < stamp(at):
            await tx.resources.rewrite(id, rewritten(row.body, {"last_used_at": stamp(at)}))


def check_expiry(text: str | None, now: int) -> None:
    if text is not None and expiry(text) <= now:
        raise Invalid("expires_at: must be in the future")


def expiry(text: str) -> int:
    try:
        if not _TIME_PATTERN.fullmatch(text):
            raise ValueError
        moment = datetime.fromisoformat(text.upper())
        moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise Invalid("expires_at: must be a time such as 2026-01-31T09:05:00.000Z") from error
    return instant(moment)


def _normal(text: str | None) -> str | None:
    return None if text is None else stamp(expiry(text))
