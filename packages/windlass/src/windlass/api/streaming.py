"""Streams responses until the client disconnects, the data ends, or the server stops.

This module sends server-sent events; `sockets` sends frames of a websocket. A complete event stream ends with
the final chunk of its body. After an error, the connection closes without the final chunk, so that the client
detects the loss.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from enum import Enum
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct

from windlass.base.errors import Invalid, Unavailable
from windlass.control.reporting import frames

T = TypeVar("T")

EVENT_STREAM: Final = (b"content-type", b"text/event-stream")
STILL_HERE: Final = b": still here\n\n"
KEEPALIVE_INTERVAL: Final = 15.0
"""Seconds without an event after which a comment is sent, to keep the connection alive."""

PERMISSION_CHECK_INTERVAL: Final = 5.0
"""Seconds without an event after which the reader's permission is checked again."""

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Allowed = Callable[[], Awaitable[bool]]


class StreamEnd(Enum):
    OVER = "all is said"
    REFUSED = "the reader may not read it any more"
    UNCHECKED = "the rights of the reader cannot be checked at the moment"
    STOPPED = "the server stops"
    LEFT = "nobody reads any more"


class StreamRemarks(Struct, Generic[T], frozen=True):
    """Messages about the state of a stream, which are sent between its pieces."""

    still_here: T
    unavailable: Callable[[float], T]
    """A function that returns the message for an unavailable database. Its argument is the number of seconds
    since the last successful read."""
    available: T
    refused: T


_EVENT_REMARKS: Final = StreamRemarks(
    STILL_HERE,
    lambda seconds: frames.remark(
        b"unavailable",
        "The server cannot read its database. This stream continues once it can",
        seconds=round(seconds),
    ),
    frames.remark(b"available", "The server reads its database again"),
    frames.remark(
        b"refused",
        "The rights of this caller have changed, or it is not signed in any more: connect again to learn why",
    ),
)


class Streams:
    """The set of all open streams."""

    def __init__(
        self, quiet: float = KEEPALIVE_INTERVAL, ping_interval: float = PERMISSION_CHECK_INTERVAL
    ) -> None:
        self._quiet = quiet
        self._ask = min(ping_interval, quiet)
        self._open: set[asyncio.Event] = set()
        self._stopping = False

    def __len__(self) -> int:
        return len(self._open)

    def stop(self) -> None:
        """Ends all open streams. Later streams end immediately."""
        self._stopping = True
        for ending in self._open:
            ending.set()

    @contextmanager
    def opened(self) -> Iterator[asyncio.Event]:
        """Registers a stream as open. Yields an event that is set when the server stops."""
        stopping = asyncio.Event()
        self._open.add(stopping)
        if self._stopping:
            stopping.set()
        try:
            yield stopping
        finally:
            self._open.discard(stopping)

    async def events(
        self, chunks: AsyncGenerator[bytes, None], receive: Receive, send: Send, allowed: Allowed
    ) -> None:
        """Sends the body of an event stream, after its head was sent."""

        async def put(piece: bytes) -> None:
            await send({"type": "http.response.body", "body": piece, "more_body": True})

        with suppress(OSError):  # the client has disconnected, which `leaving` reports
            await put(b"")  # an empty piece sends the head, which would otherwise wait for the first event
        leaving = wait_for_message(receive, "http.disconnect")
        ending = await self.run(chunks, put, leaving, allowed, remarks=_EVENT_REMARKS)
        if ending is not StreamEnd.LEFT:
            await send({"type": "http.response.body", "body": b""})

    async def raw(
        self, chunks: AsyncGenerator[bytes, None], receive: Receive, send: Send, closing_message: bytes
    ) -> None:
        """Sends the body of a response of unknown length. `closing_message` ends it if the server stops."""

        async def put(piece: bytes) -> None:
            await send({"type": "http.response.body", "body": piece, "more_body": True})

        async def always() -> bool:
            return True  # the caller was checked, and the response is short or belongs to its own change

        leaving = wait_for_message(receive, "http.disconnect")
        ending = await self.run(chunks, put, leaving, always)
        if ending is not StreamEnd.LEFT:
            last = closing_message if ending is StreamEnd.STOPPED else b""
            await send({"type": "http.response.body", "body": last})

    async def run(
        self,
        chunks: AsyncGenerator[T, None],
        put: Callable[[T], Awaitable[None]],
        leaving: Awaitable[None],
        allowed: Allowed,
        *,
        remarks: StreamRemarks[T] | None = None,
    ) -> StreamEnd:
        """Sends the pieces of a stream through `put`.

        Checks `allowed` before each piece, and every few seconds while there is none. `leaving` completes
        when the reader disconnects.
        """
        with self.opened() as stopping:
            pumping = _StreamSender(put, allowed, self._quiet, remarks).run(chunks, self._ask)
            pump = asyncio.ensure_future(pumping)
            gone = asyncio.ensure_future(leaving)
            await first_of(pump, gone, asyncio.ensure_future(stopping.wait()))
        ending = StreamEnd.STOPPED if pump.cancelled() else pump.result()
        return ending if gone.cancelled() else StreamEnd.LEFT


