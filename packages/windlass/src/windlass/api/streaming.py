"""Streamed answers, which end when the client disconnects, when nothing more can come, or when the server
stops: as server-sent events here, and as frames of a websocket in `sockets`.

A stream of events ends as a whole, with the end of its chunked body, unless something went wrong: then the
connection just ends, and the client knows that it has not seen everything.
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

EVENTS: Final = (b"content-type", b"text/event-stream")
STILL_HERE: Final = b": still here\n\n"
QUIET: Final = 15.0
"""Seconds without an event after which a comment keeps the stream alive for the client and proxies."""

ASK: Final = 5.0
"""Seconds without an event after which the rights of the reader are checked again."""

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
    """The messages about a stream itself, which are sent between its pieces."""

    still_here: T
    unavailable: Callable[[float], T]
    """Creates the message that the database cannot be read, from the seconds since the last read."""
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
    """All open streams."""

    def __init__(self, quiet: float = QUIET, ask: float = ASK) -> None:
        self._quiet = quiet
        self._ask = min(ask, quiet)
        self._open: set[asyncio.Event] = set()
        self._stopping = False

    def __len__(self) -> int:
        return len(self._open)

    def stop(self) -> None:
        """Ends all streams, and refuses new ones."""
        self._stopping = True
        for ending in self._open:
            ending.set()

    @contextmanager
    def opened(self) -> Iterator[asyncio.Event]:
        """Counts a stream as open. The event is set when the server stops."""
        stopping = asyncio.Event()
        self._open.add(stopping)
        if self._stopping:
            stopping.set()
        try:
            yield stopping
        finally:
            self._open.discard(stopping)

    async def events(
        self, pieces: AsyncGenerator[bytes, None], receive: Receive, send: Send, allowed: Allowed
    ) -> None:
        """Sends the body of an answer whose head has been sent."""

        async def put(piece: bytes) -> None:
            await send({"type": "http.response.body", "body": piece, "more_body": True})

        with suppress(OSError):  # the client has disconnected, which `left` finds out
            await put(b"")  # the head waits for the first piece of the body, and that may be long in coming
        leaving = wait_for_message(receive, "http.disconnect")
        ending = await self.run(pieces, put, leaving, allowed, remarks=_EVENT_REMARKS)
        if ending is not StreamEnd.LEFT:
            await send({"type": "http.response.body", "body": b""})

    async def run(
        self,
        pieces: AsyncGenerator[T, None],
        put: Callable[[T], Awaitable[None]],
        leaving: Awaitable[None],
        allowed: Allowed,
        *,
        remarks: StreamRemarks[T] | None = None,
    ) -> StreamEnd:
        """Sends one piece after the other. Calls `allowed` before each piece, and every few seconds
        without one. `leaving` ends when the reader disconnects."""
        with self.opened() as stopping:
            pumping = _Pump(put, allowed, self._quiet, remarks).run(pieces, self._ask)
            pump = asyncio.ensure_future(pumping)
            gone = asyncio.ensure_future(leaving)
            await first_of(pump, gone, asyncio.ensure_future(stopping.wait()))
        ending = StreamEnd.STOPPED if pump.cancelled() else pump.result()
        return ending if gone.cancelled() else StreamEnd.LEFT


async def first_of(*doing: asyncio.Future[Any]) -> None:
    """Waits until one of them has ended, and cancels the others; all have ended when this returns."""
    try:
        await asyncio.wait(doing, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in doing:
            task.cancel()
        await asyncio.wait(doing)


class _ReaderLeft(Exception):
    """The reader has left while a piece was put."""


class _Pump(Generic[T]):
    """Sends the pieces of one stream, with remarks for the reader between them."""

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

    async def run(self, pieces: AsyncGenerator[T, None], ask: float) -> StreamEnd:
        try:
            async with aclosing(pieces), aclosing(_with_pauses(pieces, ask)) as spoken:
                async for piece in spoken:
                    if (end := await self._pass(piece)) is not None:
                        return end
        except _ReaderLeft:
            return StreamEnd.LEFT
        return StreamEnd.OVER

    async def _pass(self, piece: T | None) -> StreamEnd | None:
        """Sends a piece, or a remark in a pause. Returns the end of the stream, if this is it."""
        try:
            may_go_on = await self._allowed()
        except Unavailable:
            # The stream stays open while the reader cannot be checked, but sends no data.
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
        """Sends a keep-alive on a quiet stream, for the client and for proxies."""
        if self._remarks and self._clock() >= self._said_at + self._quiet:
            await self._send_piece(self._remarks.still_here)

    async def _send_piece(self, piece: T | None) -> None:
        if piece is not None:
            self._said_at = self._clock()
            try:
                await self._put(piece)
            except OSError as error:  # ASGI's message for a disconnected client
                raise _ReaderLeft from error


async def _with_pauses(pieces: AsyncIterator[T], pause: float) -> AsyncGenerator[T | None, None]:
    """Yields each piece of the stream, and None after each `pause` seconds without one."""
    following = asyncio.ensure_future(anext(pieces, None))
    try:
        while True:
            done, _ = await asyncio.wait([following], timeout=pause)
            if not done:
                yield None
            elif (piece := following.result()) is None:
                return
            else:
                yield piece
                following = asyncio.ensure_future(anext(pieces, None))
    finally:
        following.cancel()
        await asyncio.wait([following])


async def wait_for_message(receive: Receive, word: str) -> None:
    while (await receive())["type"] != word:
        continue


async def until_gone(doing: Awaitable[T], receive: Receive) -> T:
    """Awaits the work for a caller, and cancels it as soon as the caller hangs up."""
    work = asyncio.ensure_future(doing)
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
