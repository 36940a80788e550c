"""Stores the responses to POST requests with an `Idempotency-Key` for a day. A repeated request gets the
stored response.

A secret that a response shows once is stored separately for a minute. So a client whose connection broke can
repeat the request while the resource exists. Later repetitions are refused.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from windlass.base.clock import DAY, MINUTE
from windlass.base.errors import Conflict
from windlass.control.context.call import Call, Reply, Writing, encode
from windlass.control.context.context import Context
from windlass.control.request.permissions import absent, is_visible
from windlass.core.declare.document import Document
from windlass.core.declare.registry import Operation
from windlass.store import Claim, IdempotentAnswer, Tx
from windlass.store.tables.sealed import ANSWER, ONCE

ERASE_SECRETS: Final = "forget"
"""The kind of work that erases secrets that were shown once."""
SECRET_LIFETIME: Final = MINUTE
_REPLAYED_HEADER: Final = {"idempotency-replayed": "true"}


class StoredAnswer(Struct):
    """A response, stored for repetitions of its request."""

    status: int
    tag: str | None
    body: bytes


class Repeatable(Struct, frozen=True):
    """The caller's `Idempotency-Key` and the content of the request."""

    key: str
    request: bytes


async def answer_once(
    ctx: Context, tx: Tx, call: Call, handler: Writing, repeatable: Repeatable
) -> tuple[Reply, bool]:
    """Returns the reply, and whether it is the stored reply to an earlier request with the same key."""
    caller, key = call.actor.subject, repeatable.key
    request = ctx.encryption.mark(call.operation.id.encode(), "/".join(call.ids).encode(), repeatable.request)
    kept = await tx.idempotency.get(caller, key)
    if kept and kept.at > tx.now - DAY:
        if kept.request != request:
            raise Conflict("Use a new Idempotency-Key: this one was used for another request")
        await _require_sight(ctx, tx, call)
        return await _replay(ctx, tx, call, kept, caller, key), True
    reply = await handler(ctx, tx, call)
    await _store_answer(ctx, tx, call, reply, IdempotentAnswer(request, tx.now, b"", None), caller, key)
    return reply, False


async def _require_sight(ctx: Context, tx: Tx, call: Call) -> None:
    """Refuses a repetition if the caller has lost access to the first resource in the path."""
    row = await tx.resources.get(call.ids[0]) if call.ids else None
    if row is not None and not await is_visible(tx, call.actor, row):
        raise absent(ctx.registry[row.family].noun)


async def forget(ctx: Context, claim: Claim) -> None:
    """Erases secrets that were shown more than a minute ago."""

    async def change(tx: Tx) -> None:
        oldest = await tx.idempotency.erase_secrets(tx.now - SECRET_LIFETIME)
        if oldest is None:
            await tx.work.done(claim)
        else:
            await tx.work.reschedule(claim, oldest + SECRET_LIFETIME)

    await ctx.store.write(change)


async def _store_answer(
    ctx: Context, tx: Tx, call: Call, reply: Reply, answered: IdempotentAnswer, caller: str, key: str
) -> None:
    body, shown = _split(call.operation, reply.body)
    answer = StoredAnswer(reply.status or call.operation.status, reply.tag, body)
    owner, owner_of_once = ANSWER.owner(caller=caller, key=key), ONCE.owner(caller=caller, key=key)
    sealed = ctx.encryption.encrypt(msgspec.msgpack.encode(answer), *owner)
    secret = ctx.encryption.encrypt(encode(shown), *owner_of_once) if shown else None
    await tx.idempotency.set(caller, key, msgspec.structs.replace(answered, answer=sealed, once=secret))
    if shown:
        await tx.work.schedule(ERASE_SECRETS, ERASE_SECRETS, tx.now + SECRET_LIFETIME)


async def _replay(
    ctx: Context, tx: Tx, call: Call, stored_answer: IdempotentAnswer, caller: str, key: str
) -> Reply:
    owner, owner_of_once = ANSWER.owner(caller=caller, key=key), ONCE.owner(caller=caller, key=key)
    answer = msgspec.msgpack.decode(ctx.encryption.decrypt(stored_answer.answer, *owner), type=StoredAnswer)
    body, held = _split(call.operation, answer.body)
    if stored_answer.once is not None and stored_answer.at > tx.now - SECRET_LIFETIME:
        held |= msgspec.json.decode(ctx.encryption.decrypt(stored_answer.once, *owner_of_once))
    if not held and not _is_parted(call.operation, body):
        return Reply(answer.body, answer.tag, answer.status)
    if stored_answer.at <= tx.now - SECRET_LIFETIME or not await _still_exists(tx, call, body):
        raise Conflict(
            "Use another Idempotency-Key: this request was done before, and its answer held a secret that is "
            "shown once. If it is lost, delete what was made, and make another",
            _REPLAYED_HEADER,
        )
    return Reply(encode(msgspec.json.decode(body) | held), answer.tag, answer.status)


def _split(operation: Operation, body: bytes) -> tuple[bytes, Document]:
    """Splits a response into its body, with null for each secret shown once, and these secrets."""
    if not operation.shown_once:
        return body, {}
    document: Document = msgspec.json.decode(body)
    shown = {name: document[name] for name in operation.shown_once if document.get(name)}
    return encode(document | dict.fromkeys(shown)), shown


def _is_parted(operation: Operation, body: bytes) -> bool:
    document: Document = msgspec.json.decode(body) if operation.shown_once else {}
    return any(name in document and document[name] is None for name in operation.shown_once)


async def _still_exists(tx: Tx, call: Call, body: bytes) -> bool:
    """Returns whether the resource in the response, or else in the path of the request, still exists."""
    id = msgspec.json.decode(body).get("id") or call.id
    return not id or await tx.resources.get(id) is not None
