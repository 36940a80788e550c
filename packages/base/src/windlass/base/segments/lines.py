"""Defines the format of stored lines, and filters for lines.

A line is stored in the form in which the API returns it. It is JSON with fields in a fixed order, beginning
with fields of fixed width, so that a reader finds id and time without decoding. The last part of an id is the
line's position in its stream, so a line is found with one access. The rest of an id is random for each
writer, so the id of a lost line is never reused.
"""

from __future__ import annotations

import os
from datetime import date
from typing import Final, Protocol

import msgspec
from msgspec import UNSET, Struct, UnsetType

from windlass.base import ids
from windlass.base.clock import stamp

MAX_TIME: Final = 253_402_300_799_999
"""The last millisecond that a time stamp can express."""


class LogMessage(Protocol):
    """A message before it is stored as a line."""

    @property
    def at(self) -> int: ...

    @property
    def message(self) -> str: ...

    @property
    def pod(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def stage(self) -> str: ...


class StoredLine(Struct, frozen=True, gc=False):
    """A stored line. Filters find its version at the end of the line."""

    id: str
    created_at: str
    message: str
    pod_name: str = ""
    stage: str | UnsetType = UNSET
    version: str = ""


class _Message(Struct, gc=False):
    message: str


_POSITION_OFFSET = 36 - 12  # the position is the last twelve digits: enough for 256 TiB in a stream
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_SAMPLE = msgspec.json.encode(StoredLine("i" * 36, stamp(0), ""))
LINE_BEGIN: Final = _SAMPLE[: _SAMPLE.index(b"i" * 36)]
"""The first bytes of every line."""
_ID = slice(len(LINE_BEGIN), len(LINE_BEGIN) + 36)
_AT = slice(_SAMPLE.index(stamp(0).encode()), _SAMPLE.index(stamp(0).encode()) + len(stamp(0)))
_message_of = msgspec.json.Decoder(_Message).decode


def new_prefix() -> str:
    """Returns an id without its position: random, of version 8, which is for custom layouts (RFC 9562)."""
    text = os.urandom(10).hex()
    return f"{text[:8]}-{text[8:12]}-8{text[12:15]}-{'89ab'[int(text[15], 16) & 3]}{text[16:19]}-"


def id_at(prefix: str, position: int) -> str:
    return f"{prefix}{position:012x}"


def place_of(id: str) -> int | None:
    """Returns a line's position in its stream. It is valid until the line is removed."""
    return int(id[_POSITION_OFFSET:], 16) if ids.is_id(id) else None


def id_of(line: bytes) -> bytes:
    return line[_ID]


def time_of(line: bytes) -> bytes:
    """Returns the line's time stamp. Time stamps sort chronologically."""
    return line[_AT]


def instant(text: str) -> int:
    """Converts a time stamp to milliseconds; accepts shortened stamps. The 31st of a short month becomes the
    1st of the next month."""
    days = date(int(text[:4]), int(text[5:7]), 1).toordinal() + int(text[8:10]) - 1 - _EPOCH_DAY
    seconds = (days * 24 + int(text[11:13])) * 3600 + int(text[14:16]) * 60 + int(text[17:19])
    return seconds * 1000 + int(text[20:-1].ljust(3, "0"))


def moment(text: str) -> int:
    """Converts a client's time to milliseconds. It is a time stamp or a number of milliseconds."""
    return min(int(text), MAX_TIME) if text.isdecimal() else instant(text)


def split(chunk: bytes) -> list[bytes]:
    """Splits a chunk of complete lines."""
    lines = chunk.split(b"\n")
    lines.pop()
    # After a power cut, a file may contain zero bytes, which JSON never contains. Such lines are lost.
    return [line for line in lines if b"\0" not in line] if b"\0" in chunk else lines


class LineFilter(Struct, frozen=True):
    """A filter for lines by time, content and version."""

    since: int | None
    until: int | None
    contains: str
    _needle: bytes
    _from: bytes
    _before: bytes
    _end: bytes
    """The last bytes of a line with the wanted version."""

    @property
    def takes_all(self) -> bool:
        return not (self._from or self._before or self._needle or self._end)

    def may_take(self, minimum: int, greatest: int) -> bool:
        """Returns whether a segment with these times may contain matching lines."""
        return (self.since is None or greatest >= self.since) and (self.until is None or minimum < self.until)

    def of(self, chunk: bytes) -> list[bytes]:
        """Returns the matching lines of a chunk in their order."""
        if self._needle not in chunk or self._end not in chunk:
            return []
        lines = split(chunk)
        return lines if self.takes_all else [line for line in lines if self._accepts(line)]

    def last(self, chunk: bytes, limit: int) -> list[bytes]:
        """Returns the last `limit` matching lines of a chunk."""
        if self.takes_all and b"\0" not in chunk:
            return chunk[:-1].rsplit(b"\n", limit)[-limit:]
        return self.of(chunk)[-limit:]

    def _accepts(self, line: bytes) -> bool:
        if self._from and time_of(line) < self._from:
            return False
        if self._before and time_of(line) >= self._before:
            return False
        if not line.endswith(self._end):
            return False
        # If the line contains the escaped text, the message need not contain the text: `n` is in `\n`, and in
        # `created_at`. Therefore, the message is checked, too.
        return not self._needle or (self._needle in line and self.contains in _message_of(line).message)


def line_filter(
    since: int | None = None, until: int | None = None, contains: str = "", version: str = ""
) -> LineFilter:
    """Returns a filter for lines at or after `since`, before `until`, with `contains` in their message, and
    with this version. Omitted conditions match all lines."""
    return LineFilter(
        since,
        until,
        contains,
        msgspec.json.encode(contains)[1:-1],
        b"" if since is None else stamp(min(max(since, 0), MAX_TIME)).encode(),
        b"" if until is None else stamp(min(max(until, 0), MAX_TIME)).encode(),
        b'"version":%b}' % msgspec.json.encode(version) if version else b"",
    )


ALL_LINES: Final = line_filter()
