"""Compresses answers of instances with gzip.

Only texts of more than a kibibyte are compressed, and no stream of events. A body that arrives with its head
is compressed in one piece. Otherwise `CompressedBody` takes the place of the client's transport: it removes
the framing of the instance, and sends chunks. Nothing is held back, so that an answer in pieces arrives in
pieces.

To compress a text takes a hundred times as long as to pass it on. So clients take turns with the pieces of
their answers, and answers are sent as they are once others of the same turn of the event loop are compressed.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Callable
from typing import Any, Final

from windlass.base.http_in.bounds import Bounds
from windlass.base.http_in.chunks import Chunks
from windlass.base.http_in.wire import Bad, without_fields

MAX_UNCOMPRESSED_BYTES: Final = 1024
"""Size of the largest body that is not compressed, since compression would not pay."""
MAX_CONCURRENT_COMPRESSIONS: Final = 500
"""Number of answers that a router compresses piece by piece at the same time. Each needs 128 KiB."""
MAX_BYTES_AT_ONCE: Final = 256 * 1024
"""Number of bytes of beginning answers after which further ones are not compressed in a turn of the event
loop. To compress them takes about 5 milliseconds."""
_LEVEL, _WINDOW, _MEMORY = 4, 16 + 14, 7
_COMPRESSIBLE_TYPE_PATTERN: Final = re.compile(
    rb"(?!text/event-stream)(?:text/|application/(?:json|javascript|xml|x-ndjson|graphql)\b"
    rb"|[^;,\s]{1,100}\+(?:json|xml)\b)",
    re.IGNORECASE,
)
_FIELDS_PATTERN: Final = re.compile(
    rb"\r\n(content-type|content-encoding|content-length|content-range|transfer-encoding|cache-control|etag)"
    rb":[\t ]*([^\r]*)",
    re.IGNORECASE,
)
_COMPRESSIBLE_STATUSES: Final = frozenset({200, 201, 202, 203, *range(400, 600)})
_REMOVED_FIELDS: Final = frozenset({b"content-length", b"transfer-encoding", b"accept-ranges", b"etag"})
_UNKNOWN_LENGTH: Final = -1


class Compressors:
    """The answers that a router compresses piece by piece."""

    __slots__ = ("_left", "count")

    def __init__(self) -> None:
        self.count = 0
        self._left = MAX_BYTES_AT_ONCE

    def take(self, size: int) -> bool:
        """Returns whether the beginning of an answer may be compressed in this turn of the event loop."""
        if self._left <= 0:
            return False
        if self._left == MAX_BYTES_AT_ONCE and size:
            asyncio.get_running_loop().call_soon(self._begin_turn)
        self._left -= size
        return True

    def _begin_turn(self) -> None:
        self._left = MAX_BYTES_AT_ONCE


class CompressedBody:
    """Wraps a client's transport until the end of an answer."""

    __slots__ = (
        "_chunks",
        "_compressor",
        "_done",
        "_is_running",
        "_left",
        "_running",
        "_transport",
        "_yield",
    )

    def __init__(
        self,
        transport: Any,
        bounds: Bounds,
        length: int,
        on_done: Callable[[Any], None],
        compressors: Compressors,
        yield_turn: Callable[[], None],
    ) -> None:
        """`length`: the length of the body; -1 if it is sent in chunks. `on_done` gives the transport back.
        `yield_turn` lets other clients run before the next piece comes."""
        self._transport, self._done, self._running = transport, on_done, compressors
        self._yield = yield_turn
        self._compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW, _MEMORY)
        self._chunks = Chunks(bounds, plain=True) if length == _UNKNOWN_LENGTH else None
        self._left = length
        self._is_running = True
        compressors.count += 1

    def write(self, data: bytes) -> None:
        packed = self.pack(data)
        if self._is_running:
            self._yield()
        self._transport.write(packed)

    def pack(self, data: bytes) -> bytes:
        """Returns the chunks for a part of the body."""
        if self._chunks is None:
            self._left -= len(data)
            ended = self._left <= 0
        else:
            try:
                data, after = self._chunks.feed(data)
            except Bad:  # the connection to the instance has judged these bytes before
                return b""
            ended = after is not None
        packed = self._compressor.compress(data)
        packed += self._compressor.flush(zlib.Z_FINISH if ended else zlib.Z_SYNC_FLUSH)
        if ended:
            self.release()
            self._done(self._transport)
        return (b"%x\r\n%b\r\n" % (len(packed), packed) if packed else b"") + (b"0\r\n\r\n" if ended else b"")

    def release(self) -> None:
        """Called at the end of the answer or of the connection."""
        if self._is_running:
            self._is_running = False
            self._running.count -= 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class AnswerCompression:
    """The compression of the answer to one request."""

    __slots__ = ("_bounds", "_done", "_is_wanted", "_running", "_yield")

    def __init__(
        self,
        bounds: Bounds,
        compressors: Compressors,
        on_done: Callable[[Any], None],
        yield_turn: Callable[[], None],
        *,
        is_wanted: bool,
    ) -> None:
        """`on_done` sets the client's transport. `yield_turn`: see `CompressedBody`. `is_wanted`: whether the
        client takes gzip."""
        self._bounds, self._running, self._done, self._is_wanted = bounds, compressors, on_done, is_wanted
        self._yield = yield_turn

    def packed(self, data: bytes, transport: Any) -> bytes:
        """Returns the beginning of an answer as it is sent to the client."""
        head, end, body = data.partition(b"\r\n\r\n")
        fields = {match[1].lower(): match[2].strip(b"\t ") for match in _FIELDS_PATTERN.finditer(head)}
        if not _is_text(head, fields):
            return data
        length = int(fields.get(b"content-length", _UNKNOWN_LENGTH))
        is_chunked = b"transfer-encoding" in fields
        if length <= MAX_UNCOMPRESSED_BYTES and not is_chunked:
            return data
        is_possible = len(body) == length or self._running.count < MAX_CONCURRENT_COMPRESSIONS
        if not (self._is_wanted and is_possible and self._running.take(len(body))):
            return head + b"\r\nVary: Accept-Encoding" + end + body
        first, _, lines = head.partition(b"\r\n")
        head = first + without_fields(b"\r\n" + lines, _REMOVED_FIELDS)
        if b"etag" in fields:
            head += b"\r\nETag: " + _weak_etag(fields[b"etag"])
        head += b"\r\nVary: Accept-Encoding\r\nContent-Encoding: gzip"
        if len(body) == length:
            whole = zlib.compress(body, _LEVEL, 16 + zlib.MAX_WBITS)
            return head + b"\r\nContent-Length: %d" % len(whole) + end + whole
        left = _UNKNOWN_LENGTH if is_chunked else length
        sink = CompressedBody(transport, self._bounds, left, self._done, self._running, self._yield)
        self._done(sink)
        return head + b"\r\nTransfer-Encoding: chunked" + end + (sink.pack(body) if body else b"")


def _is_text(head: bytes, fields: dict[bytes, bytes]) -> bool:
    return (
        int(head[9:12]) in _COMPRESSIBLE_STATUSES
        and _COMPRESSIBLE_TYPE_PATTERN.match(fields.get(b"content-type", b"")) is not None
        and b"content-encoding" not in fields
        and b"content-range" not in fields
        and b"no-transform" not in fields.get(b"cache-control", b"").lower()
    )


def _weak_etag(tag: bytes) -> bytes:
    return tag if tag.startswith(b"W/") else b"W/" + tag
