"""Reads the output of an instance from its file, line by line.

The file belongs to the instance: readers never block it, and it grows without readers. The reading position
is stored beside it, and the part that was read is cut out of the file as a hole, so its size on disk is the
unread part, whatever its length. Both are opened only where something was written, so that instances cost no
descriptor for their output.

A shell script that says `> /dev/stderr` truncates the file and then writes at its beginning. To tell this
from appended output, the file begins with a hole, the foreland: the file is shorter than it only after a
truncation, and data in it was written afterwards.
"""

from __future__ import annotations

import ctypes
import errno
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

from windlass.base.cleanup import on_failure
from windlass.engines.process import kernel
from windlass.engines.process.records import Record
from windlass.engines.unread_output import BLOCK, FORELAND, PUNCH

LONGEST: Final = 16 * 1024
PIECE: Final = 128 * 1024
BACKLOG: Final = 64 * 1024 * 1024
_HOLES: Final = 1024 * 1024
_END: Final = 8 * 1024**4
"""Before a file system's end of a file, which ext4 has at 16 TiB."""


def prepare(file: int) -> None:
    """A new file gets its foreland, before anybody writes to it."""
    if os.fstat(file).st_size == 0:
        os.ftruncate(file, FORELAND)


class UnreadableOutput(OSError):
    """The file cannot be opened now: another instance may have its name, or its program a lease of it."""


class OutputFile:
    """One file, and how far it was read.

    Only the one reader of the folder writes positions. So a folder without one is that of an instance which
    was created again under the same name."""

    def __init__(self, home: Path, service: str, record: Record, backlog: int = BACKLOG) -> None:
        self.home, self.service = home, service
        self.pod, self.version = record.pod, record.deployment
        self._backlog = backlog
        self._path, self._mark = home / "output", home / "read"
        os.close(_open(self._path, os.O_CREAT))
        saved = _read_mark(self._mark).split() or [b"0", b"-1"]
        self._position, self._fore = max(int(saved[0]), FORELAND), int(saved[1])
        """In what is appended, and in the foreland; -1: it was never truncated."""
        self._saved = self._now()
        self._next, self._next_fore = self._now()
        self._free_from = self._position
        self.grown = time.monotonic()
        """The time of the last new output."""
        self._seen = -1
        self.closed = False
        self.watch = -1
        """The number under which the kernel tells of it, or -1."""

    def close(self) -> None:
        self.save()
        self.closed = True

    def lines(self, *, unfinished: bool) -> list[str]:
        """The next ones, which `advance` confirms. Of a line without an end, only when it will get none."""
        size = self._size()
        if FORELAND <= size <= self._next and self._next_fore < 0:
            return []
        with self._open() as file:
            if size < FORELAND:
                self._truncate(file)
            fore = self._foreland(file)
            if end := _end(fore, unfinished):
                self._next_fore += end
                return list(_split(fore[:end]))
            lost = self._give_up_oldest(file, size)
            raw = os.pread(file, PIECE, self._next) if self._next < size else b""
        end = _end(raw, unfinished)
        self._next += end
        lines = list(_split(raw[:end])) if end else []
        if lost:
            lines.insert(
                0, f"[windlass] {lost} bytes of output are lost: more was written than could be read"
            )
        return lines

    def advance(self) -> None:
        self._position, self._fore = self._next, self._next_fore

    def again(self) -> None:
        """They could not be handed over."""
        self._next, self._next_fore = self._now()

    def current(self) -> bool:
        """False for an instance that was removed and created again under the same name."""
        return self._mark.exists() and self._path.exists()

    def waiting(self) -> bool:
        """Returns whether there is unread output, with or without a line end."""
        try:
            size = self._size()
            if size > self._position or size < FORELAND:
                return True
            if self._fore < 0:
                return False
            with self._open() as file:
                return bool(self._foreland(file))
        except OSError:
            return False  # it has gone, or is read when it can be opened

    def save(self) -> bool:
        """Returns False where a full disk has no room for it. The next time may be better, and a lost one
        only repeats lines."""
        if self._saved != self._now():
            # In place: a part of a short write is never seen.
            try:
                _write_mark(self._mark, b"%-31d %-31d\n" % self._now())
            except FileNotFoundError:  # it was laid aside by another engine, or erased
                pass
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                return False
            self._saved = self._now()
        return True

    def can_free(self) -> bool:
        return self._position - self._free_from >= _HOLES

    def freeing(self) -> Callable[[], bool]:
        """Gives back the space of what was read, off the event loop: the file system may have to write.
        False: this one cannot do it."""
        until = self._position - self._position % BLOCK
        file = self._open_again()
        start, self._free_from = self._free_from, until
        return lambda: _punch(file, start, until - start) and until < _END

    def start_new_file(self) -> None:
        """Starts a new file once everything is read, where holes are unsupported or the file reaches its
        maximum length. Output between these two lines is lost; this cannot be avoided from outside of the
        program."""
        if self.closed or self._size() != self._position:
            return
        with self._open() as file:
            os.ftruncate(file, FORELAND)
        self._position = self._next = self._free_from = FORELAND
        self.save()

    def _now(self) -> tuple[int, int]:
        return self._position, self._fore

    def _size(self) -> int:
        try:
            size = self._path.stat().st_size
        except OSError as error:
            raise UnreadableOutput(*error.args) from error
        if size != self._seen:
            self._seen, self.grown = size, time.monotonic()
        return size

    @contextmanager
    def _open(self) -> Iterator[int]:
        file = self._open_again()
        try:
            yield file
        finally:
            os.close(file)

    def _open_again(self) -> int:
        """Opens the file. The mark is looked at afterwards, so that it is known to be of this instance."""
        try:
            file = _open(self._path)
            with on_failure(partial(os.close, file)):
                self._mark.stat()
        except OSError as error:
            raise UnreadableOutput(*error.args) from error
        return file

    def _truncate(self, file: int) -> None:
        os.pwrite(file, b"\0", FORELAND - 1)  # makes it longer, and never shorter
        self._position = self._next = self._free_from = FORELAND
        self._fore = self._next_fore = 0
        self.grown = time.monotonic()

    def _foreland(self, file: int) -> bytes:
        if self._next_fore < 0:
            return b""
        raw = os.pread(file, min(PIECE, FORELAND - self._next_fore), self._next_fore)
        return raw.partition(b"\0")[0]

    def _give_up_oldest(self, file: int, size: int) -> int:
        """So much is waiting that the oldest of it is given up."""
        if size - self._next <= self._backlog:
            return 0
        target = size - self._backlog // 2
        piece = os.pread(file, PIECE, target)
        target += piece.find(b"\n") + 1
        lost, self._next = target - self._next, target
        return lost


