"""HTTP/2 to an instance, for ports of the protocol GRPC: a layer between the event loop and `Upstream`.

The client of gRPC and its instance speak HTTP/2; what lies between them is the path of all requests. So this
layer turns the request, which the router writes as HTTP/1.1, into frames, and the answer into HTTP/1.1. A
connection carries one request at a time, as those of HTTP/1.1 do, and is kept for the next one. HTTP/2 is
spoken without TLS and without asking before (*prior knowledge*).
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from windlass.base.http_in.chunks import Chunks
from windlass.base.http_in.wire import HEAD_END
from windlass.routers.builtin import http2_frames as frames
from windlass.routers.builtin.hpack import BlockTooLarge, Field, HeaderDecoder, InvalidBlock, encode_field
from windlass.routers.builtin.http2_frames import (
    ConnectionFault,
    ErrorCode,
    FrameBuffer,
    Http2Frame,
    StreamFault,
    check_size,
    frame,
    header_frames,
    number_frame,
    settings_frame,
    settings_of,
    without_padding,
)
from windlass.routers.builtin.http2_heads import HOP_BY_HOP_FIELDS, check_field, trailer_lines
from windlass.routers.builtin.http2_limits import FrameAllowance, cost_of_control_frame
from windlass.routers.builtin.shared_state import SharedState
from windlass.routers.builtin.upstream import Upstream

_WINDOW_BYTES: Final = 256 * 1024
"""Number of bytes that an instance may send before its client takes them."""
_HIGH_WATER, _LOW_WATER = 16 * 1024, 4 * 1024
"""Numbers of unsent bytes of a request at which its client pauses and resumes."""
_FRAMES_PER_TURN: Final = 64
_CONTROL_FRAMES, _CONTROL_FRAMES_PER_SECOND = 10_000, 1000
"""Numbers of frames without content that an instance may send. gRPC servers send a PING to measure each round
trip."""
_MAX_UNREAD_BYTES: Final = 512 * 1024
"""Number of bytes that an instance may leave unread while it demands answers. A head and the part of a body
that is sent before its source pauses are less than half of it."""
_KINDS_WITH_CONTENT: Final = frozenset(
    {frames.DATA, frames.HEADERS, frames.CONTINUATION, frames.WINDOW_UPDATE}
)
_STATUS_DIGITS: Final = 3
_WITHOUT_BODY: Final = frozenset({b"204", b"304"})


class Http2Instance(asyncio.Protocol):
    """A connection to an instance, and the transport that its `Upstream` sees."""

    __slots__ = (
        "_allowance",
        "_answer_chunks",
        "_block",
        "_body",
        "_decoder",
        "_granted",
        "_granted_to_stream",
        "_has_answer",
        "_has_end_to_send",
        "_is_blocked",
        "_is_continuing",
        "_is_full",
        "_is_head_only",
        "_is_leaving",
        "_is_reading",
        "_is_request_open",
        "_left",
        "_raw",
        "_receive_window",
        "_received",
        "_shared",
        "_stream",
        "_stream_window",
        "_unsent",
        "_window",
        "_window_of_stream",
        "upstream",
    )

    def __init__(self, shared_state: SharedState, upstream: Upstream) -> None:
        self.upstream, self._shared = upstream, shared_state
        self._raw: Any = None
        self._received = FrameBuffer(has_preface=False)
        self._decoder = HeaderDecoder(shared_state.bounds.head_bytes)
        self._block: tuple[Http2Frame, bytes] | None = None
        """The frame that has begun an incomplete header block, and what has come of the block."""
        self._allowance = FrameAllowance(_CONTROL_FRAMES, _CONTROL_FRAMES_PER_SECOND, shared_state.now)
        self._is_continuing = False
        self._is_leaving = False
        """Whether the instance accepts no further requests."""
        self._stream = -1
        """The stream of the present request, or of the last one."""
        # The request
        self._is_request_open = self._is_head_only = self._has_end_to_send = False
        """Whether more of the request is to come, it has the method HEAD, and its end is not yet sent."""
        self._body: Chunks | None = None
        self._left = 0
        self._unsent = bytearray()
        self._is_blocked = self._is_full = False
        self._window = self._stream_window = self._window_of_stream = frames.DEFAULT_WINDOW
        """The windows of the connection, of new streams, and of the present stream."""
        # The answer
        self._has_answer = self._answer_chunks = False
        """Whether the final head of the answer has come, and whether its body goes on in chunks."""
        self._is_reading = True
        self._receive_window = _WINDOW_BYTES
        self._granted = self._granted_to_stream = 0
        """Numbers of received bytes for which the instance has got no new windows."""

    # The protocol of the event loop's transport

    def connection_made(self, transport: Any) -> None:
        self._raw = transport
        settings = {frames.ENABLE_PUSH: 0, frames.INITIAL_WINDOW_SIZE: _WINDOW_BYTES}
        transport.write(frames.PREFACE + settings_frame(settings))
        self._grant(_WINDOW_BYTES - frames.DEFAULT_WINDOW, stream=0)
        self.upstream.connection_made(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.upstream.connection_lost(exc or ConnectionResetError("the stream has not ended"))

    def eof_received(self) -> bool:
        return self.upstream.eof_received()

    def pause_writing(self) -> None:
        self._is_blocked = True
        self._choose_pause()

    def resume_writing(self) -> None:
        self._is_blocked = False
        self._send_unsent()

    def data_received(self, data: bytes) -> None:
        self._received.add(data)
        if not self._is_continuing:
            self._read()

    def _continue(self) -> None:
        self._is_continuing = False
        if not self._raw.is_closing():
            self._raw.resume_reading()
            self._read()

    def _read(self) -> None:
        try:
            for _ in range(_FRAMES_PER_TURN):
                if self._raw.is_closing() or (received := self._received.next()) is None:
                    return
                self._handle(received)
        except (ConnectionFault, StreamFault, InvalidBlock, BlockTooLarge):
            self._raw.abort()  # the answer is invalid or incomplete, which its client is told
        else:
            self._is_continuing = True
            self._raw.pause_reading()
            self._shared.connections.turns.wait(self._continue)

    # Frames of the instance

    def _handle(self, received: Http2Frame) -> None:
        kind, content = received.kind, received.content
        if (self._block is not None) is not (kind == frames.CONTINUATION):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a header block is not continued")
        check_size(received)
        if kind not in _KINDS_WITH_CONTENT:
            self._take_control(len(content))
        if kind == frames.DATA:
            self._take_data(received)
        elif kind in {frames.HEADERS, frames.CONTINUATION}:
            self._take_block(received)
        elif kind == frames.WINDOW_UPDATE:
            self._enlarge(received.stream, int.from_bytes(content) & frames.MAX_WINDOW)
        elif kind == frames.SETTINGS and not received.flags & frames.ACK:
            for key, value in settings_of(received):
                if key == frames.INITIAL_WINDOW_SIZE:
                    self._window_of_stream += value - self._stream_window
                    self._stream_window = value
            self._reply(frame(frames.SETTINGS, frames.ACK, 0))
            self._send_unsent()
        elif kind == frames.PING and not received.flags & frames.ACK:
            self._reply(frame(frames.PING, frames.ACK, 0, content))
        elif kind == frames.RST_STREAM and received.stream == self._stream:
            self._end_by_reset()
        elif kind == frames.GOAWAY:
            self._is_leaving = True
            if int.from_bytes(content[:4]) < self._stream or not self._is_busy:
                self._raw.close()
        elif kind == frames.PUSH_PROMISE:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "push is not permitted")

    def _take_control(self, size: int) -> None:
        if not self._allowance.take(cost_of_control_frame(size), self._shared.now):
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many control frames")

    def _reply(self, data: bytes) -> None:
        """Answers a frame. Raises ConnectionFault if the instance reads none of the answers."""
        if self._raw.get_write_buffer_size() > _MAX_UNREAD_BYTES:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "the instance does not read")
        self._raw.write(data)

    @property
    def _is_busy(self) -> bool:
        return self.upstream.client is not None

    def _end_by_reset(self) -> None:
        """An instance that has answered may reset the rest of the request. Otherwise the answer is lost."""
        if self._is_busy:
            self._raw.abort()

    def _enlarge(self, stream: int, size: int) -> None:
        if stream == 0:
            self._window += size
        elif stream == self._stream:
            self._window_of_stream += size
        self._send_unsent()

    def _take_block(self, received: Http2Frame) -> None:
        if self._block is None:
            begun, block = received, without_padding(received)
            if received.flags & frames.HAS_PRIORITY:
                block = block[frames.PRIORITY_BYTES :]
        else:
            begun, block = self._block[0], self._block[1] + received.content
        if len(block) > self._shared.bounds.head_bytes or begun.stream != received.stream:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "a header block is too large")
        if not received.flags & frames.END_HEADERS:
            self._block = begun, block
            return
        self._block = None
        fields = self._decoder.decode(block)
        if begun.stream != self._stream or not self._is_busy:
            self._take_control(len(block))
            return
        is_last = bool(begun.flags & frames.END_STREAM)
        if self._has_answer:
            if not is_last:
                raise StreamFault(ErrorCode.PROTOCOL_ERROR, "trailers do not end the stream")
            self._end_answer(trailer_lines(fields))
        else:
            self._take_head(fields, is_last=is_last)

    def _take_head(self, fields: list[Field], *, is_last: bool) -> None:
        status = dict(fields[:1]).get(b":status", b"")
        if len(status) != _STATUS_DIGITS or not status.isdigit() or status == b"101":
            raise StreamFault(ErrorCode.PROTOCOL_ERROR, "the status is missing or not valid")
        lines = [b"HTTP/1.1 %b " % status]
        has_length = False
        for name, value in fields[1:]:
            check_field(name, value)
            has_length = has_length or name == b"content-length"
            lines.append(b"%b: %b" % (name, value))
        if status.startswith(b"1"):
            if not is_last:
                self.upstream.data_received(b"\r\n".join(lines) + HEAD_END)
            return
        self._has_answer = True
        end = b""
        if not has_length and status not in _WITHOUT_BODY:
            lines.append(b"transfer-encoding: chunked")
            self._answer_chunks = not self._is_head_only
            end = b"0\r\n\r\n" if is_last and self._answer_chunks else b""
        self.upstream.data_received(b"\r\n".join(lines) + HEAD_END + end)
        if is_last and self._is_busy:
            raise StreamFault(ErrorCode.PROTOCOL_ERROR, "the answer has not its content-length")

    def _take_data(self, received: Http2Frame) -> None:
        size = len(received.content)
        self._receive_window -= size
        if self._receive_window < 0:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "the instance sends more than its window")
        data = without_padding(received)
        is_last = bool(received.flags & frames.END_STREAM)
        self._granted += size
        self._granted_to_stream += size if received.stream == self._stream else 0
        if received.stream == self._stream and self._is_busy:
            if not self._has_answer:
                raise StreamFault(ErrorCode.PROTOCOL_ERROR, "DATA before the head")
            if data:
                self.upstream.data_received(
                    b"%x\r\n%b\r\n" % (len(data), data) if self._answer_chunks else data
                )
            if is_last and self._is_busy:
                self._end_answer(b"")
        self._grant_taken()

    def _end_answer(self, trailers: bytes) -> None:
        if self._answer_chunks:
            self.upstream.data_received(b"0%b\r\n\r\n" % trailers)
        elif self._is_busy:
            raise StreamFault(ErrorCode.PROTOCOL_ERROR, "the answer has not its content-length")

    def _grant(self, size: int, *, stream: int) -> None:
        self._raw.write(number_frame(frames.WINDOW_UPDATE, stream, size))

    def _grant_taken(self) -> None:
        if not self._is_reading or self._raw.is_closing():
            return
        if self._granted >= _WINDOW_BYTES // 2:
            self._grant(self._granted, stream=0)
            self._receive_window += self._granted
            self._granted = 0
        if self._granted_to_stream >= _WINDOW_BYTES // 2 and self._is_busy:
            self._grant(self._granted_to_stream, stream=self._stream)
            self._granted_to_stream = 0

    # The request

    def write(self, data: bytes) -> None:
        if self._raw.is_closing():
            return
        if not self._is_request_open:
            data = self._begin_request(data)
            if not self._is_request_open:
                return
        if self._body is not None:
            data, after = self._body.feed(data)  # the router has judged these bytes before
            is_last = after is not None
        else:
            self._left -= len(data)
            is_last = self._left <= 0
        self._unsent += data
        if is_last:
            self._is_request_open, self._has_end_to_send = False, True
        self._send_unsent()

    def _begin_request(self, data: bytes) -> bytes:
        """Sends the head of a request. Returns the bytes that follow it."""
        head, _, rest = data.partition(HEAD_END)
        first, *lines = head.split(b"\r\n")
        method, target, _ = first.split(b" ")
        block = [
            encode_field(b":method", method),
            encode_field(b":scheme", b"http"),
            encode_field(b":path", target),
        ]
        fields = []
        self._body, self._left = None, 0
        for line in lines:
            name, _, value = line.partition(b":")
            name, value = name.lower(), value.strip(b"\t ")
            if name == b"host":
                block.append(encode_field(b":authority", value))
            elif name not in HOP_BY_HOP_FIELDS:
                fields.append(encode_field(name, value))
            elif name == b"transfer-encoding":
                self._body = Chunks(self._shared.bounds, plain=True)
            if name == b"content-length":
                self._left = int(value)
        self._stream += 2
        self._window_of_stream = self._stream_window
        self._has_answer = self._answer_chunks = False
        self._is_head_only = method == b"HEAD"
        is_whole = self._body is None and not self._left
        self._is_request_open, self._has_end_to_send = not is_whole, False
        self._granted_to_stream = 0
        self._raw.write(header_frames(self._stream, b"".join([*block, *fields]), is_last=is_whole))
        return rest

    def _send_unsent(self) -> None:
        unsent = self._unsent
        while not self._is_blocked and (unsent or self._has_end_to_send):
            size = min(len(unsent), self._window, self._window_of_stream, frames.MAX_FRAME_BYTES)
            if unsent and size <= 0:
                break
            piece = bytes(unsent[:size])
            del unsent[:size]
            if size > 0:  # a window may be negative while only the end is to be sent
                self._window -= size
                self._window_of_stream -= size
            is_last = self._has_end_to_send and not unsent
            self._has_end_to_send = self._has_end_to_send and not is_last
            self._raw.write(frame(frames.DATA, frames.END_STREAM if is_last else 0, self._stream, piece))
        self._choose_pause()

    def _choose_pause(self) -> None:
        is_full = self._is_blocked or len(self._unsent) > (_LOW_WATER if self._is_full else _HIGH_WATER)
        if is_full is not self._is_full:
            self._is_full = is_full
            if is_full:
                self.upstream.pause_writing()
            else:
                self.upstream.resume_writing()

    # As the transport of the connection

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self._grant_taken()

    def is_closing(self) -> bool:
        return bool(self._raw.is_closing()) or (self._is_leaving and not self._is_busy)

    def close(self) -> None:
        self._raw.close()

    def abort(self) -> None:
        self._raw.abort()

    def get_write_buffer_size(self) -> int:
        return len(self._unsent) + int(self._raw.get_write_buffer_size())

    def get_extra_info(self, name: str) -> Any:
        return self._raw.get_extra_info(name)
