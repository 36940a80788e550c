"""Parses a chunked body to its end. Passes on only completely parsed bytes."""

from __future__ import annotations

import re
import sys
from typing import Final

from windlass.base.http_in.bounds import Bounds
from windlass.base.http_in.wire import FIELD_BLOCK, HEAD_END, Bad

_SIZE_PATTERN: Final = re.compile(rb"([0-9A-Fa-f]{1,15})(?:;[\t\x20-\x7e]*)?")
_MAX_LINE_BYTES: Final = 4096
_MAX_EXCESS_BYTES: Final = 16 * 1024
"""The framing bytes allowed in addition to those of reasonably large chunks. Chunk extensions could otherwise
carry a second body."""
_NORMAL_FRAMING_BYTES: Final = 16
# A server that merges trailers into the header fields would accept these trailers as its own header fields.
_FORBIDDEN_TRAILERS_PATTERN: Final = re.compile(
    rb"\r\n(?:content[-_]length|transfer[-_]encoding|host|connection|upgrade|forwarded|x[-_]forwarded[^:]*):",
    re.IGNORECASE,
)
_SMALL_SIZES: Final = {form % size: size for size in range(1, 0x1000) for form in (b"%x", b"%X")}
_IN_SIZE, _IN_DATA, _AFTER_DATA, _IN_TRAILERS = range(4)


class Chunks:
    """Parses a chunked body. `plain` removes the framing, for receivers without chunked encoding."""

    __slots__ = (
        "_at_once",
        "_bounds",
        "_chunks_left",
        "_excess",
        "_held",
        "_left",
        "_phase",
        "_plain",
        "_turn_left",
        "is_behind",
        "trailers",
    )

    def __init__(
        self, bounds: Bounds, *, plain: bool = False, limit: int = sys.maxsize, at_once: int = sys.maxsize
    ) -> None:
        """`limit` limits the number of chunks of the body, `at_once` the chunks parsed by one `feed` call."""
        self._at_once = self._turn_left = at_once
        self.is_behind = False
        """Whether more chunks have arrived than one call parses. `feed` must then be called again, even
        without new bytes."""
        self.trailers = b""
        """The trailers of a body that has ended. Each line begins with its line break."""
        self._bounds = bounds
        self._chunks_left = limit
        self._excess = 0
        self._held = b""
        self._left = 0
        self._phase = _IN_SIZE
        self._plain = plain

    def allow_any_number(self) -> None:
        self._chunks_left = sys.maxsize

    def feed(self, data: bytes) -> tuple[bytes, bytes | None]:
        """Returns the bytes to pass on, and the bytes after the body: None until the body has ended."""
        if self._held:
            data, self._held = self._held + data, b""
        at, size, payload = 0, len(data), []
        self._turn_left, self.is_behind = self._at_once, False
        while at < size:
            if self._turn_left <= 0 and self._phase is _IN_SIZE:
                self._held, self.is_behind = data[at:], True
                break
            begin, before = at, self._phase
            if before == _IN_DATA:
                at = self._skip_data(at, size)
                payload.append(data[begin:at])
            elif before == _AFTER_DATA:
                at = self._skip_line_end(data, at, size)
            elif before == _IN_SIZE:
                at = self._small_chunks(data, at, payload)
                at = self._read_size_line(data, at, size)
            else:
                at = self._read_trailers(data, at)
                if at > begin:
                    self.trailers = data[begin : at - len(HEAD_END)]
                    return (b"".join(payload) if self._plain else data[:at]), data[at:]
            if at == begin:  # the framing is incomplete
                self._held = data[at:]
                break
        return (b"".join(payload) if self._plain else data[:at]), None

    def _skip_data(self, position: int, size: int) -> int:
        step = min(self._left, size - position)
        self._left -= step
        if not self._left:
            self._phase = _AFTER_DATA
        return position + step

    def _skip_line_end(self, data: bytes, position: int, size: int) -> int:
        if not b"\r\n".startswith(data[position : position + 2]):
            raise Bad(400, "A chunk is longer than its declared size.")
        if size - position < 2:
            return position
        self._phase = _IN_SIZE
        return position + 2

    def _small_chunks(self, data: bytes, position: int, payload: list[bytes]) -> int:
        """Skips all complete small chunks in one tight loop. A body may consist of small chunks only, while
        other clients wait."""
        while self._chunks_left > 0 and self._turn_left > 0:
            end = data.find(b"\r\n", position, position + 5)
            length = _SMALL_SIZES.get(data[position:end]) if end > position else None
            if length is None or data[end + 2 + length : end + 4 + length] != b"\r\n":
                return position
            if self._plain:
                payload.append(data[end + 2 : end + 2 + length])
            position = end + 4 + length
            self._chunks_left -= 1
            self._turn_left -= 1
        return position

    def _read_size_line(self, data: bytes, position: int, size: int) -> int:
        end = data.find(b"\r\n", position, position + _MAX_LINE_BYTES)
        if end < 0:
            if size - position >= _MAX_LINE_BYTES or b"\n" in data[position:]:
                raise Bad(400, "The size of a chunk is not given properly.")
            return position
        size_line = _SIZE_PATTERN.fullmatch(data, position, end)
        if not size_line:
            raise Bad(400, "The size of a chunk is not given properly.")
        self._left = int(size_line[1], 16)
        self._excess = max(0, self._excess + end - position - _NORMAL_FRAMING_BYTES - 2 * self._left)
        if self._excess > _MAX_EXCESS_BYTES:
            raise Bad(400, "The body is more framing than content.")
        if self._left:
            self._chunks_left -= 1
            self._turn_left -= 1
            if self._chunks_left < 0:
                raise Bad(400, "The body has too many chunks: send larger ones.")
            self._phase = _IN_DATA
            return end + 2
        self._phase = _IN_TRAILERS
        return end  # this line break may begin the trailers

    def _read_trailers(self, data: bytes, position: int) -> int:
        most = self._bounds.trailer_bytes
        end = data.find(b"\r\n\r\n", position, position + most)
        if end < 0:
            if len(data) - position >= most:
                raise Bad(431, "The trailers of a body are too long.")
            return position
        if data.count(b"\r\n", position, end) > self._bounds.fields:
            raise Bad(431, f"There are more than {self._bounds.fields} trailers.")
        if end > position and (
            not FIELD_BLOCK.fullmatch(data, position, end)
            or _FORBIDDEN_TRAILERS_PATTERN.search(data, position, end)
        ):
            raise Bad(400, "The trailers of the body are malformed.")
        return end + 4
