"""Writes, reads, follows and expires log streams below one folder.

The number of open files is bounded, and an idle stream uses no memory. Write errors are not raised: lines
that could not be written are counted, and the stream reports their number when there is space again. Not
thread-safe, except `tail`.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
import shutil
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from msgspec import Struct

from windlass.base.atomic_files import move
from windlass.base.log import log
from windlass.base.segments import files
from windlass.base.segments.files import Gone
from windlass.base.segments.lines import ALL_LINES, LineFilter, LogMessage, instant, time_of
from windlass.base.segments.writer import SegmentLocked, SegmentWriter, WriteIncomplete

_MAX_SEGMENTS: Final = 16
"""The maximum number of segments of a stream. Removing one segment thus removes only a small part."""
_MIN_SEGMENT_BYTES: Final = 4096
_FOREIGN_CHECK_INTERVAL: Final = 1.0
"""The seconds between checks for new lines of a stream that only other processes write to."""
_OWN_CHECK_INTERVAL: Final = 10.0
"""The seconds between these checks if this process writes to the stream, too."""
_RETRY_PAUSE: Final = 1.0
_DISK_FULL_ERRORS: Final = {errno.ENOSPC, errno.EDQUOT}
_NAME_PATTERN = re.compile(r"(?!\.)[A-Za-z0-9._-]{1,200}(/(?!\.)[A-Za-z0-9._-]{1,200})*")
_log = log("segments")


class Remark(Struct, frozen=True):
    """A line of the log about the log itself."""

    at: int
    message: str
    pod: str
    version: str = ""
    stage: str = ""


class Loss(Struct):
    """The lines lost since the last successful write to a stream."""

    lines: int = 0
    reason: str = ""
    rests_until: float = 0.0


class LineFollower:
    """A task that waits for new lines."""

    def __init__(self) -> None:
        self.woken = asyncio.Event()
        self.ended = False


class Segments:
    def __init__(
        self, root: Path, limit: int, *, voice: str = "log", most_open: int = 128, size: int | None = None
    ) -> None:
        self._root = str(root)
        self._most = limit
        self._size = size or max(_MIN_SEGMENT_BYTES, limit // _MAX_SEGMENTS)
        self._voice = voice
        self._most_open = most_open
        self._writers: OrderedDict[str, SegmentWriter] = OrderedDict()
        self._losses: dict[str, Loss] = {}
        self._followers: dict[str, set[LineFollower]] = {}

    # Writing

    def append(self, stream: str, lines: Sequence[LogMessage]) -> None:
        """Appends lines. Readers see them as soon as this returns, unless the disk is full."""
        if lines:
            loss = self._losses.get(stream)
            if loss is None:
                self._write(stream, lines)
            else:
                self._write_after_loss(stream, lines, loss, lines[0].at)
            self._wake_followers(stream)

    def report(self, timestamp: int) -> None:
        """Records in each stream how many lines it lost, unless its disk is still full."""
        for stream, loss in list(self._losses.items()):
            self._write_after_loss(stream, (), loss, timestamp)
            self._wake_followers(stream)

    def _write(self, stream: str, lines: Sequence[LogMessage]) -> int:
        """Writes lines. Returns the index of the first line that could not be written."""
        done = 0
        try:
            writer = self._writer(stream)
            while done < len(lines):
                done = writer.append(lines, done)
        except WriteIncomplete as broken:
            done = broken.written
            self._note_loss(stream, len(lines) - done, broken.error)
        except OSError as error:
            self._note_loss(stream, len(lines) - done, error)
        return done

    def _write_after_loss(self, stream: str, lines: Sequence[LogMessage], loss: Loss, timestamp: int) -> None:
        if time.monotonic() < loss.rests_until:
            loss.lines += len(lines)
            return
        missing, loss.lines = loss.lines, 0
        remark = Remark(timestamp, f"Lines missing here: {missing} ({loss.reason})", self._voice)
        if self._write(stream, [remark, *lines]) == 0:
            loss.lines += missing - 1  # the remark is among the lost lines, but is no log line
        elif loss.lines == 0:
            del self._losses[stream]
            _log.info("a log is written again", extra={"log": stream, "missing": missing})

    def _note_loss(self, stream: str, lines: int, error: OSError) -> None:
        self._close(stream)
        reason = error.strerror or str(error)
        if not self._losses:
            advice = (
                ": free space on the disk of the data directory" if error.errno in _DISK_FULL_ERRORS else ""
            )
            _log.warning(f"lines of a log are lost: {reason}{advice}", extra={"log": stream})
        loss = self._losses.setdefault(stream, Loss())
        loss.lines += lines
        loss.reason = reason
        loss.rests_until = time.monotonic() + _RETRY_PAUSE if isinstance(error, SegmentLocked) else 0.0

    def _writer(self, stream: str) -> SegmentWriter:
        writer = self._writers.get(stream)
        if writer is None:
            while len(self._writers) >= self._most_open:
                self._writers.popitem(last=False)[1].close()
            writer = self._writers[stream] = SegmentWriter(self._folder(stream), self._size, self._most)
        self._writers.move_to_end(stream)
        return writer

    def _close(self, stream: str) -> None:
        if writer := self._writers.pop(stream, None):
            writer.close()

    def close(self) -> None:
        """Closes all files. A later append reopens them."""
        for stream in list(self._writers):
            self._close(stream)

    # Reading

    def tail(self, stream: str, limit: int, line_filter: LineFilter = ALL_LINES) -> list[bytes]:
        """Returns the last `limit` lines that match a filter, as JSON, the oldest first."""
        return files.last(self._folder(stream), limit, line_filter)

    async def follow(
        self,
        stream: str,
        limit: int = 0,
        line_filter: LineFilter = ALL_LINES,
        *,
        after_line: str | None = None,
    ) -> AsyncGenerator[list[bytes] | Gone, None]:
        """Yields the last lines that match a filter, or all lines after a given line. Then yields new lines
        while the stream exists.

        `Gone` marks a gap.
        """
        folder = self._folder(stream)
        with self._register_follower(stream) as follower:
            place = None if after_line is None else files.after(folder, after_line)
            if after_line is not None and place is None:
                yield Gone()
            if place is None:
                place = files.end_of(folder)
                if lines := await self._last_lines(folder, limit, line_filter, place):
                    yield lines
            while not follower.ended:
                follower.woken.clear()
                step = files.read_on(folder, place)
                place = step.place
                if step.gone:
                    yield Gone()
                if lines := line_filter.of(step.chunk):
                    yield lines
                if step.chunk or step.gone:
                    await asyncio.sleep(0)  # lets other tasks run, because there may be many lines
                else:
                    await self._wait_for_lines(stream, follower)

    async def _last_lines(
        self, folder: str, limit: int, line_filter: LineFilter, end_position: int
    ) -> list[bytes]:
        if line_filter.takes_all:
            return files.last(folder, limit, line_filter, end_position)
        return await asyncio.to_thread(files.last, folder, limit, line_filter, end_position)

    async def _wait_for_lines(self, stream: str, follower: LineFollower) -> None:
        """Waits until this process has written to the stream. Polls for lines of other processes, which do
        not notify this one."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(
                _OWN_CHECK_INTERVAL if stream in self._writers else _FOREIGN_CHECK_INTERVAL
            ):
                await follower.woken.wait()

    @contextlib.contextmanager
    def _register_follower(self, stream: str) -> Iterator[LineFollower]:
        follower = LineFollower()
        self._followers.setdefault(stream, set()).add(follower)
        try:
            yield follower
        finally:
            others = self._followers[stream]
            others.discard(follower)
            if not others:
                del self._followers[stream]

    def _wake_followers(self, stream: str) -> None:
        for follower in self._followers.get(stream, ()):
            follower.woken.set()

    # Removal

    def streams(self) -> Iterator[str]:
        """Yields all streams that have files, including streams that other processes write to."""
        for folder, _, names in os.walk(self._root):
            if any(name.endswith(".jsonl") for name in names) and folder != self._root:
                yield os.path.relpath(folder, self._root)

    def size(self, stream: str) -> int:
        """Returns the size of a stream on disk, in bytes."""
        segments = files.segments_of(self._folder(stream))
        return files.end_of(self._folder(stream)) - segments[0].base if segments else 0

    def last_change(self, stream: str) -> float:
        """Returns the modification time of a stream's newest file, by the file system's clock."""
        segments = files.segments_of(self._folder(stream))
        with contextlib.suppress(FileNotFoundError):
            return Path(segments[-1].path).stat().st_mtime if segments else 0.0
        return 0.0

    def forget(self, stream: str) -> None:
        """Removes a stream and all streams below it, and ends their followers. Accepts a missing stream."""
        self._close_below(stream)
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self._folder(stream))

    def _close_below(self, stream: str) -> None:
        for name in [
            name for name in {*self._writers, *self._losses, *self._followers} if _is_in(name, stream)
        ]:
            self._close(name)
            self._losses.pop(name, None)
            for follower in self._followers.get(name, ()):
                follower.ended = True
                follower.woken.set()

    def move_out(self, stream: str, target: Path) -> None:
        """Moves a stream and all streams below it to another folder. Ends followers. Accepts a missing
        stream."""
        self._close_below(stream)
        move(Path(self._folder(stream)), target)

    def move_in(self, source: Path, stream: str) -> None:
        """Moves a stream back, and so reverses `move_out`."""
        self._close_below(stream)
        move(source, Path(self._folder(stream)))

    def expire(self, stream: str, cutoff: int, renewed: int) -> None:
        """Removes segments whose lines are all older than `cutoff`.

        Seals the last segment if its first line is older than `renewed`. Otherwise a quiet stream, which
        never fills its segment, would keep its lines forever.
        """
        folder = self._folder(stream)
        segments = files.segments_of(folder)
        if segments and (began := _first_time(segments[-1].path)) is not None and began < renewed:
            self._seal(stream)
        for segment, newer in pairwise(files.segments_of(folder)):
            if newer.before is None or newer.before[1] >= cutoff:
                return
            Path(segment.path).unlink(missing_ok=True)

    def _seal(self, stream: str) -> None:
        try:
            self._writer(stream).seal()
        except OSError as error:
            self._close(stream)
            _log.warning(
                "old lines of a log stay for now: no new file can be made",
                extra={"log": stream, "error": str(error)},
            )

    def _folder(self, stream: str) -> str:
        if not _NAME_PATTERN.fullmatch(stream):
            raise ValueError(f"{stream!r} cannot be the name of a stream")
        return f"{self._root}/{stream}"


def _is_in(name: str, stream: str) -> bool:
    return name == stream or name.startswith(f"{stream}/")


def _first_time(path: str) -> int | None:
    """Returns the time of a file's first line."""
    with files.OpenFile(path) as fd:
        line = b"" if fd is None else files.forwards(fd, 0).partition(b"\n")[0]
    return instant(time_of(line).decode()) if line else None
