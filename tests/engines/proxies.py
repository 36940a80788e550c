"""Docker engines that are away for a while: a socket before one that can be closed and opened again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar

from windlass.builders.builder import BuilderUnavailable
from windlass.engines.engine import EngineUnavailable

T = TypeVar("T")


async def run_when_available(call: Callable[[], Awaitable[T]]) -> T:
    """Repeats a call until the engine is back; a connection from before may still end one with it."""
    async with asyncio.timeout(60):
        while True:
            with suppress(EngineUnavailable, BuilderUnavailable):
                return await call()
            await asyncio.sleep(0.05)


class Proxy:
    def __init__(self, engine: Path, socket: Path) -> None:
        self._engine = engine
        self._socket = socket
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self.host = f"unix://{socket}"

    async def appear(self) -> None:
        self._server = await asyncio.start_unix_server(self._serve, self._socket)

    async def vanish(self) -> None:
        """With every connection there is."""
        if self._server:
            self._server.close()
            self._socket.unlink(missing_ok=True)
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._open.add(task)
        other: asyncio.StreamWriter | None = None
        try:
            there, other = await asyncio.open_unix_connection(self._engine)
            await asyncio.gather(_carry(reader, other), _carry(there, writer))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            for each in (writer, other):
                if each:
                    each.transport.abort()
            self._open.discard(task)


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(65_536):
        writer.write(piece)
        await writer.drain()
    with suppress(OSError, RuntimeError):
        writer.write_eof()


@asynccontextmanager
async def proxied(engine: Path, folder: Path) -> AsyncIterator[Proxy]:
    proxy = Proxy(engine, folder / "proxy.sock")
    await proxy.appear()
    try:
        yield proxy
    finally:
        await proxy.vanish()
