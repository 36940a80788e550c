"""Sends responses: head and body in one write, and the usual responses without uvicorn's code for headers.

All other responses are left to uvicorn's `RequestResponseCycle`. Requests are parsed in `serve.connection`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

# Status lines of the responses that are built in one step. They must have a Content-Length.
_STATUS_LINES = {200: b"HTTP/1.1 200 OK", 201: b"HTTP/1.1 201 Created"}


class CorkedTransport:
    """Joins all writes of one turn of the event loop into one system call. Head and body of a response leave
    together, so that the client is woken only once."""

    __slots__ = ("_call_soon", "_parts", "_transport")

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._call_soon = loop.call_soon
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        if not self._parts:
            self._call_soon(self._flush)
        self._parts.append(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        parts, self._parts = self._parts, []
        if parts and not self._transport.is_closing():
            self._transport.write(parts[0] if len(parts) == 1 else b"".join(parts))

    def write_eof(self) -> None:
        self._flush()
        if not self._transport.is_closing():
            self._transport.write_eof()

    def is_closing(self) -> bool:
        return bool(self._transport.is_closing())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class WholeAnswer:
    """Wraps the application for one request, and builds the bytes of a complete response in one step.

    uvicorn checks each header separately, which takes longer than the rest of sending. Responses that are
    streamed, close the connection or have an unusual status are left to uvicorn.
    """

    __slots__ = ("_app", "_cycle", "_start")

    def __init__(self, app: Any, cycle: RequestResponseCycle) -> None:
        self._app = app
        self._cycle = cycle
        self._start: Any = None

    def __call__(self, scope: Any, receive: Any, send: Any) -> Awaitable[None]:
        return self._app(scope, receive, self._send)  # type: ignore[no-any-return]

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            return
        start, self._start = self._start, None
        if start is not None:
            if answer := self._put_together(start, message):
                await self._answer(answer)
                return
            await self._cycle.send(start)
        await self._cycle.send(message)

    def _put_together(self, start: Any, message: Any) -> bytes | None:
        """Returns the bytes of a complete response with Content-Length, or None if uvicorn has to send it."""
        cycle, line = self._cycle, _STATUS_LINES.get(start["status"])
        if not line or message.get("more_body") or not cycle.keep_alive or cycle.scope["method"] == "HEAD":
            return None
        body: bytes = message["body"]
        headers = [*cycle.default_headers, *start["headers"]]
        head = b"\r\n".join((line, *map(b": ".join, headers), b"\r\n"))
        if head.count(b"\n") != len(headers) + 2:
            raise ValueError("a header contains a line break: it would be read as two")
        if b"\r\ncontent-length: %d\r\n" % len(body) not in head or b"\r\nconnection:" in head:
            return None
        return head + body

    async def _answer(self, answer: bytes) -> None:
        """Writes the response, and updates uvicorn's fields for the progress of a response."""
        cycle = self._cycle
        if cycle.flow.write_paused and not cycle.disconnected:
            await cycle.flow.drain()
        if cycle.disconnected:
            return
        cycle.response_started = cycle.response_complete = True
        cycle.transport.write(answer)
        cycle.message_event.set()
        cycle.on_response()
