"""Limits for clients of HTTP/2, against floods of frames that cost them nothing.

Each frame that carries no request and no body takes something from an allowance of its connection, which
grows with time and with the answers that the client takes. A client that has used it up is disconnected.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from windlass.routers.builtin.http2_frames import CONTINUATION, HEADERS, Http2Frame

_BYTES_PER_FURTHER_UNIT: Final = 64
"""A control frame costs one more for each of this many bytes."""
_REQUEST_WORK: Final = 4
"""The work of a frame that opens a stream. That of each other frame is 1."""
_BLOCK_BYTES_PER_WORK: Final = 256
"""Header blocks take one more for each of this many bytes: a thousand fields fit into some of them."""
_MAX_FREE_FRAMES: Final = 4096
_MIN_USEFUL_BYTES: Final = 256
"""Size of a DATA frame that permits frames which are not counted. A smaller one does so if nothing else of
the answer is left: otherwise, a client could grant windows byte by byte for ever."""


class Http2Limits(Struct, frozen=True, kw_only=True):
    """The limits of each connection. Tests can change each of them."""

    streams: int = 100
    """The maximum number of streams that are open at the same time."""
    resets: int = 100
    """The number of streams that may be reset, beyond one for each complete answer: a browser that leaves a
    page resets at most all streams that are open."""
    resets_per_second: float = 10.0
    control_frames: int = 1000
    """The number of PING, SETTINGS, PRIORITY, WINDOW_UPDATE, empty and unknown frames."""
    control_frames_per_second: float = 100.0
    free_frames_per_data_frame: int = 3
    """The number of WINDOW_UPDATE and PING frames for each DATA frame of an answer that are not counted:
    clients enlarge two windows, and those of gRPC measure the time of a round trip."""


class FrameAllowance:
    """A number of events that grows with time up to a maximum."""

    __slots__ = ("_filled_at", "_left", "_most", "_per_second")

    def __init__(self, most: float, per_second: float, now: float) -> None:
        self._most = self._left = most
        self._per_second = per_second
        self._filled_at = now

    def give(self, number: float = 1) -> None:
        self._left = min(self._most, self._left + number)

    def take(self, number: float, now: float) -> bool:
        """Returns whether there was enough."""
        self.give(self._per_second * max(0.0, now - self._filled_at))
        self._filled_at = now
        self._left -= number
        return self._left >= 0


class FreeFrames:
    """The number of WINDOW_UPDATE and PING frames that are not counted."""

    __slots__ = ("_left", "_per_data_frame")

    def __init__(self, per_data_frame: int) -> None:
        self._left, self._per_data_frame = 0, per_data_frame

    def note_data(self, size: int, *, is_cut: bool) -> None:
        """Called for each DATA frame of an answer. `is_cut`: the windows of the client permit no more now."""
        if not is_cut or size >= _MIN_USEFUL_BYTES:
            self._left = min(self._left + self._per_data_frame, _MAX_FREE_FRAMES)

    def take(self) -> bool:
        if not self._left:
            return False
        self._left -= 1
        return True


def cost_of_control_frame(size: int) -> int:
    return 1 + size // _BYTES_PER_FURTHER_UNIT


def work_of(received: Http2Frame) -> int:
    """Returns how much of a turn of the event loop a frame takes."""
    if received.kind == HEADERS:
        return _REQUEST_WORK + len(received.content) // _BLOCK_BYTES_PER_WORK
    if received.kind == CONTINUATION:
        return 1 + len(received.content) // _BLOCK_BYTES_PER_WORK
    return 1