def _read_mark(mark: Path) -> bytes:
    file = os.open(mark, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        return os.pread(file, 64, 0)
    finally:
        os.close(file)


def _write_mark(mark: Path, text: bytes) -> None:
    file = os.open(mark, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.pwrite(file, text, 0)
    finally:
        os.close(file)


def _open(file: Path, how: int = 0) -> int:
    """Opens the output also where the program has closed it to its own user, which is perhaps ours, or has
    a lease of it, for which others have to wait."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK | how
    try:
        return os.open(file, flags, 0o600)
    except PermissionError:
        file.chmod(0o600)
        return os.open(file, flags, 0o600)


def _punch(file: int, start: int, length: int) -> bool:
    try:
        if kernel.libc.fallocate(file, PUNCH, ctypes.c_int64(start), ctypes.c_int64(length)) == 0:
            return True
        error = ctypes.get_errno()
        if error in (errno.EOPNOTSUPP, errno.ENOSYS):
            return False
        raise OSError(error, os.strerror(error))
    finally:
        os.close(file)


def _end(raw: bytes, unfinished: bool) -> int:
    end = raw.rfind(b"\n") + 1
    if end or not raw:
        return end
    if len(raw) > LONGEST:
        return _between_characters(raw, len(raw) - len(raw) % LONGEST)
    return len(raw) if unfinished else 0


def _between_characters(raw: bytes, end: int) -> int:
    """At most three bytes of a character stand before its last."""
    for back in range(4):
        if end - back >= len(raw) or raw[end - back] & 0xC0 != 0x80:
            return end - back
    return end


def _split(raw: bytes) -> Iterator[str]:
    text = raw.decode("utf-8", "replace")
    if "\0" in text:  # of no use to anybody, and databases refuse them
        text = text.replace("\0", "")
    for line in text.removesuffix("\n").split("\n"):
        if len(line) * 4 <= LONGEST or len(line.encode()) <= LONGEST:
            yield line.removesuffix("\r")
        else:
            yield from _cut(line.encode())


def _cut(line: bytes) -> Iterator[str]:
    while line:
        end = _between_characters(line, min(len(line), LONGEST))
        yield line[:end].decode("utf-8", "replace").removesuffix("\r")
        line = line[end:]


def last_output(home: Path) -> bytes:
    """The end of what it wrote, to find out why it ended."""
    with suppress(OSError):
        fd = os.open(home / "output", os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(fd).st_size
            return os.pread(fd, 8192, max(0, size - 8192)) + os.pread(fd, 8192, 0)
        finally:
            os.close(fd)
    return b""
