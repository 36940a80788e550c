"""The load: 32 connections, each sending a request as soon as the answer to its last one is complete.

A process of its own on a core of its own, without pipelining. All that it does for a request is to send bytes
made beforehand and to count the answer by its Content-Length, so that it is faster than any server here.
It tells how busy it was: near 100 %, it would measure itself. It is told when to go on and for how long; in
between the connections rest, with nothing on its way.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import ssl
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import uvloop
from msgspec import Struct

from bench.machine import LOAD_CORE, Asked, computed

CONNECTIONS = 32
NUMBER = "@@@@@@@@"
"""Replaced by a number from 1 on that no other request of this load has."""

_LENGTH = b"content-length: "  # in lower case, as uvicorn sends what an application says
_PROXIED = b"Content-Length: "  # as proxies send it


class Load(Struct, frozen=True, kw_only=True):
    port: int
    pid: int
    """Of the server, whose time is taken too."""
    requests: Sequence[str]
    """Sent in turn, again and again."""
    connections: int = CONNECTIONS
    tls: str = ""
    """The host name that connections ask for; empty for connections without TLS."""


class Loaded(Struct, frozen=True):
    """What came of a load, and the seconds that went by and that were computed."""

    answers: int
    seconds: float
    own: float = 0.0
    """By the generator."""
    served: float = 0.0
    """By the server."""

    @property
    def rate(self) -> float:
        return self.answers / self.seconds

    @property
    def cost(self) -> float:
        """Of an answer, in µs that the server computed."""
        return self.served / self.answers * 1e6

    @property
    def busy(self) -> float:
        """Which part of the time the generator itself was computing."""
        return self.own / self.seconds

    @property
    def held(self) -> float:
        """Which part of the time the server was: near 1, unless it had to wait or to share its core."""
        return self.served / self.seconds


def together(parts: Sequence[Loaded]) -> Loaded:
    return Loaded(*(sum(numbers) for numbers in zip(*map(msgspec.structs.astuple, parts), strict=True)))


class Refused(Exception):
    """An answer that was no success: what was measured would mean nothing."""


class Loading:
    """A load from a process of its own."""

    def __init__(self, load: Load) -> None:
        self._process = Asked("bench.load", load, LOAD_CORE)
        self.close = self._process.close

    def turn(self, seconds: float) -> Loaded:
        return self._process.ask(seconds, Loaded)


class Generator:
    """The connections of a load, and what is counted on them."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self.requests = _endless(load)
        self._clients: list[Client] = []
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._rest: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.going = False
        self.answers = self.on_the_way = 0

    async def connect(self) -> None:
        loop = asyncio.get_running_loop()
        name = self._load.tls
        options: dict[str, Any] = {"ssl": _trusting_context(), "server_hostname": name} if name else {}
        for _ in range(self._load.connections):
            _, client = await loop.create_connection(
                lambda: Client(self), "127.0.0.1", self._load.port, **options
            )
            self._clients.append(client)

    def close(self) -> None:
        self._failure.cancel()  # from here on, none is one
        for client in self._clients:
            client.abort()

    async def put(self, seconds: float) -> Loaded:
        """From the first request to the last answer: whoever is still waiting for one when the time is over
        gets it, so that a short turn counts as fairly as a long one."""
        self.answers, self._rest = 0, asyncio.get_running_loop().create_future()
        began, self.going = self._times(), True
        for client in self._clients:
            client.ask()
        await asyncio.wait([self._failure], timeout=seconds)
        self.going = False
        await asyncio.wait([self._failure, self._rest], return_when=asyncio.FIRST_COMPLETED)
        if self._failure.done():
            self._failure.result()
        return Loaded(self.answers, *(now - then for now, then in zip(self._times(), began, strict=True)))

    def _times(self) -> tuple[float, float, float]:
        return time.perf_counter(), time.process_time(), computed(self._load.pid)

    def rests(self) -> None:
        if self.on_the_way == 0:
            self._rest.set_result(None)

    def fail(self, reason: str) -> None:
        if not self._failure.done():
            self._failure.set_exception(Refused(reason))


class Client(asyncio.Protocol):
    def __init__(self, generator: Generator) -> None:
        self._generator = generator
        self._begun = b""

    def connection_made(self, transport: Any) -> None:
        self._write = transport.write
        self.abort = transport.abort

    def ask(self) -> None:
        self._generator.on_the_way += 1
        self._write(next(self._generator.requests))

    def data_received(self, data: bytes) -> None:
        answer = self._begun + data if self._begun else data
        if not is_complete(answer):
            self._begun = answer
            return
        self._begun = b""
        generator = self._generator
        if answer[9] != ord("2"):
            generator.fail(answer[:1000].decode("latin-1"))
            return
        generator.answers += 1
        if generator.going:
            self._write(next(generator.requests))
        else:
            generator.on_the_way -= 1
            generator.rests()

    def connection_lost(self, exc: Exception | None) -> None:
        self._generator.fail(f"the server closed a connection: {exc}")


def is_complete(answer: bytes) -> bool:
    head = answer.find(b"\r\n\r\n")
    if head < 0:
        return False
    at = answer.find(_LENGTH, 0, head) + len(_LENGTH)
    if at < len(_LENGTH):
        at = answer.find(_PROXIED, 0, head) + len(_PROXIED)
    if at < len(_LENGTH):
        raise Refused("an answer without content-length")
    return len(answer) >= head + 4 + int(answer[at : answer.find(b"\r", at)])


def _trusting_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _endless(load: Load) -> Iterator[bytes]:
    requests = [request.encode() for request in load.requests]
    if NUMBER not in load.requests[0]:
        return itertools.cycle(requests)
    before, after = requests[0].split(NUMBER.encode())
    return (b"%b%08x%b" % (before, number, after) for number in itertools.count(1))


async def serve(load: Load, questions: Iterable[bytes]) -> None:
    """Waits for the next question with the whole loop: nothing is on its way meanwhile."""
    generator = Generator(load)
    await generator.connect()
    for seconds in questions:
        answer = await generator.put(msgspec.json.decode(seconds, type=float))
        sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
        sys.stdout.buffer.flush()
    generator.close()


if __name__ == "__main__":
    gc.freeze()
    given = msgspec.json.decode(sys.stdin.buffer.readline(), type=Load)
    uvloop.run(serve(given, sys.stdin.buffer))
