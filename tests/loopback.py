"""Receivers on loopback: what they hear is kept, and they answer byte for byte as a test says."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Answering = Callable[[bytes], bytes]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Receiver:
    """Counts connections, and keeps the requests that were read."""

    def __init__(self) -> None:
        self.connections = 0
        self.requests: list[bytes] = []
        self.port = 0

    def url(self, host: str = "127.0.0.1", path: str = "/hook", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    async def request(self, reader: asyncio.StreamReader) -> bytes:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next((int(line[15:]) for line in head.split(b"\r\n") if line[:15] == b"Content-Length:"), 0)
        whole = head + await reader.readexactly(length)
        self.requests.append(whole)
        return whole

    def says(self, answer: bytes | Answering) -> Behaviour:
        """The same to each request, or what the function says, and the connection stays."""

        async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                request = await self.request(reader)
                writer.write(answer if isinstance(answer, bytes) else answer(request))

        return behave


@contextlib.asynccontextmanager
async def receiver(
    behave: Behaviour | bytes = OK,
    *,
    answering: Answering | None = None,
    at: Sequence[str] = ("127.0.0.1",),
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[Receiver]:
    made, tasks = Receiver(), set[asyncio.Task[None]]()
    how = behave if callable(behave) else made.says(answering or behave)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        made.connections += 1
        tasks.add(task := asyncio.ensure_future(_one(how, reader, writer)))
        task.add_done_callback(tasks.discard)

    async with contextlib.AsyncExitStack() as open_:
        for address in at:
            server = await asyncio.start_server(serve, address, made.port, ssl=tls)
            made.port = made.port or server.sockets[0].getsockname()[1]
            open_.push_async_callback(server.wait_closed)
            open_.callback(server.close)
        try:
            yield made
        finally:
            for task in list(tasks):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _one(how: Behaviour, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        with contextlib.suppress(OSError, EOFError):  # the caller has hung up
            await how(reader, writer)
    finally:
        writer.transport.abort()
