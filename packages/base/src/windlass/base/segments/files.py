"""Reads the files of a stream: lists its segments, and reads lines from either end.

The file `00000001f400.1790000000000.1790000360000.jsonl` begins at byte 0x1f400 of its stream. The two times
are the minimum and the maximum in the previous segment, so a name never changes. Lines are added to the last
segment only.

A reader needs no lock and keeps no file open. It stops at the last line end, so it returns only complete
lines. If a segment is removed during a read, its lines are missing, as they would be a moment later.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from windlass.base.segments.lines import LINE_BEGIN, LineFilter, instant, place_of, split, time_of

BLOCK_BYTES: Final = 64 * 1024
_READ_BYTES: Final = 256 * 1024
_NAME_PATTERN = re.compile(r"([0-9a-f]{12})(?:\.([0-9]{1,15})\.([0-9]{1,15}))?\.jsonl")

Times = tuple[int, int]
"""The minimum and the maximum time of some lines."""


class Gone(Struct, frozen=True):
    """Marks a gap: the lines at this position have been removed."""


class Segment(Struct, frozen=True):
    base: int
    path: str
    before: Times | None
    """The times of the previous segment."""


def name_of(base: int, previous_times: Times | None) -> str:
    return (
        f"{base:012x}.jsonl"
        if previous_times is None
        else f"{base:012x}.{previous_times[0]}.{previous_times[1]}.jsonl"
    )


def segments_of(folder: str) -> list[Segment]:
    """Returns the segments of a stream, the oldest first."""
    try:
        with os.scandir(folder) as entries:
            segments = [
                _parse_segment_name(entry.path, match)
                for entry in entries
                if (match := _NAME_PATTERN.fullmatch(entry.name))
            ]
    except FileNotFoundError:
        return []
    segments.sort(key=_base_of_segment)
    return segments


def _base_of_segment(segment: Segment) -> int:
    return segment.base


def _parse_segment_name(path: str, match: re.Match[str]) -> Segment:
    base, least, greatest = match.groups()
    return Segment(int(base, 16), path, (int(least), int(greatest)) if least else None)


class OpenFile:
    """Opens a file for a `with` block. Returns None instead of a descriptor if the file is missing."""

    __slots__ = ("_fd", "_path")

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1

    def __enter__(self) -> int | None:
        try:
            self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        return self._fd

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)


def last_line_end(fd: int, end_position: int) -> int:
    """Returns the position after the last complete line before `end_position`."""
    step = 1
    while end_position > 0:
        start = max(0, end_position - step)
        position = os.pread(fd, end_position - start, start).rfind(b"\n")
        if position >= 0:
            return start + position + 1
        end_position, step = start, BLOCK_BYTES
    return 0


def backwards(fd: int, end_position: int) -> Iterator[bytes]:
    """Yields the lines before the line end `end_position` in chunks of complete lines, the last chunk
    first."""
    rest: list[bytes] = []  # pieces of a line whose beginning was not read yet, the last piece first
    while end_position > 0:
        start = max(0, end_position - BLOCK_BYTES)
        block = os.pread(fd, end_position - start, start)
        end_position = start
        cut = block.find(b"\n") + 1 if start else 0
        if start and not cut:
            rest.append(block)
        else:
            chunk = block[cut:] + b"".join(reversed(rest))
            rest = [block[:cut]]
            if chunk:
                yield chunk


def forwards(fd: int, start: int) -> bytes:
    """Returns complete lines from `start` on: about one block of lines, but at least one line."""
    parts: list[bytes] = []
    while block := os.pread(fd, _READ_BYTES, start):
        cut = block.rfind(b"\n") + 1
        if cut:
            return b"".join(parts) + block[:cut]
        parts.append(block)
        start += len(block)
    return b""


def times_of(fd: int, end_position: int) -> Times | None:
    """Returns the minimum and the maximum time of the lines before `end_position`."""
    stamps_seen: list[bytes] = []
    for chunk in backwards(fd, end_position):
        stamps = [time_of(line) for line in split(chunk) if line.startswith(LINE_BEGIN)]
        stamps_seen += (min(stamps), max(stamps)) if stamps else ()
    return (instant(min(stamps_seen).decode()), instant(max(stamps_seen).decode())) if stamps_seen else None


def end_of(folder: str) -> int:
    """Returns the current end position of a stream."""
    while segments := segments_of(folder):
        with OpenFile(segments[-1].path) as fd:
            if fd is not None:
                return segments[-1].base + last_line_end(fd, os.fstat(fd).st_size)
    return 0


def last(folder: str, limit: int, line_filter: LineFilter, end_position: int | None = None) -> list[bytes]:
    """Returns the last `limit` lines that match a filter, the oldest first. `end_position`: the end
    position."""
    pieces: list[list[bytes]] = []
    if limit <= 0:
        return []
    for segment, spans in _newest_first(folder, end_position):
        if spans is not None and not line_filter.may_take(*spans):
            continue
        with OpenFile(segment.path) as fd:
            if fd is None:
                break  # this segment was removed, and so were all older segments
            size = os.fstat(fd).st_size
            end = size if end_position is None else min(size, end_position - segment.base)
            for chunk in backwards(fd, last_line_end(fd, end)):
                lines = line_filter.last(chunk, limit)
                pieces.append(lines)
                limit -= len(lines)
                if limit <= 0:
                    return _join(pieces)
    return _join(pieces)


def _join(chunks: list[list[bytes]]) -> list[bytes]:
    return [line for lines in reversed(chunks) for line in lines]


def _newest_first(folder: str, end_position: int | None) -> Iterator[tuple[Segment, Times | None]]:
    """Yields segments with their times, the newest first. The times of the last segment are None."""
    newer: Segment | None = None
    for segment in reversed(segments_of(folder)):
        if end_position is None or segment.base < end_position:
            yield segment, newer.before if newer else None
        newer = segment


class FollowStep(Struct, frozen=True):
    """The lines at a follower's position, and its next position."""

    chunk: bytes
    place: int
    gone: bool = False


