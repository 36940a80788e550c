"""A connection that the Docker engine hands over to a command: bytes in both directions, without HTTP."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from windlass.docker.answers import EngineAnswer

if TYPE_CHECKING:
    import aiohttp


class RawConnection:
    """Writes to the connection of an answer that goes on until its end. The answer itself is what is read."""

    def __init__(self, answer: EngineAnswer) -> None:
        self._response: aiohttp.ClientResponse = answer.response

    async def write(self, data: bytes) -> None:
        """Sends bytes. Waits while the engine does not read; does nothing after the end of the answer."""
        if (transport := self._transport()) is None:
            return
        transport.write(data)
        connection = self._response.connection
        if connection is not None and connection.protocol is not None:
            # The flow control of aiohttp, which it keeps for its own requests.
            await cast(Any, connection.protocol)._drain_helper()

    def end(self) -> bool:
        """Ends what is written, and goes on reading. False if the connection cannot: TLS has no such end."""
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