async def first_of(*doing: asyncio.Future[Any]) -> None:
    """Waits until one of the futures has completed, and cancels the others. All have ended when this
    returns."""
    try:
        await asyncio.wait(doing, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in doing:
            task.cancel()
        await asyncio.wait(doing)


class _ReaderLeft(Exception):
    """Raised if the reader disconnects while a piece is sent."""


class _StreamSender(Generic[T]):
    """Sends the pieces of one stream, with messages about its state between them."""

    def __init__(
        self,
        put: Callable[[T], Awaitable[None]],
        allowed: Allowed,
        quiet: float,
        remarks: StreamRemarks[T] | None,
    ) -> None:
        self._put, self._allowed, self._quiet, self._remarks = put, allowed, quiet, remarks
        self._clock = asyncio.get_running_loop().time
        self._said_at = self._checked_at = self._clock()
        self._is_unavailable = False

    async def run(self, chunks: AsyncGenerator[T, None], ping_interval: float) -> StreamEnd:
        try:
            async with aclosing(chunks), aclosing(_with_pauses(chunks, ping_interval)) as spoken:
                async for piece in spoken:
                    if (end := await self._pass(piece)) is not None:
                        return end
        except _ReaderLeft:
            return StreamEnd.LEFT
        return StreamEnd.OVER

    async def _pass(self, piece: T | None) -> StreamEnd | None:
        """Sends a piece, or a keep-alive if `piece` is None. Returns the reason if the stream has to end."""
        try:
            may_go_on = await self._allowed()
        except Unavailable:
            # While the permission cannot be checked, the stream stays open but sends no data.
            await self._note_outage()
            return None if piece is None else StreamEnd.UNCHECKED
        if not may_go_on:
            await self._send_piece(self._remarks.refused if self._remarks else None)
            return StreamEnd.REFUSED
        self._checked_at = self._clock()
        if self._is_unavailable:
            self._is_unavailable = False
            await self._send_piece(self._remarks.available if self._remarks else None)
        await self._send_piece(piece)
        await self._send_keep_alive()
        return None

    async def _note_outage(self) -> None:
        if not self._is_unavailable and self._remarks:
            self._is_unavailable = True
            await self._send_piece(self._remarks.unavailable(self._clock() - self._checked_at))
        await self._send_keep_alive()

    async def _send_keep_alive(self) -> None:
        """Sends a keep-alive if the stream has been quiet, for the client and proxies."""
        if self._remarks and self._clock() >= self._said_at + self._quiet:
            await self._send_piece(self._remarks.still_here)

    async def _send_piece(self, piece: T | None) -> None:
        if piece is not None:
            self._said_at = self._clock()
            try:
                await self._put(piece)
            except OSError as error:  # ASGI's message for a disconnected client
                raise _ReaderLeft from error


async def _with_pauses(chunks: AsyncIterator[T], pause: float) -> AsyncGenerator[T | None, None]:
    """Yields the items of an iterator, and None after each `pause` seconds without an item."""
    following = asyncio.ensure_future(anext(chunks, None))
    try:
        while True:
            done, _ = await asyncio.wait([following], timeout=pause)
            if not done:
                yield None
            elif (piece := following.result()) is None:
                return
            else:
                yield piece
                following = asyncio.ensure_future(anext(chunks, None))
    finally:
        following.cancel()
        await asyncio.wait([following])


async def wait_for_message(receive: Receive, message_type: str) -> None:
    while (await receive())["type"] != message_type:
        continue


async def until_gone(operation: Awaitable[T], receive: Receive) -> T:
    """Awaits work for a caller, and cancels the work if the caller disconnects."""
    work = asyncio.ensure_future(operation)
    leaving = asyncio.ensure_future(wait_for_message(receive, "http.disconnect"))
    try:
        await asyncio.wait([work, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise Invalid("The connection was closed before the answer")
        return work.result()
    finally:
        for task in (work, leaving):
            task.cancel()
        await asyncio.gather(work, leaving, return_exceptions=True)
