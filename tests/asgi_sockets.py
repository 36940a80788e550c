"""Websockets of a world, as a server of ASGI would hand them over: without a connection."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, MutableMapping
from typing import Any

from tests.world import Answer, World


class WorldSocket:
    """One websocket: what the server sends waits in `messages`."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()
        self.sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.sent.put_nowait({"type": "websocket.connect"})

    def send(self, data: bytes | str | dict[str, Any]) -> None:
        match data:
            case bytes():
                self.sent.put_nowait({"type": "websocket.receive", "bytes": data})
            case dict():
                self.sent.put_nowait({"type": "websocket.receive", "text": json.dumps(data)})
            case text:
                self.sent.put_nowait({"type": "websocket.receive", "text": text})

    def leave(self) -> None:
        self.sent.put_nowait({"type": "websocket.disconnect", "code": 1001})

    async def next(self) -> MutableMapping[str, Any]:
        async with asyncio.timeout(20):
            return await self.messages.get()

    async def output(self) -> bytes:
        message = await self.next()
        assert message["type"] == "websocket.send", message
        return bytes(message["bytes"])

    async def closed(self) -> tuple[dict[str, Any] | None, int, str]:
        """The last text, if there is one, with the close code and its reason."""
        text = None
        while (message := await self.next())["type"] != "websocket.close":
            if message.get("text"):
                text = json.loads(message["text"])
        return text, message["code"], message["reason"]

    async def answer(self) -> Answer:
        """The answer of a websocket that was refused."""
        start, body = await self.next(), await self.next()
        assert start["type"] == "websocket.http.response.start", start
        headers = {name.decode(): value.decode() for name, value in start["headers"]}
        return Answer(start["status"], headers, body["body"])


@contextlib.asynccontextmanager
async def opening(
    world: World, path: str, token: str | None = None, **headers: str
) -> AsyncIterator[WorldSocket]:
    """A websocket that was asked for: the first message says whether it was accepted."""
    socket = WorldSocket()
    path, _, query = path.partition("?")
    given = {"authorization": f"Token {token or world.token}", **headers}
    scope = {
        "type": "websocket",
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        "client": ("203.0.113.7", 50_000),
    }

    async def put(message: MutableMapping[str, Any]) -> None:
        socket.messages.put_nowait(message)

    running = asyncio.ensure_future(world.installation.app(scope, socket.sent.get, put))
    try:
        yield socket
    finally:
        socket.leave()
        async with asyncio.timeout(20):
            await running


@contextlib.asynccontextmanager
async def opened(world: World, path: str, token: str | None = None) -> AsyncIterator[WorldSocket]:
    async with opening(world, path, token) as socket:
        first = await socket.next()
        assert first["type"] == "websocket.accept", first
        yield socket
