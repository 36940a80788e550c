"""Browser sessions, opened with a sign-in link, an API token, or an OpenID Connect provider.

A session has two secrets. The cookie is inaccessible to scripts. The page key is inaccessible to other
origins, which protects the session because cookies are shared between ports: a service on another port of the
host receives the cookie, but never the page key.
"""

from __future__ import annotations

import hmac
import secrets
from typing import Final

from msgspec import Struct

from windlass.base import ids, tokens
from windlass.base.clock import DAY, HOUR, MINUTE, stamp
from windlass.base.errors import Forbidden, Missing, Unauthorized
from windlass.control.context.call import Origin
from windlass.control.context.context import Context
from windlass.control.people.organizations import NO_PARENT
from windlass.control.people.sessions import (
    OPERATOR_SUBJECT,
    operator_token_mark,
    record_about_caller,
    record_sign_in,
)
from windlass.core.access import Actor
from windlass.core.words.events import Event
from windlass.families.organization import organization
from windlass.store import Tx
from windlass.store.tables.browser_sessions import BrowserSession

LINK_LIFETIME: Final = 10 * MINUTE
MAX_SESSION_LIFETIME: Final = 30 * DAY
"""Maximum lifetime of a session, even if it is in use."""
MAX_SESSIONS: Final = 50
"""Maximum number of sessions of one holder. The least recently used ones are ended."""
_KEY_LABEL: Final = b"page key"


class NewBrowserSession(Struct, frozen=True):
    """The secrets of a new browser session, with its end and the name of its holder."""

    cookie: str
    page_key: str
    ends_at: int
    holder_name: str


def holder_of(ctx: Context, actor: Actor) -> str:
    """Returns the identity of the token or person that a session acts for."""
    return operator_token_mark(ctx) if actor.subject == OPERATOR_SUBJECT else actor.subject


def page_key_of(ctx: Context, cookie: str) -> str:
    """Returns the page key for a session cookie. The key is derived from the cookie with this installation's
    encryption key."""
    return ctx.encryption.mark(_KEY_LABEL, cookie.encode())


def is_page_key(ctx: Context, cookie: str, key: str) -> bool:
    return hmac.compare_digest(page_key_of(ctx, cookie).encode(), key.encode())


def session_lifetime(ctx: Context) -> int:
    """Returns how long a session lasts after its last use."""
    return ctx.settings.browser_session_hours * HOUR


def end_after_use(ctx: Context, session: BrowserSession, now: int) -> int:
    return min(session.created_at + MAX_SESSION_LIFETIME, now + session_lifetime(ctx))


async def create_link(ctx: Context, tx: Tx, actor: Actor) -> tuple[str, int]:
    """Creates a sign-in link for the caller, which can be used once. Returns its code and the time when it
    ends."""
    if actor.token is None:
        raise Forbidden("Send an API token: only a token can be made into a link that signs in")
    code = secrets.token_urlsafe(32)
    ends = min(tx.now + LINK_LIFETIME, actor.expires or tx.now + LINK_LIFETIME)
    holder = holder_of(ctx, actor)
    await tx.browser_sessions.add(
        BrowserSession(tokens.digest(code), ids.new_id(), holder, actor.name, "", "", 0, tx.now, tx.now, ends)
    )
    return code, ends


async def open_with_link(ctx: Context, tx: Tx, code: str, origin: Origin) -> NewBrowserSession:
    """Opens a session with the code of a sign-in link, which becomes invalid."""
    link = await tx.browser_sessions.take_link(tokens.digest(code))
    if link is None:
        raise Unauthorized(
            "Make another link with `windlass console`: this one was used before, or is older than 10 minutes"
        )
    return await open_for(ctx, tx, link.holder, link.holder_name, origin)


async def open_as(ctx: Context, tx: Tx, actor: Actor, origin: Origin) -> NewBrowserSession:
    """Opens a session for a caller that was authenticated with an API token or by a provider."""
    return await open_for(ctx, tx, holder_of(ctx, actor), actor.name, origin)


async def open_for(ctx: Context, tx: Tx, holder: str, name: str, origin: Origin) -> NewBrowserSession:
    """Opens a session for a token or a person. Its secrets are always new, whatever the browser has sent."""
    cookie, ends = secrets.token_urlsafe(32), tx.now + session_lifetime(ctx)
    session = BrowserSession(
        tokens.digest(cookie),
        ids.new_id(),
        holder,
        name,
        origin.address,
        origin.user_agent,
        1,
        tx.now,
        tx.now,
        ends,
    )
    await tx.browser_sessions.add(session)
    await tx.browser_sessions.keep_newest(holder, MAX_SESSIONS)
    await _record(ctx, tx, holder, name, origin, ends)
    return NewBrowserSession(cookie, page_key_of(ctx, cookie), ends, name)


async def _record(ctx: Context, tx: Tx, holder: str, name: str, origin: Origin, ends_at: int) -> None:
    """Records the event of a new session for a token.

    For people, the event is recorded with their first request from an address; see `SecurityEvents`.
    """
    kind, _, id = holder.partition(":")
    if kind == OPERATOR_SUBJECT:
        first = await tx.resources.first(NO_PARENT, organization.name)
        id = first.id if first else ""
    if kind in {OPERATOR_SUBJECT, "token"}:
        await record_sign_in(ctx, tx, Actor(id=id, name=name, subject=holder, permits={}), origin, ends_at)


async def end_session(ctx: Context, tx: Tx, actor: Actor, id: str, origin: Origin) -> None:
    """Ends a session of the caller, immediately and on all servers."""
    ended = await tx.browser_sessions.end(id, holder_of(ctx, actor))
    if ended is None:
        raise Missing("List your sessions to find their ids: no session has this id")
    tx.nudge("tokens")
    # The event's origin is the requesting browser; the ended session may belong to another browser.
    session = {"id": ended.id, "address": ended.address, "user_agent": ended.user_agent}
    kind = Event.SIGNED_OUT if ended.id == actor.session else Event.SESSION_ENDED
    await record_about_caller(ctx, tx, kind, actor, origin, {"session": session})


async def end_other_sessions(ctx: Context, tx: Tx, actor: Actor, origin: Origin) -> None:
    """Ends all sessions of the caller but the current one."""
    ended = await tx.browser_sessions.end_all_but(holder_of(ctx, actor), actor.session)
    tx.nudge("tokens")
    for session in ended:
        about = {"id": session.id, "address": session.address, "user_agent": session.user_agent}
        await record_about_caller(ctx, tx, Event.SESSION_ENDED, actor, origin, {"session": about})


class ShownBrowserSession(Struct, frozen=True):
    id: str
    created_at: str
    last_used_at: str
    ends_at: str
    address: str
    user_agent: str
    is_this_one: bool


async def sessions_of(ctx: Context, actor: Actor) -> list[ShownBrowserSession]:
    """Returns the browser sessions of the caller, the most recently used first."""
    sessions = await ctx.store.reads.browser_sessions.of(holder_of(ctx, actor), ctx.clock.now())
    return [
        ShownBrowserSession(
            session.id,
            stamp(session.created_at),
            stamp(session.used_at),
            stamp(session.ends_at),
            session.address,
            session.user_agent,
            session.id == actor.session,
        )
        for session in sessions
    ]
