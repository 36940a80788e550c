"""Sessions: JWTs of the built-in issuer, which are issued in exchange for an API token."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from windlass.base.clock import SECOND, stamp
from windlass.base.errors import Forbidden
from windlass.control.context.call import Call, Origin, Reply, encode, writes
from windlass.control.context.context import Context
from windlass.control.records.recording import about, emit, origin_of
from windlass.core.access import Actor
from windlass.core.words.events import Event
from windlass.store import Tx
from windlass.store.tables.sealed import FACT, ISSUER_KEY

if TYPE_CHECKING:
    from windlass.base.issuer import Signer

AUDIENCE = "windlass"
_KEY_OWNER = FACT.owner(name=ISSUER_KEY)
OPERATOR_SUBJECT = "operator"
"""The subject of the admin token in the settings."""


async def signer_of(ctx: Context) -> Signer:
    """Returns the built-in issuer. Its key is created at the first use, and stored sealed."""
    kept = await ctx.store.reads.facts.get(ISSUER_KEY)
    return _signer(ctx, kept if kept is not None else await ctx.store.write(lambda tx: _key(ctx, tx)))


async def _key(ctx: Context, tx: Tx) -> bytes:
    from windlass.base.issuer import Signer  # noqa: PLC0415 (costs 100 ms; only JWTs need it)

    kept = await tx.facts.get(ISSUER_KEY)
    if kept is not None:
        return kept
    sealed = ctx.encryption.encrypt(Signer.new_key(), *_KEY_OWNER)
    await tx.facts.set(ISSUER_KEY, sealed)
    return sealed


def _signer(ctx: Context, sealed_value: bytes, now: Callable[[], int] | None = None) -> Signer:
    from windlass.base.issuer import Signer  # noqa: PLC0415 (see above)

    now = now or ctx.clock.now
    return Signer(ctx.settings.url, ctx.encryption.decrypt(sealed_value, *_KEY_OWNER), lambda: now() / SECOND)


def operator_token_mark(ctx: Context) -> str:
    """Returns an identifier of the operator's token that does not reveal the token. It changes with the
    token."""
    mark = ctx.encryption.mark(OPERATOR_SUBJECT.encode(), ctx.settings.admin_token.encode())
    return f"{OPERATOR_SUBJECT}:{mark}"


@writes("createSession")
async def create_session(ctx: Context, tx: Tx, call: Call) -> Reply:
    actor = call.actor
    if actor.token is None:
        raise Forbidden("Only an API token can be exchanged for a session: send one")
    left = ctx.settings.session_ttl
    if actor.expires is not None:
        left = min(left, (actor.expires - tx.now) // SECOND)
    subject = operator_token_mark(ctx) if actor.token == OPERATOR_SUBJECT else actor.token
    signer = _signer(ctx, await _key(ctx, tx), lambda: tx.now)
    token = signer.sign({"sub": subject, "aud": AUDIENCE}, left)
    ends = (tx.now // SECOND + left) * SECOND
    await record_sign_in(ctx, tx, actor, origin_of(call), ends)
    return Reply(encode({"token": token, "token_type": "Bearer", "expires_at": stamp(ends)}))


async def record_sign_in(ctx: Context, tx: Tx, actor: Actor, origin: Origin, ends_at: int) -> None:
    """Records the event of a new session."""
    await record_about_caller(ctx, tx, Event.SIGNED_IN, actor, origin, {"session_until": stamp(ends_at)})


async def record_about_caller(
    ctx: Context, tx: Tx, kind: Event, actor: Actor, origin: Origin, data: Mapping[str, object]
) -> None:
    """Records an event about the caller itself, if the caller is a stored resource."""
    row = await tx.resources.get(actor.id)
    if row is not None:
        subject = await about(ctx, tx, row)
        emit(tx, kind, row.org, subject, actor.id, actor.name, origin, data)
