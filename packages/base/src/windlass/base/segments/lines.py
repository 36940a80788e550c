"""The format of a stored line, and filters for lines.

A line is stored as it is answered: JSON with its fields in a fixed order, those of fixed width first, so that
a reader finds id and time without decoding. The last part of an id is the position of the line in its stream,
so a line is found by its id with one look. The rest is random for each writer, so the id of a lost line is
never given to another.
"""

from __future__ import annotations

import os
from datetime import date
from typing import Final, Protocol

import msgspec
from msgspec import UNSET, Struct, UnsetType

from windlass.base import ids
from windlass.base.clock import stamp

LATEST: Final = 253_402_300_799_999
"""The last millisecond that a stamp can express."""


class LogMessage(Protocol):
    """A message before it becomes a stored line."""

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
    """A stored line. Its version is at the end, where it can be found without decoding."""

    id: str
    created_at: str
    message: str
    pod_name: str = ""
    stage: str | UnsetType = UNSET
    version: str = ""


class _Message(Struct, gc=False):
    message: str


_PLACE = 36 - 12  # the last twelve of its digits: enough for 256 TiB in one stream
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_SAMPLE = msgspec.json.encode(StoredLine("i" * 36, stamp(0), ""))
BEGIN: Final = _SAMPLE[: _SAMPLE.index(b"i" * 36)]
"""The beginning of every line."""
_ID = slice(len(BEGIN), len(BEGIN) + 36)
_AT = slice(_SAMPLE.index(stamp(0).encode()), _SAMPLE.index(stamp(0).encode()) + len(stamp(0)))
_message_of = msgspec.json.Decoder(_Message).decode


def new_prefix() -> str:
    """Returns all of an id but the position: random, of version 8, which is for custom layouts (RFC 9562)."""
    text = os.urandom(10).hex()
    return f"{text[:8]}-{text[8:12]}-8{text[12:15]}-{'89ab'[int(text[15], 16) & 3]}{text[16:19]}-"


def id_at(prefix: str, place: int) -> str:
    return f"{prefix}{place:012x}"


def place_of(id: str) -> int | None:
    """Returns the position of a line in its stream, which is valid as long as the line is kept."""
    return int(id[_PLACE:], 16) if ids.is_id(id) else None


def id_of(line: bytes) -> bytes:
    return line[_ID]


def time_of(line: bytes) -> bytes:
    """Returns the time as a stamp that sorts chronologically."""
    return line[_AT]


def instant(text: str) -> int:
    """Returns the milliseconds of a stamp, also of a shortened one. The 31st of a short month becomes the 1st
    of the next."""
    days = date(int(text[:4]), int(text[5:7]), 1).toordinal() + int(text[8:10]) - 1 - _EPOCH_DAY
    seconds = (days * 24 + int(text[11:13])) * 3600 + int(text[14:16]) * 60 + int(text[17:19])
    return seconds * 1000 + int(text[20:-1].ljust(3, "0"))


def moment(text: str) -> int:
    """Returns the milliseconds of a time given by a client: a stamp, or a number."""
    return min(int(text), LATEST) if text.isdecimal() else instant(text)


def split(chunk: bytes) -> list[bytes]:
    """Splits a chunk of whole lines."""
    lines = chunk.split(b"\n")
    lines.pop()
    # After a power failure a file may have holes of zeros, which JSON never contains: those lines are lost.
    return [line for line in lines if b"\0" not in line] if b"\0" in chunk else lines


class LineFilter(Struct, frozen=True):
    """A filter by time, content and version."""

    since: int | None
    until: int | None
    contains: str
    _needle: bytes
    _from: bytes
    _before: bytes
    _end: bytes
    """The end of a line of the version."""

    @property
    def takes_all(self) -> bool:
        return not (self._from or self._before or self._needle or self._end)

    def may_take(self, least: int, greatest: int) -> bool:
        """Returns whether a segment with these times can contain matching lines."""
        return (self.since is None or greatest >= self.since) and (self.until is None or least < self.until)

    def of(self, chunk: bytes) -> list[bytes]:
        """Returns the matching lines of a chunk, in order."""
        if self._needle not in chunk or self._end not in chunk:
            return []
        lines = split(chunk)
        return lines if self.takes_all else [line for line in lines if self._accepts(line)]

    def last(self, chunk: bytes, most: int) -> list[bytes]:
        """Returns the last matching lines of a chunk."""
        if self.takes_all and b"\0" not in chunk:
            return chunk[:-1].rsplit(b"\n", most)[-most:]
        return self.of(chunk)[-most:]

    def _accepts(self, line: bytes) -> bool:
        if self._from and time_of(line) < self._from:
            return False
        if self._before and time_of(line) >= self._before:
            return False
        if not line.endswith(self._end):
            return False
        # Escaped letter by letter, a part of the message is a part of the line, but not the other way round:
        # an `n` is also in `\n`, and in `created_at`.
        return not self._needle or (self._needle in line and self.contains in _message_of(line).message)


def line_filter(
    since: int | None = None, until: int | None = None, contains: str = "", version: str = ""
) -> LineFilter:
    """Returns a filter for lines from `since` on, before `until`, whose message contains `contains`; of one
    version only, if it is given."""
    return LineFilter(
        since,
        until,
        contains,
        msgspec.json.encode(contains)[1:-1],
        b"" if since is None else stamp(min(max(since, 0), LATEST)).encode(),
        b"" if until is None else stamp(min(max(until, 0), LATEST)).encode(),
        b'"version":%b}' % msgspec.json.encode(version) if version else b"",
    )


EVERYTHING: Final = line_filter()
