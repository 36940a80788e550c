"""Applications do not notice restarts, crashes and an upgrade: 10,000 requests, websockets and a download."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from functools import partial
from urllib.parse import urlsplit

import pytest

from tests.gateway.gateway_town import processes_of
from tests.gateway.routers.town import Caller, request
from tests.routing.test_restarting import _seen, application
from tests.whole import Visitors, place, until
from windlass.gateway.files import GATEWAY_FOLDER
from windlass.gateway.starting import start_gateway

REQUESTS, SECONDS = 10_000, 60
PIECE = 1000
APP = f"""
import asyncio, os

async def serve(reader, writer):
    while head := await reader.readuntil(b"\\r\\n\\r\\n"):
        if b"Upgrade: websocket" in head:
            writer.write(b"HTTP/1.1 101 Switching\\r\\n")
            writer.write(b"Upgrade: websocket\\r\\nConnection: upgrade\\r\\n\\r\\n")
            while data := await reader.read(100):
                writer.write(data)
        elif b"/download" in head:
            writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n" % ({SECONDS} * 10 * {PIECE}))
            for _ in range({SECONDS} * 10):
                writer.write(b"x" * {PIECE})
                await asyncio.sleep(0.1)
        else:
            writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nme")
        await writer.drain()

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", int(os.environ["PORT"]))
    await server.serve_forever()

asyncio.run(main())
"""


@contextlib.asynccontextmanager
async def caller(url: str, path: str, *fields: str) -> AsyncIterator[Caller]:
    """A client that has sent a request, and the head of its answer."""
    at = urlsplit(url)
    made = Caller(*await asyncio.open_connection("127.0.0.1", at.port))
    await made.send(request(path, "GET", at.netloc, *fields))
    await made.reader.readuntil(b"\r\n\r\n")
    yield made
    await made.close()


async def echoes(socket: Caller, word: bytes) -> None:
    await socket.send(word)
    assert await socket.reader.readexactly(len(word)) == word


@pytest.mark.nightly
@pytest.mark.timeout(600)
async def test_no_request_websocket_or_download_fails_while_everything_restarts():
    upgrade = "Upgrade: websocket", "Connection: upgrade"
    async with place("process") as there, application(there, APP) as (server, _, url):
        folder = there.folder / GATEWAY_FOLDER
        async with caller(url, "/ws", *upgrade) as socket, caller(url, "/download") as client:
            download = asyncio.create_task(client.reader.readexactly(SECONDS * 10 * PIECE))
            async with Visitors(url) as visitors:
                for number in (signal.SIGTERM, signal.SIGKILL):
                    await server.end(number)
                    await until(partial(_seen, visitors, len(visitors.pages) + 100))
                    await server.start()
                    await echoes(socket, number.name.encode())
                before = processes_of(folder)
                start_gateway(folder)
                await until(partial(_is_replaced, folder, before))
                await echoes(socket, b"upgrade")
                assert await download == b"x" * (SECONDS * 10 * PIECE)
                while len(visitors.pages) < REQUESTS:  # noqa: ASYNC110 (the visitors are threads)
                    await asyncio.sleep(0.1)
                await echoes(socket, b"end")
            assert len(visitors.pages) >= REQUESTS
            assert {answer.status for answer in visitors.pages} == {200}
            assert all(visitors.seen)
        await server.end(signal.SIGTERM)


async def _is_replaced(folder, before) -> bool:
    return bool({*processes_of(folder)} - {*before})
