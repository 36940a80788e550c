"""A trivial application, the built-in router before it, and the router with a static site, each a process of
its own.

`python -m bench.routed application '[port]'`, `python -m bench.routed router '[port, port behind]'`,
`python -m bench.routed site '[port, folder]'`.
"""

from __future__ import annotations

import asyncio
import gc
import json
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

import uvloop

from windlass.routers.builtin import BuiltinRouter
from windlass.routers.router import Endpoint, Route
from windlass.routers.sites.publish import SiteSettings, publish

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
    await _route(port, endpoints=(Endpoint("127.0.0.1", behind),))


async def site(port: int, folder: str) -> None:
    release = Path(folder, "release")
    release.mkdir()
    publish(Path(folder, "files"), SiteSettings(), release)
    await _route(port, site=str(release))


async def _route(port: int, **to: Any) -> None:
    serving = BuiltinRouter("127.0.0.1", port)
    await serving.start()
    route = Route(service="bench", port="p1", title="Bench", kind="http", hosts=("127.0.0.1",), **to)
    await serving.set("bench", [route])
    await _until_told()
    await serving.stop()


async def _until_told() -> None:
    gc.freeze()
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    await told.wait()


_PROGRAMS: Mapping[str, Callable[..., Coroutine[Any, Any, None]]] = {
    "application": application,
    "router": router,
    "site": site,
}

if __name__ == "__main__":
    uvloop.run(_PROGRAMS[sys.argv[1]](*json.loads(sys.argv[2])))
