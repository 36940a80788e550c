"""Answers that go on: server-sent events, until one of the two has enough or the server stops.

A stream ends as a whole, with the end of its chunked body, unless something went wrong: then the connection
just ends, and the client knows that it has not seen everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Final

EVENTS: Final = (b"content-type", b"text/event-stream")
STILL_HERE: Final = b": still here\n\n"
QUIET: Final = 15.0
"""Seconds after which a client, and whoever stands between, is told that there is only nothing to say."""

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


class Streams:
    """All that are open."""

    def __init__(self, quiet: float = QUIET) -> None:
        self._quiet = quiet
        self._open: set[asyncio.Event] = set()
        self._stopping = False

    def __len__(self) -> int:
        return len(self._open)

    def stop(self) -> None:
        """Ends them all, and whichever is still to come at once."""
        self._stopping = True
        for ending in self._open:
            ending.set()

    async def run(
        self,
        pieces: AsyncGenerator[bytes, None],
        receive: Receive,
        send: Send,
        allowed: Callable[[], Awaitable[bool]],
    ) -> None:
        """Sends the body of an answer whose head has been sent; `allowed` is asked before each piece."""
        ending = asyncio.Event()
        self._open.add(ending)
        if self._stopping:
            ending.set()
        doing = [
            asyncio.ensure_future(part)
            for part in (_pump(pieces, self._quiet, send, allowed), _hung_up(receive), ending.wait())
        ]
        try:
            await asyncio.wait(doing, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._open.discard(ending)
            for task in doing:
                task.cancel()
            await asyncio.wait(doing)
        pump, hung_up, _ = doing
        if not pump.cancelled():
            pump.result()
        if hung_up.cancelled():
            await send({"type": "http.response.body", "body": b""})


async def _pump(
    pieces: AsyncGenerator[bytes, None], quiet: float, send: Send, allowed: Callable[[], Awaitable[bool]]
) -> None:
    async with aclosing(pieces), aclosing(_never_quiet(pieces, quiet)) as spoken:
        async for piece in spoken:
            if piece is not STILL_HERE and not await allowed():
                return
            await send({"type": "http.response.body", "body": piece, "more_body": True})


async def _never_quiet(pieces: AsyncIterator[bytes], quiet: float) -> AsyncGenerator[bytes, None]:
    following = asyncio.ensure_future(anext(pieces, None))
    try:
        while True:
            done, _ = await asyncio.wait([following], timeout=quiet)
            if not done:
                yield STILL_HERE
            elif (piece := following.result()) is None:
                return
            else:
                yield piece
                following = asyncio.ensure_future(anext(pieces, None))
    finally:
        following.cancel()
        await asyncio.wait([following])


async def _hung_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
