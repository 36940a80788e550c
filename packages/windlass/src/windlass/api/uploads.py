"""Requests with a streamed body: parts of uploads, which are written to the disk as they arrive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

from windlass.api.answers import HttpAnswer
from windlass.api.body import parse_query
from windlass.api.callers import Callers
from windlass.api.requests import Receive, Request
from windlass.api.router import RouteTree
from windlass.api.streaming import Allowed
from windlass.api.wrong_paths import not_allowed
from windlass.base.errors import Failure, Forbidden, Unavailable
from windlass.control.context.call import Call, Reply
from windlass.control.context.context import Context
from windlass.control.request.permissions import forbidden
from windlass.control.services.uploads import receive_part, tell_offset
from windlass.core.access import Actor, may_somewhere
from windlass.core.declare.registry import Operation
from windlass.families.upload import ContentPart

CHECK_INTERVAL: Final = 1.0
"""Seconds between two checks of the caller's rights: a body may take hours to arrive."""
_ALLOWED_METHODS = "HEAD, OPTIONS, PUT"


class UploadRequests:
    def __init__(self, ctx: Context, callers: Callers) -> None:
        self._ctx, self._callers = ctx, callers
        self._routes = RouteTree(operation for operation in ctx.registry.raw if operation.writes)

    def has(self, path: str) -> bool:
        return self._routes.find(path) is not None

    async def answer(self, request: Request, receive: Receive) -> HttpAnswer:
        """Responds to a request at a path that accepts a streamed body."""
        actor = await self._callers.identify(request)
        if isinstance(actor, Failure):
            raise actor
        route = self._routes.find(request.path)
        assert route is not None
        methods, ids = route
        (operation,) = methods.values()
        if request.method not in {operation.method, "HEAD"}:
            raise not_allowed(request.method, _ALLOWED_METHODS)
        request.operation = operation.id
        try:
            reply = await self._handle(request, _call(request, operation, ids, actor), receive)
        except Forbidden as refusal:
            self._callers.security.record_refused(
                actor, operation, request.path, ids, refusal.message, request.source
            )
            raise
        headers = tuple((name.encode(), value.encode()) for name, value in (reply.headers or {}).items())
        return HttpAnswer(operation.status, reply.body, headers)

    async def _handle(self, request: Request, call: Call, receive: Receive) -> Reply:
        if not may_somewhere(call.actor, call.operation.need):
            raise forbidden(call.operation)
        if request.method == "HEAD":
            return await tell_offset(self._ctx, call)
        length = request.headers.get(b"content-length")
        pieces = _pieces(receive, await self._callers.still_allowed(request))
        return await receive_part(self._ctx, call, pieces, int(length) if length else None)


def _call(request: Request, operation: Operation, ids: tuple[str, ...], actor: Actor) -> Call:
    query, _ = parse_query(request.scope["query_string"], operation.query or ContentPart)
    return Call(
        operation=operation,
        actor=actor,
        ids=ids,
        dialect=request.dialect,
        query=query,
        origin=request.source,
        find_trace=lambda: request.trace,
    )


async def _pieces(receive: Receive, allowed: Allowed) -> AsyncIterator[bytes]:
    """Yields the request body. If the client disconnects, the iterator ends early: the received bytes are
    kept, and the client can resume after them. Raises Forbidden once the caller has lost its rights."""
    time = asyncio.get_running_loop().time
    checked_at, more = time(), True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        if time() - checked_at >= CHECK_INTERVAL:
            checked_at = time()
            with suppress(Unavailable):  # the rights cannot be read now, and the next check may come soon
                if not await allowed():
                    raise Forbidden("Use another token: this one has ended, or its rights have")
        if data := message.get("body", b""):
            yield data
        more = message.get("more_body", False)
