"""Frames of HTTP/2 (RFC 9113): splits received bytes into frames, and makes those that are sent. Pure."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final, NamedTuple

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""The first bytes of each client."""
MAX_FRAME_BYTES: Final = 16 * 1024
"""Maximum size of the content of a frame, which is the default of the protocol."""
MAX_WINDOW: Final = 2**31 - 1
DEFAULT_WINDOW: Final = 65_535
_HEAD_BYTES: Final = 9

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    range(10)
)
END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
HAS_PRIORITY: Final = 0x20

HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE = 1, 2, 3, 4
MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE = 5, 6


class ErrorCode(IntEnum):
    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    ENHANCE_YOUR_CALM = 11


class ConnectionFault(Exception):
    """The client has broken the protocol, or goes beyond a limit: the connection ends."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class StreamFault(Exception):
    """The client has broken the protocol in one stream, which ends."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class Http2Frame(NamedTuple):
    kind: int
    flags: int
    stream: int
    content: bytes


class FrameBuffer:
    """Splits received bytes into frames."""

    __slots__ = ("_at", "_data", "_is_begun")

    def __init__(self, *, has_preface: bool = True) -> None:
        """`has_preface`: whether the frames are those of a client, which begin with the preface."""
        self._data = b""
        self._at = 0
        self._is_begun = not has_preface
        """Whether the preface was read."""

    @property
    def is_empty(self) -> bool:
        return self._at >= len(self._data)

    def add(self, data: bytes) -> None:
        self._data = data if self.is_empty else self._data[self._at :] + data
        self._at = 0

    def next(self) -> Http2Frame | None:
        """Returns the next frame if it is complete. Raises ConnectionFault."""
        data, at = self._data, self._at
        if not self._is_begun:
            if not PREFACE.startswith(data[: len(PREFACE)]):
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "it does not begin with the preface")
            if len(data) < len(PREFACE):
                return None
            self._is_begun = True
            at = self._at = len(PREFACE)
        begin = at + _HEAD_BYTES
        if len(data) < begin:
            return None
        size = data[at] << 16 | data[at + 1] << 8 | data[at + 2]
        if size > MAX_FRAME_BYTES:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a frame is too large")
        end = begin + size
        if len(data) < end:
            return None
        self._at = end
        stream = int.from_bytes(data[at + 5 : begin]) & MAX_WINDOW
        return Http2Frame(data[at + 3], data[at + 4], stream, data[begin:end])


_HEAD: Final = struct.Struct(">HBBBI")


def frame(kind: int, flags: int, stream: int, content: bytes = b"") -> bytes:
    size = len(content)
    return _HEAD.pack(size >> 8, size & 0xFF, kind, flags, stream) + content


def settings_frame(values: dict[int, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", key, value) for key, value in values.items()))


def number_frame(kind: int, stream: int, number: int) -> bytes:
    """Makes a frame that consists of a number: RST_STREAM and WINDOW_UPDATE."""
    return frame(kind, 0, stream, number.to_bytes(4))


def goaway_frame(last_stream: int, code: ErrorCode) -> bytes:
    return frame(GOAWAY, 0, 0, struct.pack(">II", last_stream, code))


def header_frames(stream: int, block: bytes, *, is_last: bool) -> bytes:
    """Makes the frames of a header block. `is_last`: the stream ends with it."""
    flags = END_STREAM if is_last else 0
    if len(block) <= MAX_FRAME_BYTES:
        return frame(HEADERS, flags | END_HEADERS, stream, block)
    parts = [block[at : at + MAX_FRAME_BYTES] for at in range(0, len(block), MAX_FRAME_BYTES)]
    frames = [frame(HEADERS, flags, stream, parts[0])]
    frames += [frame(CONTINUATION, 0, stream, part) for part in parts[1:-1]]
    return b"".join([*frames, frame(CONTINUATION, END_HEADERS, stream, parts[-1])])


def without_padding(received: Http2Frame) -> bytes:
    """Returns the content of a DATA or HEADERS frame without its padding. Raises ConnectionFault."""
    content = received.content
    if not received.flags & PADDED:
        return content
    if not content or content[0] >= len(content):
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "the padding is longer than the frame")
    return content[1 : len(content) - content[0]]


_SIZES: Final = {RST_STREAM: 4, WINDOW_UPDATE: 4, PING: 8}
_OF_CONNECTION: Final = frozenset({SETTINGS, PING, GOAWAY})
_OF_STREAM: Final = frozenset({DATA, HEADERS, PRIORITY, RST_STREAM})
PRIORITY_BYTES: Final = 5
_MIN_GOAWAY_BYTES: Final = 8


def check_frame(received: Http2Frame) -> None:
    """Checks the size and the stream of a frame. Raises ConnectionFault or StreamFault."""
    kind, size = received.kind, len(received.content)
    if kind == PUSH_PROMISE:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a client cannot push")
    if kind in _OF_CONNECTION and received.stream:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a frame of the connection in a stream")
    if kind in _OF_STREAM and not received.stream % 2 and not (kind == PRIORITY and received.stream):
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a frame without a stream of a client")
    check_size(received)
    if kind == PRIORITY:
        if size != PRIORITY_BYTES:
            raise StreamFault(ErrorCode.FRAME_SIZE_ERROR, "the size of PRIORITY is not valid")
        if depends_on_itself(received.content, received.stream):
            raise StreamFault(ErrorCode.PROTOCOL_ERROR, "a stream depends on itself")


def check_size(received: Http2Frame) -> None:
    """Checks the size of a frame of any side. Raises ConnectionFault."""
    size = len(received.content)
    if _SIZES.get(received.kind, size) != size or (received.kind == GOAWAY and size < _MIN_GOAWAY_BYTES):
        raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "the size of a frame is not valid")


def depends_on_itself(priority: bytes, stream: int) -> bool:
    return int.from_bytes(priority[:4]) & MAX_WINDOW == stream


def settings_of(received: Http2Frame) -> list[tuple[int, int]]:
    """Returns the entries of a SETTINGS frame. Raises ConnectionFault."""
    if len(received.content) % 6:
        raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "the size of SETTINGS is not valid")
    entries = list(struct.iter_unpack(">HI", received.content))
    for key, value in entries:
        if key == ENABLE_PUSH and value > 1:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "ENABLE_PUSH is not valid")
        if key == INITIAL_WINDOW_SIZE and value > MAX_WINDOW:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "INITIAL_WINDOW_SIZE is not valid")
        if key == MAX_FRAME_SIZE and not MAX_FRAME_BYTES <= value < 2**24:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "MAX_FRAME_SIZE is not valid")
    return entries
