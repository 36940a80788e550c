"""A world behind a socket, as `windlass serve` puts it there, without the signals."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import uvicorn

from tests.world import World
from windlass.serve.server import ApiServer, listen, protocols


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
        timeout_graceful_shutdown=1,
    )
    server = ApiServer(config, ready.set, world.installation.app.stop_streams)
    address = f"http://127.0.0.1:{listening.getsockname()[1]}"
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        await ready.wait()
        yield address
    finally:
        server.should_exit = True
        await serving
