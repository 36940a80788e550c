"""A stream of an HTTP/2 connection: one request and its answer.

To the rest of the router, a stream is a connection of HTTP/1.1 with one request, whose transport is in this
module. So routes, rules, retries, sites, compression, logs, limits and timeouts are those of HTTP/1. The
transport turns the answer, which the router or an instance writes as HTTP/1.1, into frames, and holds back
what the client does not take.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from windlass.base.http_in.chunks import Chunks
from windlass.base.http_in.wire import HEAD_END, Bad
from windlass.routers.builtin.client_socket import PARTING
from windlass.routers.builtin.http2_frames import (
    DATA,
    END_STREAM,
    MAX_FRAME_BYTES,
    RST_STREAM,
    WINDOW_UPDATE,
    ErrorCode,
    StreamFault,
    frame,
    header_frames,
    number_frame,
)
from windlass.routers.builtin.http2_heads import UNKNOWN_LENGTH, StreamHead, answer_start, trailer_block
from windlass.routers.builtin.requests import Fields
from windlass.routers.builtin.route_rules import CompiledRules
from windlass.routers.builtin.shared_state import SharedState
from windlass.routers.builtin.table import Paths
from windlass.routers.builtin.tls_client import TlsClient

if TYPE_CHECKING:
    from windlass.routers.builtin.http2_connection import Http2Connection

STREAM_WINDOW_BYTES: Final = 128 * 1024
"""Number of bytes of a body that a client may send before its instance has taken them."""
_HIGH_WATER, _LOW_WATER = 64 * 1024, 16 * 1024
"""Numbers of unsent bytes of an answer at which its source pauses and resumes."""
_PROGRESS_BYTES: Final = 16 * 1024
"""Number of bytes of an answer that a client has to take in time. Otherwise, the stream is reset."""
_NO_CHUNKS: Final = b"0\r\n\r\n"
_WITHOUT_BODY: Final = frozenset({204, 304})


class StreamClient(TlsClient):
    """The client of one stream."""

    __slots__ = ("_connection", "_stream")

    protocol = "HTTP/2.0"

    def __init__(
        self,
        shared_state: SharedState,
        find_paths: Callable[[bytes], Paths | None],
        port: int,
        connection: Http2Connection,
    ) -> None:
        super().__init__(shared_state, find_paths, port, connection.names, connection.address)
        self._connection = connection
        self._opened = connection.opened
        self._covered = connection.covered

    def take_fields(self, fields: Fields) -> None:
        """Takes the parsed headers of an earlier request of the same client, which usually are the same."""
        self._fields = fields

    def leave_fields(self) -> Fields:
        return self._fields

    @property
    def covered(self) -> bytes:
        return self._covered

    def connection_made(self, transport: Any) -> None:
        self._stream = transport
        super().connection_made(transport)

    def note_received(self) -> None:
        """Called after bytes of a body have come although reading is paused."""
        self._note_buffers()

    def note_unsent(self, *, has_progress: bool) -> None:
        """Called when the number of bytes changes that the client does not take."""
        if has_progress:  # it is no longer the one that has waited longest
            self._shared.connections.sent(self)
        self._note_buffers()

    def _unsent_bytes(self) -> int:
        """A stream has no buffer in the kernel, and one client has many streams: each byte counts."""
        size: int = self._stream.get_write_buffer_size()
        return size

    def age(self, now: float) -> None:
        if self._stream.is_stalled(now, self.times.take_answer or self._shared.bounds.stall_seconds):
            self.abort()
        else:
            super().age(now)

    def cut(self) -> None:
        self._end_request(PARTING)
        self._stream.break_off()

    def _passes_rules(self, rules: CompiledRules, method: bytes, target: bytes, body: bytes) -> bool:
        if rules.closes(self._shared.now - self._opened):
            self._connection.leave()
        return super()._passes_rules(rules, method, target, body)

    def leave(self) -> None:
        """Does nothing: the connection of the stream leaves."""

    def _hand_over(self) -> bool:
        return False


class StreamTransport:
    """The transport of a stream, as its client sees it."""

    __slots__ = (
        "_break_code",
        "_chunks",
        "_client",
        "_connection",
        "_has_begun",
        "_head",
        "_id",
        "_is_closing",
        "_is_counted",
        "_is_delivered",
        "_is_ended",
        "_is_finished",
        "_is_full",
        "_is_head_only",
        "_is_reading",
        "_left",
        "_marked_at",
        "_received",
        "_request_left",
        "_since_mark",
        "_trailers",
        "_unsent",
        "_untaken",
        "is_whole",
        "receive_window",
        "window",
    )

    def __init__(self, connection: Http2Connection, id: int, window: int, client: StreamClient) -> None:
        """`window`: the number of bytes of the answer that the client accepts at first."""
        self._connection, self._id, self._client = connection, id, client
        # The request
        self._head: StreamHead | None = None
        """The head until it is passed on, at the end of the turn in which it has arrived."""
        self._received = b""
        """The beginning of the body until then."""
        self._request_left = UNKNOWN_LENGTH
        self.is_whole = False
        """Whether the request was received completely."""
        self._is_delivered = False
        """Whether the request was passed on."""
        self._is_reading = True
        self._untaken = 0
        """Number of received bytes for which the client gets no new window, because the instance does not
        take them."""
        self.receive_window = STREAM_WINDOW_BYTES
        # The answer
        self.window = window
        self._has_begun = self._is_head_only = False
        self._left = 0
        """Missing bytes of the body of the answer; `UNKNOWN_LENGTH` if it ends with the connection."""
        self._chunks: Chunks | None = None
        self._trailers = b""
        self._unsent = bytearray()
        self._is_full = False
        """Whether the source of the answer is paused."""
        self._is_counted = False
        """Whether unsent bytes are counted."""
        self._is_ended = self._is_closing = self._is_finished = False
        """Whether the answer is complete, nothing more is accepted, and nothing more is sent."""
        self._break_code: ErrorCode | None = None
        """The error code of the reset that follows the unsent bytes, because the answer is incomplete."""
        self._marked_at = 0.0
        """The time since which the client has not taken `_PROGRESS_BYTES` of the unsent bytes."""
        self._since_mark = 0

    # The request

    def begin(self, head: StreamHead, *, is_whole: bool) -> None:
        self._is_head_only = head.method == b"HEAD"
        self._head, self._request_left, self.is_whole = head, head.length, is_whole

    def receive(self, data: bytes, size: int, *, is_last: bool) -> None:
        """Receives a part of the body, in a frame of this size. Raises StreamFault."""
        self._untaken += size
        if self.is_whole:
            raise StreamFault(ErrorCode.STREAM_CLOSED, "the request has ended")
        self.receive_window -= size
        if self.receive_window < 0:
            raise StreamFault(ErrorCode.FLOW_CONTROL_ERROR, "the body is larger than its window")
        if self._request_left != UNKNOWN_LENGTH:
            self._request_left -= len(data)
            if self._request_left < 0 or (is_last and self._request_left):
                raise StreamFault(ErrorCode.PROTOCOL_ERROR, "the body has not its content-length")
        self.is_whole = is_last
        if self._head is not None:
            self._received += data
        elif data or is_last:
            self._deliver(self._framed(data) + (self._body_end() if is_last else b""))
        self._grant()

    def end_request(self, trailers: bytes) -> None:
        """Receives the end of the body, with trailers. Raises StreamFault."""
        if self._request_left > 0:
            raise StreamFault(ErrorCode.PROTOCOL_ERROR, "the body has not its content-length")
        self.pass_head_on()
        self.is_whole = True
        if self._request_left == UNKNOWN_LENGTH:
            self._deliver(self._body_end(trailers))  # with a length, HTTP/1 has no place for them

    def pass_head_on(self) -> None:
        """Passes on the head, together with the received part of the body."""
        head, self._head = self._head, None
        if head is None:
            return
        data, self._received = self._received, b""
        if head.length != UNKNOWN_LENGTH:
            self._deliver(head.text + HEAD_END + data)
        elif self.is_whole:
            self._request_left = len(data)
            self._deliver(b"%b\r\ncontent-length: %d\r\n\r\n%b" % (head.text, len(data), data))
        else:
            self._deliver(head.text + b"\r\ntransfer-encoding: chunked\r\n\r\n" + self._framed(data))

    def _framed(self, data: bytes) -> bytes:
        if self._request_left != UNKNOWN_LENGTH or not data:
            return data
        return b"%x\r\n%b\r\n" % (len(data), data)

    def _body_end(self, trailers: bytes = b"") -> bytes:
        return b"0%b\r\n\r\n" % trailers if self._request_left == UNKNOWN_LENGTH else b""

    def _deliver(self, data: bytes) -> None:
        if data and not (self._is_closing or self._is_finished):
            self._is_delivered = True
            self._client.data_received(data)
            if not self._is_reading and not self._is_finished:
                self._client.note_received()

    def _grant(self) -> None:
        """Grants the client new windows for the bytes that the instance has taken."""
        size = self._untaken
        if not size or not (self._is_reading or self._is_closing):
            return
        self._untaken = 0
        self._connection.grant(size)
        missing = STREAM_WINDOW_BYTES - self.receive_window
        if missing >= STREAM_WINDOW_BYTES // 2 and not (self.is_whole or self._is_finished):
            self.receive_window += missing
            self._connection.send(number_frame(WINDOW_UPDATE, self._id, missing))

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self._grant()

    # The answer

    def write(self, data: bytes) -> None:
        if self._is_closing or self._is_finished:
            return
        if self._has_begun:
            self._take_body(data)
            return
        while data and not self._has_begun:
            end = data.find(HEAD_END)
            start = answer_start(data[:end])
            data = data[end + len(HEAD_END) :]
            if start.status < 200:
                self._connection.send(header_frames(self._id, start.block, is_last=False))
                continue
            self._has_begun = True
            self._left = start.length
            if self._is_head_only or start.status in _WITHOUT_BODY:
                self._left = 0
            elif start.is_chunked:
                self._chunks = Chunks(self._connection.bounds, plain=True)
            is_empty = self._chunks is not None and data == _NO_CHUNKS
            if is_empty or (not self._left and self._chunks is None):
                self._is_ended = True
                self._connection.send(header_frames(self._id, start.block, is_last=True))
                self._finish()
                return
            head = header_frames(self._id, start.block, is_last=False)
            if len(data) == self._left and self._takes_at_once(len(data)):
                self._is_ended = True
                self.window -= len(data)
                last = frame(DATA, END_STREAM, self._id, data)
                self._connection.send_data(head + last, len(data), is_cut=False)
                self._finish()
                return
            self._connection.send(head)
            self._take_body(data)

    def _takes_at_once(self, size: int) -> bool:
        """Returns whether a whole body fits into one frame, and the client takes it now."""
        connection = self._connection
        is_open = not connection.is_blocked and self.window >= size and connection.window >= size
        return is_open and 0 < size <= MAX_FRAME_BYTES

    def _take_body(self, data: bytes) -> None:
        if self._chunks is not None:
            try:
                data, after = self._chunks.feed(data)
            except Bad:  # the connection to the instance has judged these bytes before
                self.break_off()
                return
            self._is_ended = after is not None
            self._trailers = self._chunks.trailers
        elif self._left != UNKNOWN_LENGTH:
            self._left -= len(data)
            self._is_ended = self._left <= 0
        if data or self._is_ended:
            if not self._unsent:
                self._mark()
            self._unsent += data
            self.send_unsent()

    def send_unsent(self) -> None:
        """Sends as much as the windows of the client allow."""
        connection, unsent, marked_at = self._connection, self._unsent, self._marked_at
        while unsent and not connection.is_blocked:
            size = min(len(unsent), self.window, connection.window, MAX_FRAME_BYTES)
            if size <= 0:
                break
            piece = bytes(unsent[:size])
            del unsent[:size]
            is_last = self._is_ended and not unsent and not self._trailers
            self.window -= size
            self._note_progress(size)
            data = frame(DATA, END_STREAM if is_last else 0, self._id, piece)
            connection.send_data(data, size, is_cut=bool(unsent))
            if is_last:
                self._finish()
                return
        if not unsent and not connection.is_blocked:
            self._end_if_complete()
        if not self._is_finished:
            connection.note_unsent(self, is_waiting=bool(unsent) or self._has_end_to_send)
            self._choose_pause()
            if unsent or self._is_counted:
                self._is_counted = bool(unsent)
                self._client.note_unsent(has_progress=self._marked_at != marked_at)

    @property
    def is_finished(self) -> bool:
        return self._is_finished

    @property
    def _has_end_to_send(self) -> bool:
        return (self._is_ended or self._break_code is not None) and not self._is_finished

    def _end_if_complete(self) -> None:
        if self._is_finished:
            return
        if self._is_ended:
            if self._trailers:
                frames = header_frames(self._id, trailer_block(self._trailers), is_last=True)
            else:
                frames = frame(DATA, END_STREAM, self._id)
            self._connection.send(frames)
            self._finish()
        elif self._break_code is not None:
            self.reset(self._break_code)

    def _choose_pause(self) -> None:
        size = len(self._unsent)
        if not self._is_full and size > _HIGH_WATER:
            self._is_full = True
            self._client.pause_writing()
        elif self._is_full and size <= _LOW_WATER:
            self._is_full = False
            self._client.resume_writing()

    # Time

    def _mark(self) -> None:
        self._marked_at, self._since_mark = self._connection.now, 0

    def _note_progress(self, size: int) -> None:
        self._since_mark += size
        if self._since_mark >= _PROGRESS_BYTES:
            self._mark()

    def is_stalled(self, now: float, limit: float) -> bool:
        """Returns whether the client has not taken the unsent bytes for this many seconds."""
        return (bool(self._unsent) or self._has_end_to_send) and now - self._marked_at > limit

    # The end

    def _finish(self) -> None:
        """Called when the answer is sent. Tells a client that still sends its request to stop."""
        if not self.is_whole:
            self._connection.send(number_frame(RST_STREAM, self._id, ErrorCode.NO_ERROR))
        self._end(is_reset=not self.is_whole, is_complete=True)

    def reset(self, code: ErrorCode) -> None:
        """Ends the stream with an error."""
        if not self._is_finished:
            self._connection.send(number_frame(RST_STREAM, self._id, code))
            self._end(is_reset=True)

    def lose(self, *, at_once: bool = False) -> None:
        """Called when the client has reset the stream, or the connection has ended."""
        if not self._is_finished:
            self._end(at_once=at_once)

    def _end(self, *, is_reset: bool = False, is_complete: bool = False, at_once: bool = False) -> None:
        self._is_finished = self._is_closing = True
        self._unsent.clear()
        self._head, self._received = None, b""
        self._grant()
        connection = self._connection
        connection.note_unsent(self, is_waiting=False)
        connection.end_stream(self._id, is_reset=is_reset, is_complete=is_complete)
        if at_once:
            self._leave_client()
        else:  # the client may be writing just now
            connection.loop.call_soon(self._leave_client)

    def _leave_client(self) -> None:
        self._client.connection_lost(None)
        self._connection.take_back(self._client)

    def break_off(self) -> None:
        """Resets the stream after the unsent bytes, because the answer is incomplete."""
        if not (self._is_closing or self._is_finished):
            self._break_code = ErrorCode.INTERNAL_ERROR
            self._close()

    def close(self) -> None:
        """Ends the stream after the unsent bytes."""
        if self._is_closing or self._is_finished:
            return
        if self._has_begun and self._chunks is None and self._left == UNKNOWN_LENGTH:
            self._is_ended = True
        elif not self._is_ended:
            self._break_code = ErrorCode.INTERNAL_ERROR
        self._close()

    def _close(self) -> None:
        self._is_closing = True
        self._grant()
        if not self._unsent:
            self._mark()
        self.send_unsent()

    def abort(self) -> None:
        # A refused stream may be sent once more, so an instance must not know of its request.
        self.reset(ErrorCode.INTERNAL_ERROR if self._is_delivered else ErrorCode.REFUSED_STREAM)

    # As a transport

    def is_closing(self) -> bool:
        return self._is_closing

    def get_write_buffer_size(self) -> int:
        return len(self._unsent)

    def can_write_eof(self) -> bool:
        """Returns False: a reset tells a client with an incomplete request to stop sending."""
        return False

    def get_extra_info(self, name: str) -> Any:
        return self._connection.transport.get_extra_info(name)
