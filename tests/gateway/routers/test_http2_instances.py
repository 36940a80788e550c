"""Instances that are asked by HTTP/2 and answer wrongly, slowly or in parts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from hpack import Decoder, Encoder

from tests.gateway.routers.http2_caller import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PING,
    PREFACE,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    frame,
)
from tests.gateway.routers.town import Said, Town, request, route, until
from windlass.routers.builtin.http2_instance import Http2Instance
from windlass.routers.router import Endpoint

Answer = Callable[[int], bytes]
"""Returns the frames that answer a stream."""


def block(*fields: tuple[str, str]) -> bytes:
    encoder = Encoder()
    encoder.header_table_size = 0  # so that blocks do not depend on each other
    return encoder.encode(fields)


def head(stream: int, *fields: tuple[str, str], ends: bool = False, status: str = "200") -> bytes:
    flags = END_HEADERS | (END_STREAM if ends else 0)
    return frame(HEADERS, flags, stream, block((":status", status), *fields))


class FrameInstance:
    """Answers each request with the same frames, as soon as its head has come."""

    def __init__(self, answer: Answer, *, grants: bool = True, obeys: bool = True) -> None:
        """`grants`: whether the windows of requests grow. `obeys`: whether answers keep to their windows."""
        self.answer, self._grants, self._obeys = answer, grants, obeys
        self._windows: dict[int, int] = {}
        self._granted = asyncio.Event()
        self.heads: list[list[tuple[str, str]]] = []
        self.bodies: dict[int, bytes] = {}
        self.connections = 0
        self.written = 0

    async def start(self) -> None:
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.endpoint = Endpoint("127.0.0.1", int(self.server.sockets[0].getsockname()[1]))

    async def _serve(self, reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        self.connections += 1
        decoder = Decoder()
        tasks: set[asyncio.Future[None]] = set()
        self._windows = {0: 65_535}
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            assert await reader.readexactly(len(PREFACE)) == PREFACE
            out.write(frame(SETTINGS))
            while True:
                start = await reader.readexactly(9)
                content = await reader.readexactly(int.from_bytes(start[:3]))
                stream = int.from_bytes(start[5:])
                if start[3] == HEADERS:
                    decoded: object = decoder.decode(content)
                    self.heads.append(decoded)  # type: ignore[arg-type]
                    tasks.add(asyncio.ensure_future(self._write(out, self.answer(stream), stream)))
                elif start[3] == WINDOW_UPDATE:
                    self._windows[stream] = self._windows.get(stream, 0) + int.from_bytes(content)
                    self._granted.set()
                elif start[3] == DATA:
                    self.bodies[stream] = self.bodies.get(stream, b"") + content
                    if self._grants and content:
                        size = len(content).to_bytes(4)
                        out.write(frame(WINDOW_UPDATE, 0, 0, size) + frame(WINDOW_UPDATE, 0, stream, size))
        out.transport.abort()
        for task in tasks:
            task.cancel()

    async def _write(self, out: asyncio.StreamWriter, data: bytes, stream: int) -> None:
        at = 0
        while at < len(data):
            size = 9 + int.from_bytes(data[at : at + 3])
            if self._obeys and data[at + 3] == DATA:
                while min(self._windows[0], 262_144 + self._windows.get(stream, 0)) < size:
                    self._granted.clear()
                    await self._granted.wait()
                for window in (0, stream):
                    self._windows[window] = self._windows.get(window, 0) - (size - 9)
            out.write(data[at : at + size])
            at += size
            self.written += size
            with contextlib.suppress(ConnectionError):
                await out.drain()


@contextlib.asynccontextmanager
async def instance_of(town: Town, answer: Answer, **options: bool) -> AsyncIterator[FrameInstance]:
    instance = FrameInstance(answer, **options)
    await instance.start()
    await town.router.set("shop", [route([instance.endpoint], speaks_http2=True)])
    yield instance
    instance.server.close()


def ok(stream: int) -> bytes:
    return head(stream, ("x-mine", "yes")) + frame(DATA, END_STREAM, stream, b"fine")


async def test_clients_of_http1_reach_instances_that_speak_http2(town: Town) -> None:
    async with instance_of(town, ok) as shop:
        caller = await town.caller()
        for _ in range(3):
            said = await caller.ask(
                request("/a?b=1", "POST", "shop.localhost", "Connection: x", "X: 1", body=b"body")
            )
            assert (said.status, said.body, said.fields["x-mine"]) == (200, b"fine", "yes")
        assert shop.connections == 1, "it is kept for the next request"
        fields = dict(shop.heads[0])
        assert (fields[":path"], fields[":authority"], fields[":method"]) == (
            "/a?b=1",
            "shop.localhost",
            "POST",
        )
        assert "connection" not in fields
        assert shop.bodies == {1: b"body", 3: b"body", 5: b"body"}


ANSWERS: dict[str, tuple[Answer, Callable[[Said], bool]]] = {
    "interim heads": (
        lambda stream: head(stream, status="103") + ok(stream),
        lambda said: said.body == b"fine",
    ),
    "no body": (lambda stream: head(stream, ends=True), lambda said: (said.status, said.body) == (200, b"")),
    "no content": (lambda stream: head(stream, status="204", ends=True), lambda said: said.status == 204),
    "a length": (
        lambda stream: head(stream, ("content-length", "4")) + frame(DATA, END_STREAM, stream, b"fine"),
        lambda said: (said.body, said.fields["content-length"]) == (b"fine", "4"),
    ),
    "padding and an empty end": (
        lambda stream: head(stream) + frame(DATA, 8, stream, b"\2ab\0\0") + frame(DATA, END_STREAM, stream),
        lambda said: said.body == b"ab",
    ),
    "a head in parts": (
        lambda stream: (
            frame(HEADERS, 0, stream, block((":status", "200"))[:1])
            + frame(CONTINUATION, END_HEADERS, stream, block((":status", "200"))[1:])
            + frame(DATA, END_STREAM, stream, b"fine")
        ),
        lambda said: said.body == b"fine",
    ),
    "goodbye after the answer": (
        lambda stream: ok(stream) + frame(GOAWAY, content=bytes((0, 0, 0, stream)) + bytes(4)),
        lambda said: said.body == b"fine",
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
async def test_answers_in_frames_become_answers_of_http1(town: Town, name: str) -> None:
    answer, is_right = ANSWERS[name]
    async with instance_of(town, answer):
        caller = await town.caller()
        for _ in range(2):
            said = await caller.ask(request())
            assert is_right(said), said


BROKEN: dict[str, Answer] = {
    "a line break in a value": lambda stream: head(stream, ("x", "a\r\nset-cookie: b")),
    "a line break in a name": lambda stream: head(stream, ("x\r\ny", "a")),
    "a second status": lambda stream: head(stream, (":status", "200")),
    "no status": lambda stream: frame(HEADERS, END_HEADERS, stream, block(("x", "a"))),
    "a switch of protocols": lambda stream: head(stream, status="101"),
    "Transfer-Encoding": lambda stream: head(stream, ("transfer-encoding", "chunked")),
    "two lengths": lambda stream: head(stream, ("content-length", "4"), ("content-length", "5")),
    "a body before the head": lambda stream: frame(DATA, 0, stream, b"x"),
    "a reset": lambda stream: frame(RST_STREAM, 0, stream, bytes(4)),
    "goodbye before the answer": lambda stream: frame(GOAWAY, content=bytes(8)),
    "a push": lambda stream: frame(PUSH_PROMISE, END_HEADERS, stream, bytes(4)),
    "a broken block": lambda stream: frame(HEADERS, END_HEADERS, stream, b"\x40"),
    "a block without an end": lambda stream: (
        frame(HEADERS, 0, stream, block((":status", "200"))) + frame(PING, content=bytes(8))
    ),
    "HTTP/1.1": lambda stream: b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "a flood": lambda stream: frame(PING, content=bytes(8)) * 20_000,
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_answer_is_a_bad_gateway(town: Town, name: str) -> None:
    async with instance_of(town, BROKEN[name]):
        assert (await town.ask(request("/", "POST", body=b"x"))).status == 502


@pytest.mark.parametrize("body", [b"short", b"much too long"])
async def test_an_answer_of_another_length_is_cut_off_or_ends_there(town: Town, body: bytes) -> None:
    def answer(stream: int) -> bytes:
        return head(stream, ("content-length", "10")) + frame(DATA, END_STREAM, stream, body)

    async with instance_of(town, answer):
        caller = await town.caller()
        await caller.send(request())
        assert b"content-length: 10" in (await caller.reader.readuntil(b"\r\n\r\n")).lower()
        if len(body) < 10:
            assert await caller.rest() == body, "and then the connection ends"
        else:
            assert await caller.reader.readexactly(10) == body[:10]


async def test_a_slow_client_holds_back_an_instance_that_speaks_http2(town: Town) -> None:
    size = 30_000_000

    def much(stream: int) -> bytes:
        frames = [frame(DATA, 0, stream, b"x" * 16_000)] * (size // 16_000)
        return head(stream) + b"".join(frames) + frame(DATA, END_STREAM, stream)

    async with instance_of(town, much) as shop:
        caller = await town.caller()
        caller.out.transport.pause_reading()  # type: ignore[attr-defined]
        await caller.send(request())
        before = -1
        while shop.written != before:
            before = shop.written
            await asyncio.sleep(0.2)
        assert shop.written < size, "the rest waits in the instance"
        caller.out.transport.resume_reading()  # type: ignore[attr-defined]
        assert len((await caller.said()).body) == size // 16_000 * 16_000


async def test_an_instance_that_sends_more_than_its_window_is_cut_off(town: Town) -> None:
    """Otherwise the router would have to keep what a slow client does not take."""

    def much(stream: int) -> bytes:
        return head(stream) + frame(DATA, 0, stream, b"x" * 16_000) * 2000 + frame(DATA, END_STREAM, stream)

    async with instance_of(town, much, obeys=False):
        caller = await town.caller()
        caller.out.transport.pause_reading()  # type: ignore[attr-defined]
        await caller.send(request())
        (peer,) = town.router._shared.peers.values()
        await until(lambda: peer.active)
        await until(lambda: not peer.active)
        caller.out.transport.resume_reading()  # type: ignore[attr-defined]
        assert not (await caller.rest()).endswith(b"0\r\n\r\n")


async def test_an_instance_that_grants_no_window_holds_back_its_client(town: Town) -> None:
    async with instance_of(town, lambda stream: b"", grants=False) as shop:
        caller = await town.caller()
        await caller.send(request("/", "POST", "shop.localhost", "Content-Length: 30000000"))
        sending = asyncio.ensure_future(caller.send(b"x" * 30_000_000))
        await until(lambda: len(shop.bodies.get(1, b"")) == 65_535)
        await asyncio.sleep(0.2)
        assert len(shop.bodies[1]) == 65_535
        assert not sending.done(), "the client waits"
        sending.cancel()


async def test_whole_requests_that_an_instance_does_not_take_are_counted(town: Town) -> None:
    """A hundred thousand bytes come together with the head. The window of the instance is smaller."""
    async with instance_of(town, lambda stream: b"", grants=False) as shop:
        connections = town.router._shared.connections
        caller = await town.caller()
        await caller.send(request("/", "POST", body=b"x" * 100_000))
        await until(lambda: len(shop.bodies.get(1, b"")) == 65_535)
        await until(lambda: connections._unsent_bytes >= 100_000 - 65_535)
        await caller.close()
        await until(lambda: not connections.members)
        assert connections._unsent_bytes == 0


async def test_what_an_instance_has_not_taken_counts_no_longer_after_its_answer(town: Town) -> None:
    answer = head(1, ("content-length", "0"), ends=True)
    async with instance_of(town, lambda stream: answer, grants=False):
        caller = await town.caller()
        assert (await caller.ask(request("/", "POST", body=b"x" * 100_000))).status == 200
        assert town.router._shared.connections._unsent_bytes == 0


class UnreadTransport:
    """A transport whose peer reads nothing, or everything."""

    def __init__(self, *, is_read: bool) -> None:
        self._is_read = is_read
        self.written = 0
        self.is_aborted = False

    def write(self, data: bytes) -> None:
        self.written += len(data)

    def get_write_buffer_size(self) -> int:
        return 0 if self._is_read else self.written

    def is_closing(self) -> bool:
        return self.is_aborted

    def abort(self) -> None:
        self.is_aborted = True


class NoUpstream:
    client = None

    def connection_made(self, transport: object) -> None:
        pass


@pytest.mark.parametrize("is_read", [False, True])
async def test_an_instance_that_reads_nothing_gets_no_endless_answers(town: Town, is_read: bool) -> None:
    """Answers to PING and SETTINGS would pile up as long as the request lasts. The second is a control."""
    upstream: Any = NoUpstream()
    instance, raw = Http2Instance(town.router._shared, upstream), UnreadTransport(is_read=is_read)
    instance.connection_made(raw)
    for _ in range(100_000 // 50):
        instance._allowance.give(1000)  # as if time went by
        instance.data_received((frame(PING, content=bytes(8)) + frame(SETTINGS)) * 25)
    assert raw.is_aborted is not is_read
    assert (raw.written > 1_000_000) is is_read


async def test_the_end_of_a_request_enlarges_no_window(town: Town) -> None:
    """An instance may make the window of the stream negative while only the end is to be sent."""
    upstream: Any = NoUpstream()
    instance = Http2Instance(town.router._shared, upstream)
    instance.connection_made(UnreadTransport(is_read=True))
    instance._stream, instance._has_end_to_send = 1, True
    instance._window, instance._window_of_stream = 100, -50
    instance._send_unsent()
    assert not instance._has_end_to_send
    assert (instance._window, instance._window_of_stream) == (100, -50)
