"""A world behind a socket, as `windlass serve` puts it there, without the signals."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Mapping
from typing import Any

import uvicorn

from tests.world import World
from windlass.serve.server import ApiServer, listen, protocols


class _Server(ApiServer):
    """Ends as soon as it may, where uvicorn looks a few times, each after a tenth of a second."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stopping()
        for server in self.servers:
            server.close()
        for listening in sockets or ():
            listening.close()
        state = self.server_state
        for connection in list(state.connections):
            connection.shutdown()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                while state.connections or state.tasks:  # noqa: ASYNC110 (nothing notifies of a change)
                    await asyncio.sleep(0.002)
        for task in state.tasks:
            task.cancel()


@contextlib.asynccontextmanager
async def served(
    world: World,
    app: Any = None,
    protocol: Mapping[str, Any] | None = None,
    port: int = 0,
    host: str = "127.0.0.1",
) -> AsyncIterator[str]:
    """The address of the world, or of an app that stands before it, as long as the `async with`."""
    listening = listen(host, port)
    ready = asyncio.Event()
    config = uvicorn.Config(
        app or world.installation.app,
        **(protocols(world.installation) | dict(protocol or {})),
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
    )
    server = _Server(config, ready.set, world.installation.app.stop_streams)
    address = f"http://127.0.0.1:{listening.getsockname()[1]}"
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        await ready.wait()
        yield address
    finally:
        server.end()
        await serving
