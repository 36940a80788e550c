"""A receiver of webhooks that costs as little as can be: it answers with the moment at which it was reached.

It prints its ports: of the one who answers, and of one who takes connections and never says a word.
"""

from __future__ import annotations

import asyncio
import time
from typing import cast

import uvloop

_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n%020d"


class Quick(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(
            asyncio.Transport, transport
        )  # that of uvloop says so by nothing but its methods
        self._missing, self._head, self._began = 0, b"", 0

    def data_received(self, data: bytes) -> None:
        if self._missing:
            self._missing -= len(data)
        else:
            self._began = self._began or time.monotonic_ns()
            self._head += data
            head, end, body = self._head.partition(b"\r\n\r\n")
            if not end:
                return
            length = head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]
            self._head, self._missing = b"", int(length or 0) - len(body)
        if self._missing <= 0:
            self._transport.write(_ANSWER % self._began)
            self._missing, self._began = 0, 0


class Dead(asyncio.Protocol):
    """Whoever calls it waits."""


async def main() -> None:
    loop = asyncio.get_running_loop()
    servers = [await loop.create_server(kind, "127.0.0.1", 0) for kind in (Quick, Dead)]
    print(*(server.sockets[0].getsockname()[1] for server in servers), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main())
