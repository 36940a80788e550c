"""A trivial application, the built-in router before it, and the router with a static site, each a process of
its own.

`python -m bench.routed application '[port]'`, `python -m bench.routed router '[port, port behind]'`,
`python -m bench.routed site '[port, folder]'`, and the router with HTTPS and a certificate:
`python -m bench.routed https_router '[port, port behind, HTTPS port, file]'`.
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
from windlass.routers.router import Certificate, Endpoint, Route
from windlass.routers.sites.publish import SiteSettings, publish

_SECURE_NAME = "bench.test"
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


async def https_router(port: int, behind: int, https_port: int, pair: str) -> None:
    pem = Path(pair).read_bytes()
    certificate = Certificate((_SECURE_NAME,), pem, pem)
    await _route(port, https_port, certificate, endpoints=(Endpoint("127.0.0.1", behind),))


async def site(port: int, folder: str) -> None:
    release = Path(folder, "release")
    release.mkdir()
    publish(Path(folder, "files"), SiteSettings(), release)
    await _route(port, site=str(release))


async def _route(port: int, https_port: int = 0, certificate: Certificate | None = None, **to: Any) -> None:
    serving = BuiltinRouter("127.0.0.1", port, https_port=https_port)
    await serving.start()
    if certificate is not None:
        await serving.put_certificate("bench", certificate)
    hosts = "127.0.0.1", _SECURE_NAME
    route = Route(service="bench", port="p1", title="Bench", kind="http", hosts=hosts, **to)
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
    "https_router": https_router,
    "site": site,
}

if __name__ == "__main__":
    uvloop.run(_PROGRAMS[sys.argv[1]](*json.loads(sys.argv[2])))
