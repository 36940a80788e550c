"""Dispatches a call: finds the handler, runs writes in a transaction, and deduplicates repeated requests.

This module imports all modules of `control`, which register their handlers.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Awaitable
from typing import cast

import msgspec
from msgspec import Struct

from windlass import control
from windlass.base.errors import Unavailable
from windlass.control.context.call import (
    PREPARING,
    Call,
    Reading,
    Reply,
    Writing,
    handler_of,
    results,
)
from windlass.control.context.context import Context
from windlass.control.records.disk_shares import LARGE_BODY_BYTES, refuse_above_share
from windlass.control.request.behaviour import check_behaviours
from windlass.control.request.idempotency import Repeatable, answer_once
from windlass.control.request.reading import paging, slice_of
from windlass.store import MAX_REQUEST_COST, Tx

for _module in pkgutil.walk_packages(control.__path__, f"{control.__name__}."):
    importlib.import_module(_module.name)


class _ShortList(Struct):
    """The response of a list that is short enough to be built in memory."""

    results: list[msgspec.Raw]


class Dispatch:
    """All operations with their handlers. Fails at the start if an operation has no handler."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        check_behaviours(ctx.registry)
        handlers = {operation: handler_of(operation) for operation in ctx.registry.operations}
        self._reading = {
            operation: cast(Reading, handler)
            for operation, handler in handlers.items()
            if not operation.writes
        }
        self._writing = {
            operation: cast(Writing, handler) for operation, handler in handlers.items() if operation.writes
        }

    def read(self, call: Call) -> Awaitable[Reply]:
        reading = self._reading[call.operation](self._ctx, call)
        return _page_of(call, reading) if call.paging_asked and call.operation.pages_if_asked else reading

    async def write(self, call: Call, repeatable: Repeatable | None, size: int = 0) -> tuple[Reply, bool]:
        """Runs the handler of a write. Returns the reply, and whether it is the stored reply to an earlier
        request with the same idempotency key. `size` is the size of the body in bytes."""
        if shortage := self._ctx.store.shortage(ends_something=call.operation.ends_something):
            raise Unavailable(shortage)
        if size > LARGE_BODY_BYTES:
            await self._refuse_large(call)
        handler = self._writing[call.operation]
        if prepare := PREPARING.get(call.operation.handler):
            await prepare(self._ctx, call)

        async def change(tx: Tx) -> tuple[Reply, bool]:
            tx.limit(MAX_REQUEST_COST)
            if repeatable is None:
                return await handler(self._ctx, tx, call), False
            return await answer_once(self._ctx, tx, call, handler, repeatable)

        return await self._ctx.store.write(change)

    async def _refuse_large(self, call: Call) -> None:
        """Refuses a large body if the organization exceeds its disk quota."""
        reads = self._ctx.store.reads
        row = await reads.resources.get(call.ids[0]) if call.ids else None
        for org in call.actor.organizations:
            if row is None or row.org == org:
                await refuse_above_share(reads, org)


async def _page_of(call: Call, pending_reply: Awaitable[Reply]) -> Reply:
    """Returns the requested page of a list whose handler returns the whole list."""
    whole = await pending_reply
    items = [bytes(item) for item in msgspec.json.decode(whole.body, type=_ShortList).results]
    return msgspec.structs.replace(whole, body=results(items[slice_of(call)], *paging(call), len(items)))
