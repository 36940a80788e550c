"""From a call to its reply: finds the handler, gives a write its transaction, makes a repeat harmless.

Handlers are found by being there: every module of `control` is imported, and registers what it handles.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Awaitable
from typing import cast

from windlass import control
from windlass.control.context.call import PREPARING, Call, Reading, Reply, Writing, handler_of
from windlass.control.context.context import Context
from windlass.control.request.behaviour import check_behaviours
from windlass.control.request.repeats import Repeatable, answer_once
from windlass.store import Tx

for _module in pkgutil.walk_packages(control.__path__, f"{control.__name__}."):
    importlib.import_module(_module.name)


class Dispatch:
    """Every operation with its handler; one without stops the start."""

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
        return self._reading[call.operation](self._ctx, call)

    async def write(self, call: Call, repeatable: Repeatable | None) -> tuple[Reply, bool]:
        """Returns the reply, and true if it is that of an earlier request with the same key."""
        handler = self._writing[call.operation]
        if prepare := PREPARING.get(call.operation.handler):
            await prepare(self._ctx, call)

        async def change(tx: Tx) -> tuple[Reply, bool]:
            if repeatable is None:
                return await handler(self._ctx, tx, call), False
            return await answer_once(self._ctx, tx, call, handler, repeatable)

        return await self._ctx.store.write(change)
