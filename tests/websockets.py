"""A client of websockets that writes and reads its frames by hand, as RFC 6455 has them."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import struct
from collections.abc import AsyncIterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.world import ADMIN, Answer

TEXT, CLOSE, PING, PONG = 1, 8, 9, 10


class Frame(NamedTuple):
    kind: int
    data: bytes

    @property
    def code(self) -> int:
        return int.from_bytes(self.data[:2], "big")

    @property
    def json(self) -> Any:
        return json.loads(self.data)


def frame(kind: int, data: bytes = b"", *, masked: bool = True, final: bool = True) -> bytes:
    head = bytes([kind | 0x80 * final])
    length = len(data)
    size = bytes([length]) if length < 126 else b"\x7e" + struct.pack("!H", length)
    if not masked:
        return head + size + data
    mask = os.urandom(4)
    covered = bytes(byte ^ mask[place % 4] for place, byte in enumerate(data))
    return head + bytes([size[0] | 0x80]) + size[1:] + mask + covered


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self.answer: Answer
        self.key = base64.b64encode(os.urandom(16)).decode()

    async def open(self, host: str, path: str, method: str, given: dict[str, str | None]) -> None:
        usual: dict[str, str | None] = {
            "host": host,
            "connection": "Upgrade",
            "upgrade": "websocket",
            "sec-websocket-version": "13",
            "sec-websocket-key": self.key,
            "authorization": f"Token {ADMIN}",
        }
        headers = [f"{name}: {value}" for name, value in (usual | given).items() if value is not None]
        self.writer.write("\r\n".join([f"{method} {path} HTTP/1.1", *headers, "", ""]).encode())
        first, *lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        answered = dict(line.lower().split(": ", 1) for line in lines if line)
        body = await self._reader.readexactly(int(answered.get("content-length", "0")))
        self.answer = Answer(int(first.split()[1]), answered, body)

    def send(self, kind: int, data: bytes = b"", **options: bool) -> None:
        self.writer.write(frame(kind, data, **options))

    async def frame(self) -> Frame:
        async with asyncio.timeout(20):
            head = await self._reader.readexactly(2)
            assert head[0] & 0x80, "whole frames are expected"
            assert not head[1] & 0x80, "a server does not mask"
            length = head[1]
            if length == 126:
                length = int.from_bytes(await self._reader.readexactly(2), "big")
            elif length == 127:
                length = int.from_bytes(await self._reader.readexactly(8), "big")
            return Frame(head[0] & 0x0F, await self._reader.readexactly(length))

    async def ended(self) -> bool:
        async with asyncio.timeout(20):
            return await self._reader.read() == b""


@contextlib.asynccontextmanager
async def connected(
    address: str, path: str, method: str = "GET", **headers: str | None
) -> AsyncIterator[Client]:
    place = urlsplit(address)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    client = Client(reader, writer)
    try:
        async with asyncio.timeout(20):
            given = {name.replace("_", "-"): value for name, value in headers.items()}
            await client.open(place.netloc, path, method, given)
        yield client
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
