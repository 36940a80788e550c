"""The load: 32 connections, each sending a request as soon as the answer to its last one is complete.

A process of its own on a core of its own, without pipelining. All that it does for a request is to send bytes
made beforehand and to count the answer by its Content-Length, so that it is faster than any server here.
It tells how busy it was: near 100 %, it would measure itself.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import uvloop
from msgspec import Struct

from bench.machine import LOAD_CORE, computed, run_module

CONNECTIONS = 32
NUMBER = "@@@@@@@@"
"""Replaced by a number that no other request of this load has."""

_LENGTH = b"content-length: "  # in lower case, as uvicorn sends what an application says
_PROXIED = b"Content-Length: "  # as proxies send it


class Load(Struct, frozen=True, kw_only=True):
    port: int
    pid: int
    """Of the server, whose time is taken too."""
    requests: Sequence[str]
    """Sent in turn, again and again."""
    seconds: float
    warm_up: float = 0.3
    connections: int = CONNECTIONS
    first: int = 0


class Loaded(Struct, frozen=True):
    answers: int
    seconds: float
    busy: float
    """Which part of the time the generator itself was computing."""
    served: float
    """Which part of the time the server was: near 1, unless it had to wait or to share its core."""

    @property
    def rate(self) -> float:
        return self.answers / self.seconds

    @property
    def cost(self) -> float:
        """Of an answer, in µs that the server computed."""
        return self.served * self.seconds / self.answers * 1e6


class Refused(Exception):
    """An answer that was no success: what was measured would mean nothing."""


def measured(load: Load) -> Loaded:
    """Runs a load in a process of its own."""
    answer = run_module("bench.load", msgspec.json.encode(load), LOAD_CORE)
    return msgspec.json.decode(answer, type=Loaded)


async def put(load: Load) -> Loaded:
    loop = asyncio.get_running_loop()
    meter = Meter(load.pid, loop.create_future())
    requests = _endless(load)
    made = [
        (await loop.create_connection(lambda: Client(requests, meter), "127.0.0.1", load.port))[0]
        for _ in range(load.connections)
    ]
    try:
        await asyncio.wait([meter.failure], timeout=load.warm_up)
        meter.begin()
        await asyncio.wait([meter.failure], timeout=load.seconds)
        if meter.failure.done():
            meter.failure.result()
        return meter.end()
    finally:
        meter.over = True
        for transport in made:
            transport.abort()


class Meter:
    """Counts answers, and the time that they took, on the wall, here and there."""

    def __init__(self, pid: int, failure: asyncio.Future[None]) -> None:
        self._pid = pid
        self.failure = failure
        self.over = False
        self.answers = 0
        self._began = (0.0, 0.0, 0.0)

    def begin(self) -> None:
        self.answers, self._began = 0, self._times()

    def end(self) -> Loaded:
        seconds, own, served = (now - then for now, then in zip(self._times(), self._began, strict=True))
        return Loaded(self.answers, seconds, own / seconds, served / seconds)

    def _times(self) -> tuple[float, float, float]:
        return time.perf_counter(), time.process_time(), computed(self._pid)

    def fail(self, reason: str) -> None:
        if not self.over and not self.failure.done():
            self.failure.set_exception(Refused(reason))


class Client(asyncio.Protocol):
    def __init__(self, requests: Iterator[bytes], meter: Meter) -> None:
        self._requests = requests
        self._meter = meter
        self._begun = b""

    def connection_made(self, transport: Any) -> None:
        self._write = transport.write
        self._write(next(self._requests))

    def data_received(self, data: bytes) -> None:
        answer = self._begun + data if self._begun else data
        if not is_complete(answer):
            self._begun = answer
            return
        self._begun = b""
        if answer[9] != ord("2"):
            self._meter.fail(answer[:1000].decode("latin-1"))
            return
        self._meter.answers += 1
        self._write(next(self._requests))

    def connection_lost(self, exc: Exception | None) -> None:
        self._meter.fail(f"the server closed a connection: {exc}")


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


def _endless(load: Load) -> Iterator[bytes]:
    requests = [request.encode() for request in load.requests]
    if NUMBER not in load.requests[0]:
        return itertools.cycle(requests)
    before, after = requests[0].split(NUMBER.encode())
    return (b"%b%08x%b" % (before, number, after) for number in itertools.count(load.first))


def main() -> None:
    gc.freeze()
    load = msgspec.json.decode(sys.stdin.buffer.read(), type=Load)
    sys.stdout.buffer.write(msgspec.json.encode(uvloop.run(put(load))))


if __name__ == "__main__":
    main()