def read_on(folder: str, position: int) -> FollowStep:
    """Returns the lines at a position, if there are any. Never repeats a line, and reports each gap."""
    gone = False
    for segment in _segments_from(folder, position):
        if segment.base > position:
            # Only lines before the first segment can be missing, because segments follow without gaps.
            position, gone = segment.base, True
        with OpenFile(segment.path) as fd:
            if fd is None:
                return read_on(folder, position)
            if not _is_between_lines(fd, position - segment.base):
                return _restart(folder)
            chunk = forwards(fd, position - segment.base)
        if chunk:
            return FollowStep(chunk, position + len(chunk), gone)
    return FollowStep(b"", position, gone)


def _segments_from(folder: str, position: int) -> list[Segment]:
    segments = segments_of(folder)
    at = next((number for number in reversed(range(len(segments))) if segments[number].base <= position), 0)
    return segments[at:]


def _is_between_lines(fd: int, offset: int) -> bool:
    return offset == 0 or os.pread(fd, 1, offset - 1) == b"\n"


def _restart(folder: str) -> FollowStep:
    """Restarts at the beginning, because the stream was replaced by another stream."""
    segments = segments_of(folder)
    return FollowStep(b"", segments[0].base if segments else 0, gone=True)


def after(folder: str, id: str) -> int | None:
    """Returns the position after the line with this id; None if the line was removed."""
    place = place_of(id)
    segments = [] if place is None else _segments_from(folder, place)
    if place is None or not segments or segments[0].base > place:
        return None
    with OpenFile(segments[0].path) as fd:
        if fd is None:
            return None
        line = forwards(fd, place - segments[0].base).partition(b"\n")[0]
    return place + len(line) + 1 if line.startswith(LINE_BEGIN + id.encode() + b'"') else None
