"""A hijacked connection to the Docker engine, which carries the input and output of a command."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from struct import Struct as Layout
from typing import TYPE_CHECKING, Any, Final, cast

from windlass.docker.client.answers import EngineAnswer, EngineRefused

FRAME_HEAD: Final = Layout(">BxxxI")
MAX_FRAME_BYTES: Final = 1024 * 1024
"""Maximum size of a frame, in bytes. An engine sends at most 16 KB, or the bytes of one write."""


class Frames:
    """Splits received bytes into complete frames. Bytes of an incomplete frame are only collected: an engine
    may send single bytes, and copying all of them for each one would keep the server busy."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._needed = FRAME_HEAD.size
        """Number of bytes with which the next frame is complete, as far as it is known."""

    def feed(self, chunk: bytes) -> list[bytes]:
        self._rest += chunk
        if len(self._rest) < self._needed:
            return []
        data, at, pieces = bytes(self._rest), 0, list[bytes]()
        self._needed = FRAME_HEAD.size
        while len(data) - at >= FRAME_HEAD.size:
            _, length = FRAME_HEAD.unpack_from(data, at)
            if length > MAX_FRAME_BYTES:
                raise EngineRefused(500, f"The Docker engine announces a piece of {length} bytes")
            upto = at + FRAME_HEAD.size + length
            if upto > len(data):
                self._needed = FRAME_HEAD.size + length
                break
            pieces.append(data[at + FRAME_HEAD.size : upto])
            at = upto
        del self._rest[:at]
        return pieces


async def pieces(chunks: AsyncIterable[bytes]) -> AsyncIterator[list[bytes]]:
    """Yields lists of complete frames that arrived together."""
    frames = Frames()
    async for chunk in chunks:
        if complete := frames.feed(chunk):
            yield complete


if TYPE_CHECKING:
    import aiohttp


class RawConnection:
    """The writing side of a hijacked connection. The streamed answer is its reading side."""

    def __init__(self, answer: EngineAnswer) -> None:
        self._response: aiohttp.ClientResponse = answer.response

    async def write(self, data: bytes) -> None:
        """Sends bytes. Waits while the engine does not read. Does nothing after the end of the answer."""
        if (transport := self._transport()) is None:
            return
        transport.write(data)
        connection = self._response.connection
        if connection is not None and connection.protocol is not None:
            # aiohttp's internal flow control: it has no public function for this.
            await cast(Any, connection.protocol)._drain_helper()

    def end(self) -> bool:
        """Closes the writing side, while reading continues. Returns False if half-closing is impossible, for
        example with TLS."""
        transport = self._transport()
        if transport is None:
            return True
        if not transport.can_write_eof():
            return False
        transport.write_eof()
        return True

    def _transport(self) -> asyncio.WriteTransport | None:
        connection = self._response.connection
        transport = connection.transport if connection is not None else None
        if transport is None or transport.is_closing():
            return None
        return cast(asyncio.WriteTransport, transport)
