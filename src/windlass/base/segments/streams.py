"""Many streams below one folder: who writes, who reads, who follows, and what is let go.

What is open is bounded, and a stream that nobody writes to or follows costs no memory. Writing never fails:
what could not be written is counted, and said in the log as soon as there is room again. To be used from one
thread; only `tail` may be called from any.
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
from windlass.base.segments.lines import EVERYTHING, LineFilter, Saying, instant, time_of
from windlass.base.segments.writer import SegmentLocked, SegmentWriter, WriteIncomplete

_PARTS: Final = 16
"""A stream is at most so many segments: what is let go at once is a small part of it."""
_LEAST: Final = 4096
_STRANGER: Final = 1.0
_TWIN: Final = 10.0
"""Seconds between looks at what another process may have written: alone, or beside us."""
_REST: Final = 1.0
_FULL: Final = {errno.ENOSPC, errno.EDQUOT}
_NAME = re.compile(r"(?!\.)[A-Za-z0-9._-]{1,200}(/(?!\.)[A-Za-z0-9._-]{1,200})*")
_log = log("segments")


class Remark(Struct, frozen=True):
    """What the log says of itself."""

    at: int
    message: str
    pod: str
    version: str = ""


class Loss(Struct):
    """What could not be written to a stream, since the last line that could."""

    lines: int = 0
    reason: str = ""
    rests_until: float = 0.0


class LineFollower:
    """Somebody who waits for lines."""

    def __init__(self) -> None:
        self.woken = asyncio.Event()
        self.ended = False


class Segments:
    def __init__(
        self, root: Path, most: int, *, voice: str = "log", most_open: int = 128, size: int | None = None
    ) -> None:
        self._root = str(root)
        self._most = most
        self._size = size or max(_LEAST, most // _PARTS)
        self._voice = voice
        self._most_open = most_open
        self._writers: OrderedDict[str, SegmentWriter] = OrderedDict()
        self._losses: dict[str, Loss] = {}
        self._followers: dict[str, set[LineFollower]] = {}

    # Writing

    def append(self, stream: str, lines: Sequence[Saying]) -> None:
        """Adds lines at the end: there for every reader when this returns, unless the disk is full."""
        if lines:
            loss = self._losses.get(stream)
            if loss is None:
                self._written(stream, lines)
            else:
                self._written_after_loss(stream, lines, loss, lines[0].at)
            self._wake(stream)

    def report(self, at: int) -> None:
        """Says in each log what it lost, where there is room by now and nobody has written since."""
        for stream, loss in list(self._losses.items()):
            self._written_after_loss(stream, (), loss, at)
            self._wake(stream)

    def _written(self, stream: str, lines: Sequence[Saying]) -> int:
        """Up to which line they could be written."""
        done = 0
        try:
            writer = self._writer(stream)
            while done < len(lines):
                done = writer.append(lines, done)
        except WriteIncomplete as broken:
            done = broken.written
            self._lost(stream, len(lines) - done, broken.error)
        except OSError as error:
            self._lost(stream, len(lines) - done, error)
        return done

    def _written_after_loss(self, stream: str, lines: Sequence[Saying], loss: Loss, at: int) -> None:
        if time.monotonic() < loss.rests_until:
            loss.lines += len(lines)
            return
        missing, loss.lines = loss.lines, 0
        remark = Remark(at, f"Lines missing here: {missing} ({loss.reason})", self._voice)
        if self._written(stream, [remark, *lines]) == 0:
            loss.lines += missing - 1  # Of those that were lost now, one was the remark.
        elif loss.lines == 0:
            del self._losses[stream]
            _log.info("a log is written again", extra={"log": stream, "missing": missing})

    def _lost(self, stream: str, lines: int, error: OSError) -> None:
        self._close(stream)
        reason = error.strerror or str(error)
        if not self._losses:
            advice = ": make room on the disk of the data directory" if error.errno in _FULL else ""
            _log.warning(f"lines of a log are lost: {reason}{advice}", extra={"log": stream})
        loss = self._losses.setdefault(stream, Loss())
        loss.lines += lines
        loss.reason = reason
        loss.rests_until = time.monotonic() + _REST if isinstance(error, SegmentLocked) else 0.0

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
        """Lets go of all files. What is appended later opens them again."""
        for stream in list(self._writers):
            self._close(stream)

    # Reading

    def tail(self, stream: str, most: int, wanted: LineFilter = EVERYTHING) -> list[bytes]:
        """The last wanted lines, oldest first, as JSON."""
        return files.last(self._folder(stream), most, wanted)

    async def follow(
        self, stream: str, most: int = 0, wanted: LineFilter = EVERYTHING, *, after: str | None = None
    ) -> AsyncGenerator[list[bytes] | Gone, None]:
        """The last wanted lines, or all after a line; then what comes, as long as there is the stream.

        Where lines are missing that should have come, `Gone` comes in their place."""
        folder = self._folder(stream)
        with self._following(stream) as follower:
            place = None if after is None else files.after(folder, after)
            if after is not None and place is None:
                yield Gone()
            if place is None:
                place = files.end_of(folder)
                if lines := await self._beginning(folder, most, wanted, place):
                    yield lines
            while not follower.ended:
                follower.woken.clear()
                step = files.onward(folder, place)
                place = step.place
                if step.gone:
                    yield Gone()
                if lines := wanted.of(step.chunk):
                    yield lines
                if step.chunk or step.gone:
                    await asyncio.sleep(0)  # There may be much of it, and others want to go on too.
                else:
                    await self._news(stream, follower)

    async def _beginning(self, folder: str, most: int, wanted: LineFilter, end: int) -> list[bytes]:
        if wanted.takes_all:
            return files.last(folder, most, wanted, end)
        return await asyncio.to_thread(files.last, folder, most, wanted, end)

    async def _news(self, stream: str, follower: LineFollower) -> None:
        """Until something was written here. Of what others write, nobody tells us: that is looked after."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_TWIN if stream in self._writers else _STRANGER):
                await follower.woken.wait()

    @contextlib.contextmanager
    def _following(self, stream: str) -> Iterator[LineFollower]:
        follower = LineFollower()
        self._followers.setdefault(stream, set()).add(follower)
        try:
            yield follower
        finally:
            others = self._followers[stream]
            others.discard(follower)
            if not others:
                del self._followers[stream]

    def _wake(self, stream: str) -> None:
        for follower in self._followers.get(stream, ()):
            follower.woken.set()

    # Letting go

    def streams(self) -> Iterator[str]:
        """All that have a file, also those that other processes write to."""
        for folder, _, names in os.walk(self._root):
            if any(name.endswith(".jsonl") for name in names) and folder != self._root:
                yield os.path.relpath(folder, self._root)

    def size(self, stream: str) -> int:
        """Bytes on the disk."""
        found = files.segments_of(self._folder(stream))
        return files.end_of(self._folder(stream)) - found[0].base if found else 0

    def last_change(self, stream: str) -> float:
        """When the newest of its files was changed, by the clock of the file system."""
        found = files.segments_of(self._folder(stream))
        with contextlib.suppress(FileNotFoundError):
            return Path(found[-1].path).stat().st_mtime if found else 0.0
        return 0.0

    def forget(self, stream: str) -> None:
        """Removes it with all streams below it, and ends who follows them. Absent is fine."""
        self._let_go(stream)
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self._folder(stream))

    def _let_go(self, stream: str) -> None:
        for name in [
            name for name in {*self._writers, *self._losses, *self._followers} if _is_in(name, stream)
        ]:
            self._close(name)
            self._losses.pop(name, None)
            for follower in self._followers.get(name, ()):
                follower.ended = True
                follower.woken.set()

    def move_out(self, stream: str, target: Path) -> None:
        """Moves it with all streams below it out of here, and ends who follows them. Absent is fine."""
        self._let_go(stream)
        move(Path(self._folder(stream)), target)

    def move_in(self, source: Path, stream: str) -> None:
        """Undoes `move_out`."""
        self._let_go(stream)
        move(source, Path(self._folder(stream)))

    def expire(self, stream: str, before: int, renewed: int) -> None:
        """Removes segments in which all lines are from before a time.

        The last one, which is written to, gives way to a new one when it began before `renewed`: else a quiet
        stream would keep its lines for ever."""
        folder = self._folder(stream)
        found = files.segments_of(folder)
        if found and (began := _began(found[-1].path)) is not None and began < renewed:
            self._seal(stream)
        for segment, newer in pairwise(files.segments_of(folder)):
            if newer.before is None or newer.before[1] >= before:
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
        if not _NAME.fullmatch(stream):
            raise ValueError(f"{stream!r} cannot be the name of a stream")
        return f"{self._root}/{stream}"


def _is_in(name: str, stream: str) -> bool:
    return name == stream or name.startswith(f"{stream}/")


def _began(path: str) -> int | None:
    """The time of the first line."""
    with files.OpenFile(path) as fd:
        line = b"" if fd is None else files.forwards(fd, 0).partition(b"\n")[0]
    return instant(time_of(line).decode()) if line else None
