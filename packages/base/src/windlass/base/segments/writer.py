"""Writes to the end of one stream.

Several processes may write to a stream in turn: they write each batch with a lock on the last segment. A full
segment is made read-only before the next segment is created. Other processes notice the change by this mode.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import UNSET

from windlass.base import filelock
from windlass.base.cleanup import on_failure
from windlass.base.clock import stamp
from windlass.base.private import private_folder
from windlass.base.segments.files import Times, last_line_end, name_of, segments_of, times_of
from windlass.base.segments.lines import MAX_TIME, LogMessage, StoredLine, id_at, new_prefix

_OPEN_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
_SEALED_MODE: Final = 0o400
_MAX_ATTEMPTS: Final = 20
_RETRY_PAUSE: Final = 0.001
_encode_into = msgspec.json.Encoder().encode_into


class SegmentLocked(OSError):
    """Another process holds a segment's lock for longer than a batch takes."""


class WriteIncomplete(Exception):
    """Only some of the lines could be written."""

    def __init__(self, written: int, error: OSError) -> None:
        super().__init__(str(error))
        self.written = written
        """The number of written lines, from the start of the list."""
        self.error = error


class SegmentWriter:
    """Writes to the last segment of a stream. Creates the first segment if it is missing."""

    def __init__(self, folder: str, size: int, total: int) -> None:
        self._folder = folder
        self._most = size
        self._total = total
        self._fd = -1
        self._base = 0
        self._size = -1
        """The segment's size at the last check, which needs the lock."""
        self._times: Times | None = None
        self._knows_times = False
        """Whether the times cover all lines of the segment, including lines of other processes."""
        self._prefix = ""
        with on_failure(self.close):
            self._open_last()

    def append(self, lines: Sequence[LogMessage], begin: int) -> int:
        """Writes lines from the index `begin` on, as many as fit into this segment. Returns the index of the
        first unwritten line."""
        self._lock()
        try:
            while self._size >= self._most:
                self._move_to_next_segment()
            return self._write(lines, begin)
        finally:
            self._unlock()

    def seal(self) -> None:
        """Starts a new segment, unless the current one is empty."""
        self._lock()
        try:
            if self._size:
                self._move_to_next_segment()
        finally:
            self._unlock()

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    # Locking

    def _lock(self) -> None:
        while True:
            _lock(self._fd)
            now = os.fstat(self._fd)
            if now.st_nlink and now.st_mode & stat.S_IWUSR:
                if now.st_size != self._size:
                    self._find_new_end()
                return
            self._open_last()

    def _unlock(self) -> None:
        if self._fd >= 0:
            filelock.release(self._fd)

    def _find_new_end(self) -> None:
        """Finds the end after lines that other processes have written. Removes an incomplete line."""
        size = os.fstat(self._fd).st_size
        self._size = last_line_end(self._fd, size)
        if self._size < size:
            os.ftruncate(self._fd, self._size)
        self._times, self._knows_times = None, self._size == 0
        self._prefix = new_prefix()

    # Segments

    def _open_last(self) -> None:
        for _ in range(_MAX_ATTEMPTS):
            self.close()
            try:
                return self._try_to_open_last()
            except FileNotFoundError:
                continue  # the segment was removed meanwhile
        raise SegmentLocked("another process keeps taking this log away")

    def _try_to_open_last(self) -> None:
        """Opens the last segment. Creates the next one if it is read-only, as its writer may have died."""
        private_folder(Path(self._folder))
        segments = segments_of(self._folder)
        path = segments[-1].path if segments else f"{self._folder}/{name_of(0, None)}"
        self._base = segments[-1].base if segments else 0
        if segments and not is_open(path):
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            self._size, self._knows_times = os.fstat(self._fd).st_size, False
            self._follow_up()
        else:
            self._fd, self._size = os.open(path, _OPEN_FLAGS, 0o600), -1

    def _move_to_next_segment(self) -> None:
        """Seals the current segment, creates and locks the next segment, and removes excess segments."""
        os.fchmod(self._fd, _SEALED_MODE)
        self._follow_up()
        self._lock()
        self._remove_old_segments()

    def _follow_up(self) -> None:
        """Creates the next segment and makes it the current one."""
        times = self._times if self._knows_times else times_of(self._fd, self._size)
        base = self._base + self._size
        descriptor = os.open(f"{self._folder}/{name_of(base, times or (0, MAX_TIME))}", _OPEN_FLAGS, 0o600)
        self.close()
        self._fd, self._base, self._size = descriptor, base, -1

    def _remove_old_segments(self) -> None:
        segments = segments_of(self._folder)
        for segment in segments[:-1]:
            if self._base - segment.base + self._most <= self._total:
                return
            Path(segment.path).unlink(missing_ok=True)

    # Lines

    def _write(self, lines: Sequence[LogMessage], begin: int) -> int:
        batch, at, end = self._encode(lines, begin)
        written = 0
        try:
            while written < len(batch):
                written += os.write(self._fd, memoryview(batch)[written:])
        except OSError as error:
            kept = batch.rfind(b"\n", 0, written) + 1
            os.ftruncate(self._fd, self._size + kept)
            written = kept
            raise WriteIncomplete(begin + batch.count(b"\n", 0, kept), error) from error
        finally:
            self._size += written
            self._extend_times(at)
        return end

    def _extend_times(self, times: Times) -> None:
        before = self._times
        self._times = times if before is None else (min(before[0], times[0]), max(before[1], times[1]))

    def _encode(self, lines: Sequence[LogMessage], begin: int) -> tuple[bytearray, Times, int]:
        """Encodes a batch. Returns its bytes, its times, and the index of the first line after the batch."""
        batch = bytearray()
        here, room = self._base + self._size, self._most - self._size
        least, greatest, moment, shown = MAX_TIME, 0, -1, ""
        number = begin
        for number in range(begin, len(lines)):
            place = len(batch)
            if place >= room:
                break
            line = lines[number]
            at = line.at
            if at != moment:
                moment, shown = at, _clamped_stamp(at)
                least, greatest = min(least, at), max(greatest, at)
            id = id_at(self._prefix, here + place)
            try:
                _encode_into(
                    StoredLine(id, shown, line.message, line.pod, line.stage or UNSET, line.version),
                    batch,
                    -1,
                )
            except UnicodeEncodeError:
                del batch[place:]
                _encode_into(
                    StoredLine(
                        id,
                        shown,
                        _replace_invalid_unicode(line.message),
                        _replace_invalid_unicode(line.pod),
                        line.stage or UNSET,
                        _replace_invalid_unicode(line.version),
                    ),
                    batch,
                    -1,
                )
            batch += b"\n"
        else:
            number = len(lines)
        return batch, (max(least, 0), min(greatest, MAX_TIME)), number


def is_open(path: str) -> bool:
    """Returns whether a segment is not sealed."""
    return bool(Path(path).stat().st_mode & stat.S_IWUSR)


def _lock(fd: int) -> None:
    for _ in range(_MAX_ATTEMPTS):
        if filelock.try_lock(fd):
            return
        time.sleep(_RETRY_PAUSE)
    raise SegmentLocked("another process is writing to this log and does not end")


def _clamped_stamp(timestamp: int) -> str:
    return stamp(min(max(timestamp, 0), MAX_TIME))


def _replace_invalid_unicode(text: str) -> str:
    """Replaces invalid Unicode, namely lone surrogates."""
    return text.encode("utf-8", "replace").decode()
