"""A connection of a client that speaks HTTP/2 (RFC 9113): reads its frames, and opens its streams.

Each stream is served as a connection of HTTP/1.1 with one request; see `http2_stream`. This module knows
frames, windows and limits. It offers no server push, no priorities, and no tunnels.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final

from windlass.base.http_in.bounds import Bounds
from windlass.base.http_in.connections import Admission, network_of
from windlass.routers.builtin import http2_frames as frames
from windlass.routers.builtin.hpack import BlockTooLarge, Field, HeaderDecoder, InvalidBlock
from windlass.routers.builtin.http2_frames import (
    ConnectionFault,
    ErrorCode,
    FrameBuffer,
    Http2Frame,
    StreamFault,
    check_frame,
    frame,
    goaway_frame,
    number_frame,
    settings_frame,
    settings_of,
    without_padding,
)
from windlass.routers.builtin.http2_heads import request_head, trailer_lines
from windlass.routers.builtin.http2_limits import FrameAllowance, FreeFrames, cost_of_control_frame, work_of
from windlass.routers.builtin.http2_stream import STREAM_WINDOW_BYTES, StreamClient, StreamTransport
from windlass.routers.builtin.requests import Fields
from windlass.routers.builtin.shared_state import SharedState
from windlass.routers.builtin.table import Paths
from windlass.routers.rules import DEFAULT_TIMES

_CONNECTION_WINDOW_BYTES: Final = 1024 * 1024
"""Number of bytes of all bodies that a client may send before instances have taken them."""
_CLOSED_STREAMS: Final = 256
"""Number of closed streams that are remembered: frames for them may be on their way."""
_MAX_BYTES_AT_ONCE: Final = 64 * 1024
"""Number of bytes that are sent together."""
_WORK_PER_TURN: Final = 64
_GOODBYE_SECONDS: Final = 1.0
"""Time in which a client learns that the connection ends, and what it has sent until then is answered."""
_SPARE_FIELDS: Final = 8


class Http2Connection(asyncio.Protocol):
    __slots__ = (
        "_block",
        "_block_stream",
        "_blocked_at",
        "_closed",
        "_control",
        "_decoder",
        "_find",
        "_free_frames",
        "_fresh",
        "_granted",
        "_has_settings",
        "_highest",
        "_incomplete_since",
        "_is_continuing",
        "_is_served",
        "_last",
        "_leaving_at",
        "_outgoing",
        "_outgoing_bytes",
        "_port",
        "_received",
        "_resets",
        "_shared",
        "_since",
        "_spare",
        "_stream_window",
        "_streams",
        "_waiting",
        "_window_left",
        "address",
        "bounds",
        "covered",
        "is_blocked",
        "limits",
        "loop",
        "names",
        "network",
        "opened",
        "times",
        "transport",
        "window",
    )

    def __init__(
        self,
        shared_state: SharedState,
        find_paths: Callable[[bytes], Paths | None],
        port: int,
        names: Sequence[str],
        address: str,
    ) -> None:
        """`names`: the names of the certificate that the client has seen. `address`: the client's address."""
        self._shared, self._find, self._port = shared_state, find_paths, port
        self.names, self.address = tuple(names), address
        self.network = network_of(address)
        self.bounds: Bounds = shared_state.bounds
        self.limits = limits = shared_state.http2_limits
        self.loop = shared_state.loop
        self._since = self.opened = now = self.loop.time()
        """The time since which there is no request."""
        self.times = DEFAULT_TIMES
        self.covered = b""
        """The last host for which the certificate was found to be valid."""
        self._spare: list[Fields] = []
        """The parsed headers of earlier requests, for the next ones."""
        # What arrives
        self._received = FrameBuffer()
        self._decoder = HeaderDecoder(self.bounds.head_bytes)
        self._has_settings = False
        self._block = b""
        """The beginning of a header block whose end is still to come."""
        self._block_stream: Http2Frame | None = None
        """The frame that has begun it."""
        self._incomplete_since = 0.0
        """The time since which a frame or a header block is incomplete; 0 if none is."""
        self._is_continuing = False
        """Whether received frames wait for a later turn of the event loop."""
        self._resets = FrameAllowance(limits.resets, limits.resets_per_second, now)
        self._control = FrameAllowance(limits.control_frames, limits.control_frames_per_second, now)
        self._free_frames = FreeFrames(limits.free_frames_per_data_frame)
        self._window_left = frames.DEFAULT_WINDOW
        self._granted = 0
        # Streams
        self._streams: dict[int, StreamTransport] = {}
        self._fresh: list[StreamTransport] = []
        """The streams whose heads are passed on at the end of this turn."""
        self._closed: OrderedDict[int, bool] = OrderedDict()
        """The streams that were closed last, and whether this side has reset them."""
        self._highest = 0
        self._last = frames.MAX_WINDOW
        """The last stream that is served."""
        self._leaving_at = 0.0
        """When the client was told that the connection ends; 0 if it was not."""
        self._is_served = False
        # What is sent
        self.window = frames.DEFAULT_WINDOW
        self._stream_window = frames.DEFAULT_WINDOW
        self._waiting: dict[StreamTransport, None] = {}
        """The streams with unsent bytes, the one whose turn is next first."""
        self._outgoing: list[bytes] | None = None
        """Frames that are sent together at the end of a turn; None outside of one."""
        self._outgoing_bytes = 0
        self.is_blocked = False
        """Whether the write buffer is full, because the client does not read."""
        self._blocked_at = 0.0

    @property
    def now(self) -> float:
        return self._shared.now

    # The connection

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        shared = self._shared
        if shared.stopping or shared.connections.admit(self) is not Admission.FREE:
            transport.abort()
            return
        self.send(
            settings_frame(
                {
                    frames.MAX_CONCURRENT_STREAMS: self.limits.streams,
                    frames.INITIAL_WINDOW_SIZE: STREAM_WINDOW_BYTES,
                    frames.MAX_HEADER_LIST_SIZE: self.bounds.head_bytes,
                }
            )
            + number_frame(frames.WINDOW_UPDATE, 0, _CONNECTION_WINDOW_BYTES - self._window_left)
        )
        self._window_left = _CONNECTION_WINDOW_BYTES
        if shared.give is not None:
            self.leave()

    def connection_lost(self, exc: Exception | None) -> None:
        self._shared.connections.remove(self)
        for stream in list(self._streams.values()):
            stream.lose(at_once=True)
        self._waiting.clear()
        self._fresh.clear()

    def eof_received(self) -> bool:
        return False

    def abort(self) -> None:
        self.transport.abort()

    def pause_writing(self) -> None:
        self.is_blocked = True
        self._blocked_at = self._shared.now
        self._shared.connections.unsent(self, self.transport.get_write_buffer_size())
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        self.is_blocked = False
        self._shared.connections.sent(self)
        self._send_waiting()
        if not self.is_blocked and not self._is_continuing:
            self._continue()

    # Time

    def waits_since(self) -> float | None:
        if self.is_blocked:
            return self._blocked_at
        return None if self._streams else self._since

    def age(self, now: float) -> None:
        bounds = self.bounds
        if self._shared.stopping or self._shared.give is not None:
            self.leave()
        if self.is_blocked:
            if now - self._blocked_at > bounds.stall_seconds:
                self.abort()
            return
        if self._leaving_at and now - self._leaving_at > _GOODBYE_SECONDS:
            self._stop_opening()
        if self._incomplete_since and (self._block_stream is not None or not self._streams):
            if now - self._incomplete_since > bounds.head_seconds:
                self._disconnect(ErrorCode.PROTOCOL_ERROR)
        elif not self._streams:
            idle = (self.times.idle or bounds.idle_seconds) if self._is_served else bounds.head_seconds
            if now - self._since > idle:
                self._disconnect(ErrorCode.NO_ERROR)

    # The end

    def leave(self) -> None:
        """Tells the client to open another connection. What it has sent until it knows is still answered."""
        if not self._leaving_at:
            self._leaving_at = self.loop.time()
            self.send(goaway_frame(frames.MAX_WINDOW, ErrorCode.NO_ERROR))

    def _stop_opening(self) -> None:
        if self._last == frames.MAX_WINDOW:
            self._last = self._highest
            self.send(goaway_frame(self._last, ErrorCode.NO_ERROR))
        if not self._streams:
            self.transport.close()

    def _disconnect(self, code: ErrorCode) -> None:
        self.send(goaway_frame(self._highest, code))
        self._flush()
        self._outgoing = None
        for stream in list(self._streams.values()):
            stream.lose()
        self.transport.close()

    # What is sent

    def send(self, data: bytes) -> None:
        if self._outgoing is not None:
            self._outgoing.append(data)
            self._outgoing_bytes += len(data)
            if self._outgoing_bytes > _MAX_BYTES_AT_ONCE:
                self._flush()
                self._outgoing = []
        else:
            self._write(data)

    def _write(self, data: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(data)
            if self.is_blocked:  # heads have no windows
                self._shared.connections.unsent(self, self.transport.get_write_buffer_size())

    def send_data(self, data: bytes, size: int, *, is_cut: bool) -> None:
        """Sends a DATA frame with a content of this size. `is_cut`: the windows permit no more now."""
        self.window -= size
        self._free_frames.note_data(size, is_cut=is_cut)
        self.send(data)

    def _flush(self) -> None:
        outgoing, self._outgoing, self._outgoing_bytes = self._outgoing, None, 0
        if outgoing:
            self._write(outgoing[0] if len(outgoing) == 1 else b"".join(outgoing))

    def note_unsent(self, stream: StreamTransport, *, is_waiting: bool) -> None:
        self._waiting.pop(stream, None)
        if is_waiting:
            self._waiting[stream] = None

    def _send_waiting(self) -> None:
        """Lets streams with unsent bytes send in turn."""
        for stream in list(self._waiting):
            if self.is_blocked:
                break
            if self.window > 0 or not stream.get_write_buffer_size():
                stream.send_unsent()

    def grant(self, size: int) -> None:
        """Grants the client a new window for this many bytes that instances have taken."""
        self._granted += size
        if self._granted >= _CONNECTION_WINDOW_BYTES // 2:
            self.send(number_frame(frames.WINDOW_UPDATE, 0, self._granted))
            self._window_left += self._granted
            self._granted = 0

    # What arrives

    def data_received(self, data: bytes) -> None:
        self._received.add(data)
        if not self._is_continuing and not self.is_blocked:
            self._read()

    def _continue(self) -> None:
        self._is_continuing = False
        if self.is_blocked or self.transport.is_closing():
            return
        self.transport.resume_reading()
        self._read()

    def _read(self) -> None:
        """Handles received frames, as many as a connection may in one turn."""
        self._outgoing = []
        left = _WORK_PER_TURN
        try:
            while left > 0 and not self.transport.is_closing():
                received = self._received.next()
                if received is None:
                    break
                left -= work_of(received)
                self._incomplete_since = self._incomplete_since if self._block_stream else 0.0
                self._handle(received)
            else:
                if not self.transport.is_closing():
                    self._is_continuing = True
                    self.transport.pause_reading()
                    self._shared.connections.turns.wait(self._continue)
            if not self._incomplete_since and not (self._received.is_empty and self._block_stream is None):
                self._incomplete_since = self._shared.now
            self._pass_heads_on()
        except ConnectionFault as fault:
            self._shared.connections.refuse(f"HTTP/2, {fault}")
            self._disconnect(fault.code)
        finally:
            self._flush()

    def _pass_heads_on(self) -> None:
        fresh, self._fresh = self._fresh, []
        for stream in fresh:
            stream.pass_head_on()

    def _handle(self, received: Http2Frame) -> None:
        kind = received.kind
        if self._block_stream is not None and (
            kind != frames.CONTINUATION or received.stream != self._block_stream.stream
        ):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a frame within a header block")
        if not self._has_settings and (kind != frames.SETTINGS or received.flags & frames.ACK):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "no SETTINGS at the beginning")
        try:
            check_frame(received)
            if (handle := _HANDLERS.get(kind)) is not None:
                handle(self, received)
            else:  # PRIORITY, which changes nothing here, and unknown frames
                self._take_control(received)
        except StreamFault as fault:
            self._reset(received.stream, fault)

    def _take_control(self, received: Http2Frame, number: int = 1) -> None:
        cost = number * cost_of_control_frame(len(received.content))
        if not self._control.take(cost, self._shared.now):
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many control frames")

    def _take_useful_control(self, received: Http2Frame) -> None:
        if not self._free_frames.take():
            self._take_control(received)

    def _reset(self, id: int, fault: StreamFault) -> None:
        self._shared.connections.refuse(f"HTTP/2 stream, {fault}")
        self._take_reset()
        stream = self._streams.get(id)
        if stream is None:
            self.send(number_frame(frames.RST_STREAM, id, fault.code))
            self._remember(id, is_reset=True)
        else:
            stream.reset(fault.code)

    def _take_reset(self) -> None:
        if not self._resets.take(1, self._shared.now):
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many streams were reset")

    def _remember(self, id: int, *, is_reset: bool) -> None:
        self._closed[id] = is_reset
        if len(self._closed) > _CLOSED_STREAMS:
            self._closed.popitem(last=False)

    # Header blocks

    def _handle_headers(self, received: Http2Frame) -> None:
        block = without_padding(received)
        if received.flags & frames.HAS_PRIORITY:
            if len(block) < frames.PRIORITY_BYTES or frames.depends_on_itself(block, received.stream):
                # The block is not decoded, so the connection cannot go on.
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a priority is not valid")
            block = block[frames.PRIORITY_BYTES :]
        if received.flags & frames.END_HEADERS:
            self._handle_block(received, block)
            return
        self._block_stream, self._block = received, block

    def _handle_continuation(self, received: Http2Frame) -> None:
        begun = self._block_stream
        if begun is None:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a CONTINUATION frame continues nothing")
        self._take_control(Http2Frame(received.kind, 0, 0, b""))
        self._block += received.content
        if len(self._block) > self.bounds.head_bytes:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "a header block is too large")
        if received.flags & frames.END_HEADERS:
            block, self._block, self._block_stream = self._block, b"", None
            self._incomplete_since = 0.0
            self._handle_block(begun, block)

    def _handle_block(self, received: Http2Frame, block: bytes) -> None:
        try:
            fields = self._decoder.decode(block)
        except InvalidBlock as error:
            raise ConnectionFault(ErrorCode.COMPRESSION_ERROR, "a header block is not valid") from error
        except BlockTooLarge as error:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "a header block is too large") from error
        id, is_last = received.stream, bool(received.flags & frames.END_STREAM)
        stream = self._streams.get(id)
        if stream is not None:
            if stream.is_whole:
                raise StreamFault(ErrorCode.STREAM_CLOSED, "the request has ended")
            if not is_last:
                raise StreamFault(ErrorCode.PROTOCOL_ERROR, "trailers do not end the stream")
            stream.end_request(trailer_lines(fields))
        elif self._highest < id <= self._last:
            self._highest = id
            self._open(id, fields, is_last=is_last)
        elif id > self._last or self._closed.get(id):  # on its way when this side left, or reset the stream
            self._take_control(received)
        elif id in self._closed:
            raise ConnectionFault(ErrorCode.STREAM_CLOSED, "HEADERS in a closed stream")
        else:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "the numbers of streams do not grow")

    def _open(self, id: int, fields: Sequence[Field], *, is_last: bool) -> None:
        if len(self._streams) >= self.limits.streams:
            raise StreamFault(ErrorCode.REFUSED_STREAM, "too many streams")
        head = request_head(fields, has_body=not is_last, most=self.bounds.fields)
        client = StreamClient(self._shared, self._find, self._port, self)
        if self._spare:
            client.take_fields(self._spare.pop())
        stream = self._streams[id] = StreamTransport(self, id, self._stream_window, client)
        stream.begin(head, is_whole=is_last)
        client.connection_made(stream)
        if stream.is_finished:
            return
        if is_last:
            stream.pass_head_on()
        else:
            self._fresh.append(stream)

    # The other frames

    def _handle_data(self, received: Http2Frame) -> None:
        size = len(received.content)
        self._window_left -= size
        if self._window_left < 0:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "bodies are larger than their window")
        data = without_padding(received)
        is_last = bool(received.flags & frames.END_STREAM)
        if not data and not is_last:
            self._take_control(received)
        stream = self._streams.get(received.stream)
        if stream is not None:
            stream.receive(data, size, is_last=is_last)
            return
        if not data and is_last:
            self._take_control(received)
        self.grant(size)
        self._check_stream(received, may_be_closed=self._closed.get(received.stream, False))

    def _check_stream(self, received: Http2Frame, *, may_be_closed: bool = True) -> None:
        """Checks a frame for a stream that is not open."""
        if received.stream > self._highest or not received.stream % 2:
            if received.stream <= self._last:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a frame for a stream that was not opened")
        elif not may_be_closed:
            raise ConnectionFault(ErrorCode.STREAM_CLOSED, "DATA in a closed stream")

    def _handle_reset(self, received: Http2Frame) -> None:
        stream = self._streams.get(received.stream)
        if stream is None:
            self._check_stream(received)
            self._take_control(received)
            return
        self._take_reset()
        stream.lose()

    def _handle_settings(self, received: Http2Frame) -> None:
        self._take_control(received)
        self._has_settings = True
        if received.flags & frames.ACK:
            if received.content:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "the size of SETTINGS is not valid")
            return
        for key, value in settings_of(received):
            if key == frames.INITIAL_WINDOW_SIZE:
                self._change_window(value)
        self.send(frame(frames.SETTINGS, frames.ACK, 0))
        self._send_waiting()

    def _change_window(self, size: int) -> None:
        difference, self._stream_window = size - self._stream_window, size
        for stream in self._streams.values():
            stream.window += difference
            if stream.window > frames.MAX_WINDOW:
                raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "a window is too large")

    def _handle_ping(self, received: Http2Frame) -> None:
        self._take_useful_control(received)
        if not received.flags & frames.ACK:
            self.send(frame(frames.PING, frames.ACK, 0, received.content))

    def _handle_goaway(self, received: Http2Frame) -> None:
        """The client opens no further streams. Those that are open are served to their end."""
        self._take_control(received)
        self._last = self._highest
        self._leaving_at = self._leaving_at or self.loop.time()
        if not self._streams:
            self.transport.close()

    def _handle_window_update(self, received: Http2Frame) -> None:
        self._take_useful_control(received)
        size = int.from_bytes(received.content) & frames.MAX_WINDOW
        if not received.stream:
            self.window += size
            if not size or self.window > frames.MAX_WINDOW:
                code = ErrorCode.FLOW_CONTROL_ERROR if size else ErrorCode.PROTOCOL_ERROR
                raise ConnectionFault(code, "the change of a window is not valid")
            self._send_waiting()
            return
        stream = self._streams.get(received.stream)
        if stream is None:
            self._check_stream(received)
            return
        stream.window += size
        if not size or stream.window > frames.MAX_WINDOW:
            code = ErrorCode.FLOW_CONTROL_ERROR if size else ErrorCode.PROTOCOL_ERROR
            raise StreamFault(code, "the change of a window is not valid")
        if stream in self._waiting:
            stream.send_unsent()

    # Streams that end

    def end_stream(self, id: int, *, is_reset: bool, is_complete: bool) -> None:
        """`is_reset`: this side has reset the stream, so that frames for it may be on their way."""
        del self._streams[id]
        self._remember(id, is_reset=is_reset)
        self._is_served = True
        if is_complete:
            self._resets.give()
        if not self._streams:
            self._since = self._shared.now
            if self._last != frames.MAX_WINDOW and not self.transport.is_closing():
                self.loop.call_soon(self._close_if_idle)

    def _close_if_idle(self) -> None:
        if not self._streams:
            self.transport.close()

    def take_back(self, client: StreamClient) -> None:
        """Takes what the next stream can use of the client of an ended one."""
        if len(self._spare) < _SPARE_FIELDS:
            self._spare.append(client.leave_fields())
        self.covered, self.times = client.covered, client.times


_HANDLERS: Final[dict[int, Callable[[Http2Connection, Http2Frame], None]]] = {
    frames.DATA: Http2Connection._handle_data,
    frames.HEADERS: Http2Connection._handle_headers,
    frames.RST_STREAM: Http2Connection._handle_reset,
    frames.SETTINGS: Http2Connection._handle_settings,
    frames.PING: Http2Connection._handle_ping,
    frames.GOAWAY: Http2Connection._handle_goaway,
    frames.WINDOW_UPDATE: Http2Connection._handle_window_update,
    frames.CONTINUATION: Http2Connection._handle_continuation,
}
