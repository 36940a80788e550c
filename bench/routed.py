"""A trivial application and the built-in router before it, each a process of its own.

`python -m bench.routed application '[port]'`, `python -m bench.routed router '[port, port behind]'`.
"""

from __future__ import annotations

import asyncio
import gc
import json
import signal
import sys
from typing import Any

import uvloop

from windlass.routers.builtin import BuiltinRouter
from windlass.routers.router import Endpoint, Route

_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 13\r\ncontent-type: text/plain\r\n\r\nHello, world!"


class Application(asyncio.Protocol):
    """Sends its answer for each request, looking at none: as little as a server can do."""

    def connection_made(self, transport: Any) -> None:
        self._write = transport.write

    def data_received(self, data: bytes) -> None:
        self._write(_ANSWER)


async def application(port: int) -> None:
    await asyncio.get_running_loop().create_server(Application, "127.0.0.1", port)
    await _until_told()


async def router(port: int, behind: int) -> None:
    serving = BuiltinRouter("127.0.0.1", port)
    await serving.start()
    route = Route(
        service="bench",
        port="p1",
        title="Bench",
        kind="http",
        hosts=("127.0.0.1",),
        endpoints=(Endpoint("127.0.0.1", behind),),
    )
    await serving.set("bench", [route])
    await _until_told()
    await serving.stop()


async def _until_told() -> None:
    gc.freeze()
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    await told.wait()


if __name__ == "__main__":
    what, ports = sys.argv[1], json.loads(sys.argv[2])
    uvloop.run(application(*ports) if what == "application" else router(*ports))
