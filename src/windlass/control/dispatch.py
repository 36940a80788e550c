"""From a call to its reply: finds the handler, gives a write its transaction, makes a repeat harmless."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import cast

import msgspec
from msgspec import Struct

from windlass.base.clock import DAY
from windlass.base.errors import Conflict
from windlass.control import (
    audit,
    credentials,
    environments,
    finding,
    identity,
    live_deployments,
    live_events,
    live_statuses,
    members,
    organizations,
    overview,
    reading_logs,
    regions,
    resources,
    services,
    variables,
)
from windlass.control.context import Call, Context, Reading, Reply, Writing, handler_of
from windlass.store.store import Tx

# Importing them registers their handlers.
HANDLING = (
    audit,
    credentials,
    environments,
    finding,
    identity,
    live_deployments,
    live_events,
    live_statuses,
    members,
    organizations,
    overview,
    reading_logs,
    regions,
    resources,
    services,
    variables,
)


class Kept(Struct):
    """An answer, as it is kept for twins of its request."""

    status: int
    tag: str | None
    body: bytes


class Repeatable(Struct, frozen=True):
    """The caller's `Idempotency-Key`, and what was asked under it."""

    key: str
    request: bytes


class Dispatch:
    """Every operation with its handler; one without stops the start."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._handlers = {operation: handler_of(operation) for operation in ctx.registry.operations}

    def read(self, call: Call) -> Awaitable[Reply]:
        return cast(Reading, self._handlers[call.operation])(self._ctx, call)

    async def write(self, call: Call, repeatable: Repeatable | None) -> tuple[Reply, bool]:
        """The reply, and whether it is that of an earlier twin."""
        handler = cast(Writing, self._handlers[call.operation])

        async def change(tx: Tx) -> tuple[Reply, bool]:
            if repeatable is None:
                return await handler(self._ctx, tx, call), False
            return await self._once(tx, call, handler, repeatable)

        return await self._ctx.store.write(change)

    async def _once(self, tx: Tx, call: Call, handler: Writing, repeatable: Repeatable) -> tuple[Reply, bool]:
        caller, key, seal = call.actor.subject, repeatable.key, self._ctx.seal
        request = seal.mark(call.operation.id.encode(), "/".join(call.ids).encode(), repeatable.request)
        kept = await tx.idempotent(caller, key)
        if kept and kept[1] > tx.now - DAY:
            if kept[0] != request:
                raise Conflict("This Idempotency-Key was used for another request: take a new key")
            answer = msgspec.msgpack.decode(seal.open(kept[2], caller, key), type=Kept)
            return Reply(answer.body, answer.tag, answer.status), True
        reply = await handler(self._ctx, tx, call)
        keep = Kept(reply.status or call.operation.status, reply.tag, reply.body)
        await tx.keep_answer(caller, key, request, seal.close(msgspec.msgpack.encode(keep), caller, key))
        return reply, False
