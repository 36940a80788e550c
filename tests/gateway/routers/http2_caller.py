"""A client that speaks HTTP/2 and sends exactly the frames that it is told to.

Header blocks are encoded and decoded by a library that knows nothing of ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

from hpack import Decoder, Encoder

from tests.gateway.routers.issuing import issuing_authority
from tests.gateway.routers.secure_town import https_port, make_secure_town
from tests.gateway.routers.town import SHOP, Town
from windlass.routers.builtin.http2_limits import Http2Limits

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    range(10)
)
END_STREAM, END_HEADERS, ACK = 1, 4, 1
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR = 0, 1, 2, 3
STREAM_CLOSED, FRAME_SIZE_ERROR, REFUSED_STREAM, CALM = 5, 6, 7, 11

Fields = Sequence[tuple[str, str]]


class Said2(NamedTuple):
    """An answer, as a client got it."""

    status: int
    fields: dict[str, str]
    body: bytes
    trailers: dict[str, str]
    reset: int | None
    """The code with which the stream was reset; None if it has ended."""


def frame(kind: int, flags: int = 0, stream: int = 0, content: bytes = b"") -> bytes:
    return len(content).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + content


def head_of(target: str = "/", method: str = "GET", host: str = SHOP, *fields: tuple[str, str]) -> Fields:
    pseudo = ((":method", method), (":scheme", "https"), (":authority", host), (":path", target))
    return [*pseudo, *fields]


class _Stream:
    def __init__(self) -> None:
        self.heads: list[dict[str, str]] = []
        self.body = b""
        self.reset: int | None = None
        self.ended = False


class Http2Caller:
    def __init__(self, reader: asyncio.StreamReader, out: asyncio.StreamWriter, *, takes: bool) -> None:
        """`takes`: whether the windows grow with what is received."""
        self.out = out
        self._reader, self._takes = reader, takes
        self._encoder, self._decoder = Encoder(), Decoder()
        self._streams: dict[int, _Stream] = {}
        self._changed = asyncio.Event()
        self._sent: dict[int, int] = {}
        """The bytes of bodies that were sent, by stream."""
        self.settings: dict[int, int] = {}
        self.windows: dict[int, int] = {}
        """The bytes granted for bodies by WINDOW_UPDATE, by stream."""
        self.pings: list[bytes] = []
        self.goaways: list[tuple[int, int]] = []
        """The last stream and the code of each GOAWAY."""
        self.closed = False
        self._reading = asyncio.ensure_future(self._read())

    # Sending

    async def send(self, data: bytes) -> None:
        if not self.closed:
            with contextlib.suppress(ConnectionError):
                self.out.write(data)
                await self.out.drain()

    async def begin(self, settings: dict[int, int] | None = None) -> None:
        content = b"".join(struct.pack(">HI", *entry) for entry in (settings or {}).items())
        await self.send(PREFACE + frame(SETTINGS, content=content))

    def block(self, fields: Fields) -> bytes:
        return self._encoder.encode(fields)

    def head(self, stream: int, fields: Fields, *, ends: bool = True) -> bytes:
        return frame(HEADERS, END_HEADERS | (END_STREAM if ends else 0), stream, self.block(fields))

    async def ask(self, stream: int, fields: Fields | None = None, body: bytes = b"") -> Said2:
        await self.send(self.head(stream, head_of() if fields is None else fields, ends=not body))
        while body := await self.send_body(stream, body) if body else b"":
            await self.until(lambda: self.is_done(stream) or self.window(stream) > 0)
            if self.is_done(stream):
                break
        return await self.said(stream)

    def window(self, stream: int) -> int:
        """The number of bytes that may be sent of a body."""
        own = self.settings[4] + self.windows.get(stream, 0) - self._sent.get(stream, 0)
        return min(own, 65_535 + self.windows.get(0, 0) - sum(self._sent.values()))

    async def send_body(self, stream: int, body: bytes) -> bytes:
        """Sends as much of a body as the windows permit. Returns the rest."""
        await self.until(lambda: self.settings)
        while body and (size := min(self.window(stream), 16_384, len(body))) > 0:
            piece, body = body[:size], body[size:]
            self._sent[stream] = self._sent.get(stream, 0) + size
            await self.send(frame(DATA, 0 if body else END_STREAM, stream, piece))
        return body

    async def grant(self, stream: int, size: int) -> None:
        await self.send(frame(WINDOW_UPDATE, stream=stream, content=size.to_bytes(4)))

    async def reset(self, stream: int, code: int = 8) -> None:
        await self.send(frame(RST_STREAM, stream=stream, content=code.to_bytes(4)))

    # What comes

    async def until(self, true: Any) -> None:
        while not true():
            if self.closed:
                raise ConnectionError(f"the connection has ended: {self.goaways}")
            self._changed.clear()
            await self._changed.wait()

    async def said(self, stream: int) -> Said2:
        await self.until(lambda: self.is_done(stream))
        return self.so_far(stream)

    def is_done(self, stream: int) -> bool:
        known = self._streams.get(stream)
        return known is not None and (known.ended or known.reset is not None)

    def so_far(self, stream: int) -> Said2:
        known = self._streams.get(stream) or _Stream()
        final = [head for head in known.heads if not head.get(":status", "").startswith("1")]
        fields = final[0] if final else {}
        trailers = final[1] if len(final) > 1 else {}
        return Said2(int(fields.get(":status", 0)), fields, known.body, trailers, known.reset)

    def statuses(self, stream: int) -> list[str]:
        """All statuses of a stream, with those of interim answers."""
        return [head[":status"] for head in self._of(stream).heads if ":status" in head]

    async def end(self) -> int | None:
        """Waits for the end of the connection. Returns the code of its last GOAWAY."""
        await self._reading
        return self.goaways[-1][1] if self.goaways else None

    async def _read(self) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            while True:
                head = await self._reader.readexactly(9)
                content = await self._reader.readexactly(int.from_bytes(head[:3]))
                await self._take(head[3], head[4], int.from_bytes(head[5:]), content)
                self._changed.set()
        self.closed = True
        self._changed.set()

    async def _take(self, kind: int, flags: int, stream: int, content: bytes) -> None:
        match kind:
            case 0:
                self._of(stream).body += content
                if self._takes and content:
                    size = len(content).to_bytes(4)
                    await self.send(frame(WINDOW_UPDATE, stream=0, content=size))
                    if not flags & END_STREAM:
                        await self.send(frame(WINDOW_UPDATE, stream=stream, content=size))
            case 1:
                assert flags & END_HEADERS
                decoded: Any = self._decoder.decode(content)
                self._of(stream).heads.append(dict(decoded))
            case 3:
                self._of(stream).reset = int.from_bytes(content)
            case 4 if not flags & ACK:
                self.settings |= dict(struct.iter_unpack(">HI", content))
                await self.send(frame(SETTINGS, ACK))
            case 6:
                self.pings.append(content)
            case 7:
                self.goaways.append(struct.unpack(">II", content[:8]))
            case 8:
                self.windows[stream] = self.windows.get(stream, 0) + int.from_bytes(content)
        if kind in {DATA, HEADERS} and flags & END_STREAM:
            self._of(stream).ended = True

    def _of(self, stream: int) -> _Stream:
        return self._streams.setdefault(stream, _Stream())

    async def close(self) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        self.out.transport.abort()
        with contextlib.suppress(OSError):
            await self.out.wait_closed()


@contextlib.asynccontextmanager
async def http2_caller(
    port: int,
    name: str = SHOP,
    *,
    settings: dict[int, int] | None = None,
    takes: bool = True,
    begins: bool = True,
) -> AsyncIterator[Http2Caller]:
    context = issuing_authority().client(("h2",))
    reader, out = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
    assert out.get_extra_info("ssl_object").selected_alpn_protocol() == "h2"
    caller = Http2Caller(reader, out, takes=takes)
    try:
        if begins:
            await caller.begin(settings)
        yield caller
    finally:
        await caller.close()


@contextlib.asynccontextmanager
async def make_http2_town(limits: Http2Limits | None = None, **options: Any) -> AsyncIterator[Town]:
    """A town whose shop has a certificate, and whose router offers HTTP/2."""
    async with make_secure_town(**options) as town:
        town.router.offer_http2(True)
        if limits is not None:
            town.router._shared.http2_limits = limits
        yield town


@contextlib.asynccontextmanager
async def caller_of(town: Town, **options: Any) -> AsyncIterator[Http2Caller]:
    async with http2_caller(https_port(town), **options) as caller:
        yield caller
