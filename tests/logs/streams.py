"""Clients of streams, and lines for them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import urllib.request
from collections.abc import AsyncIterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.world import ADMIN, World
from windlass.engines.workload import OutputLine

FOLLOW = "/log?follow=true"


def say(world: World, service: str, *lines: str, at: int | None = None) -> None:
    """Writes output of a service into its log."""
    now = world.clock.now() if at is None else at
    world.installation.ctx.logs.take(service, [OutputLine(now, line, "pod-1", "7") for line in lines])


def messages(answer: Any) -> list[str]:
    return [line["message"] for line in answer["results"]]


async def log(world: World, app: str, query: str = "") -> list[str]:
    answer = await world.get(f"/application/{app}/log?{query}")
    assert answer.status == 200, answer
    return messages(answer)


class Event(NamedTuple):
    kind: str
    id: str
    data: Any


class Client:
    """Reads server-sent events from a chunked body, as they come."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._text = b""
        self.status = 0
        self.headers: dict[str, str] = {}
        self.ended = False
        """True if the body came to its end, and did not just break off."""
        self.comments = 0
        self.place = ""
        """The id that came last without an event."""

    async def start(self, method: str, path: str, headers: dict[str, str]) -> None:
        lines = [f"{method} {path} HTTP/1.1", "host: here", *(f"{k}: {v}" for k, v in headers.items())]
        self._writer.write("\r\n".join([*lines, "", ""]).encode())
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        self.status = int(head[0].split()[1])
        self.headers = dict(line.split(": ", 1) for line in head[1:] if line)

    async def _chunk(self) -> bool:
        size = int(await self._reader.readuntil(b"\r\n"), 16)
        self._text += (await self._reader.readexactly(size + 2))[:-2]
        self.ended = size == 0
        return size > 0

    async def events(self, count: int) -> list[Event]:
        found: list[Event] = []
        async with asyncio.timeout(20):
            while len(found) < count:
                while b"\n\n" not in self._text:
                    if not await self._chunk():
                        return found
                block, _, self._text = self._text.partition(b"\n\n")
                if block.startswith(b":"):
                    self.comments += 1
                elif b"data: " not in block:
                    self.place = block.decode().removeprefix("id: ")
                else:
                    fields = dict(line.split(": ", 1) for line in block.decode().split("\n"))
                    found.append(
                        Event(fields.get("event", ""), fields.get("id", ""), json.loads(fields["data"]))
                    )
        return found

    async def lines(self, count: int) -> list[str]:
        return [event.data["message"] for event in await self.events(count)]

    async def mark(self) -> str:
        """The next id that comes without an event."""
        before, self.place = self.place, ""
        async with asyncio.timeout(20):
            while not self.place:
                while b"\n\n" not in self._text:
                    assert await self._chunk(), before
                block, _, self._text = self._text.partition(b"\n\n")
                self.place = block.decode().removeprefix("id: ")
        return self.place

    async def rest(self) -> list[Event]:
        return await self.events(sys.maxsize)

    async def raw(self, least: int) -> bytes:
        """At least so many, with whatever was sent together with them; as the body is sent, in chunks."""
        found = b""
        async with asyncio.timeout(20):
            while len(found) < least:
                found += await self._reader.read(least - len(found))
        return found

    async def rest_of_body(self) -> bytes:
        return await self._reader.read()

    def hang_up(self) -> None:
        self._writer.close()


@contextlib.asynccontextmanager
async def asked(
    address: str, path: str, method: str = "GET", token: str = ADMIN, **headers: str
) -> AsyncIterator[Client]:
    where = urlsplit(address)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    client = Client(reader, writer)
    try:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        async with asyncio.timeout(20):
            await client.start(method, path, {"authorization": f"Token {token}"} | given)
        yield client
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def settled(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 (the server does not notify)
            await asyncio.sleep(0.002)


def following(world: World) -> int:
    return sum(len(each) for each in world.installation.ctx.logs._segments._followers.values())


def make_application(address: str) -> str:
    def call(path: str, body: Any = None) -> Any:
        headers = {"authorization": f"Token {ADMIN}", "content-type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(address + path, data, headers)) as answer:
            return json.loads(answer.read())

    org = call("/organization")["id"]
    project = call(f"/organization/{org}/project", {"name": "p"})["id"]
    environment = call(f"/project/{project}/environment", {"name": "e"})["id"]
    repository = {"url": "https://git.example/acme/shop.git", "branch": "main"}
    body = {"name": "a", "git_repository": repository}
    return str(call(f"/environment/{environment}/application", body)["id"])
