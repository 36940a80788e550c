"""Answers that go on until the client leaves, nothing more comes, or the server stops: as server-sent events
here, and as frames of a websocket in `sockets`.

A stream of events ends as a whole, with the end of its chunked body, unless something went wrong: then the
connection just ends, and the client knows that it has not seen everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from enum import Enum
from typing import Any, Final, TypeVar

from windlass.base.errors import Invalid, Unavailable

T = TypeVar("T")

EVENTS: Final = (b"content-type", b"text/event-stream")
STILL_HERE: Final = b": still here\n\n"
QUIET: Final = 15.0
"""Seconds without an event after which a comment tells the client, and proxies, that the stream is alive."""

ASK: Final = 5.0
"""Seconds without an event after which the rights of the reader are checked again."""

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Allowed = Callable[[], Awaitable[bool]]


class StreamEnd(Enum):
    OVER = "all is said"
    REFUSED = "the reader may not read it any more"
    STOPPED = "the server stops"
    LEFT = "nobody reads any more"


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
        """Ends all streams, and each further one at once."""
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

        with suppress(OSError):  # the client has gone, which `left` finds out
            await put(b"")  # the head waits for the first piece of the body, and that may be long in coming
        leaving = wait_for_message(receive, "http.disconnect")
        ending = await self.run(pieces, put, leaving, allowed, still_here=STILL_HERE)
        if ending is not StreamEnd.LEFT:
            await send({"type": "http.response.body", "body": b""})

    async def run(
        self,
        pieces: AsyncGenerator[T, None],
        put: Callable[[T], Awaitable[None]],
        leaving: Awaitable[None],
        allowed: Allowed,
        *,
        still_here: T | None = None,
    ) -> StreamEnd:
        """Puts one piece after the other. Asks `allowed` before each, and every few seconds without one.
        `leaving` ends when the reader leaves."""
        with self.opened() as stopping:
            pump = asyncio.ensure_future(_pump(pieces, put, allowed, self._ask, self._quiet, still_here))
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


async def _pump(
    pieces: AsyncGenerator[T, None],
    put: Callable[[T], Awaitable[None]],
    allowed: Allowed,
    ask: float,
    quiet: float,
    still_here: T | None,
) -> StreamEnd:
    clock = asyncio.get_running_loop().time
    said_at = clock()
    async with aclosing(pieces), aclosing(_with_pauses(pieces, ask)) as spoken:
        async for piece in spoken:
            if not await _may_go_on(allowed, tells=piece is not None):
                return StreamEnd.REFUSED
            if piece is None and clock() >= said_at + quiet:
                piece = still_here
            if piece is None:
                continue
            said_at = clock()
            try:
                await put(piece)
            except OSError:  # ASGI's way of saying that the client has gone
                return StreamEnd.LEFT
    return StreamEnd.OVER


async def _may_go_on(allowed: Allowed, *, tells: bool) -> bool:
    """True if the stream may go on. While callers cannot be checked, it may, but without telling anything."""
    try:
        return await allowed()
    except Unavailable:
        return not tells


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
