"""A way to a PostgreSQL that can be held up: packets arrive later or never, and no connection is closed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from urllib.parse import parse_qs, urlsplit


class Way:
    """Passes bytes on over TCP, unless it is held up."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        (self._folder,) = parse_qs(parts.query)["host"]
        self._user, self._database = parts.username, parts.path
        self.free = asyncio.Event()
        self.free.set()
        self.port = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"postgresql://{self._user}@127.0.0.1:{self.port}{self._database}"

    async def come(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._tasks.add(task)
        there, back = await asyncio.open_unix_connection(f"{self._folder}/.s.PGSQL.5432")
        with contextlib.suppress(asyncio.CancelledError, OSError):
            await asyncio.gather(self._pass(reader, back), self._pass(there, writer))
        for end in (writer, back):
            end.transport.abort()

    async def _pass(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while piece := await source.read(65536):
            await self.free.wait()
            target.write(piece)
        target.close()

    def end(self) -> None:
        for task in self._tasks:
            task.cancel()


@contextlib.asynccontextmanager
async def way_to(url: str) -> AsyncIterator[Way]:
    way = Way(url)
    server = await asyncio.start_server(way.come, "127.0.0.1", 0)
    way.port = server.sockets[0].getsockname()[1]
    try:
        yield way
    finally:
        server.close()
        way.end()
