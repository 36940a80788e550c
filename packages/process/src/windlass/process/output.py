"""Reads the output of an instance from its file, line by line.

The instance appends to the file. It is never blocked by readers, and the file grows if it is not read. The
reading position is stored in a second file. The part that was read is replaced by a hole, so the file only
uses disk space for its unread part. The whole part is punched out each time, because the program may have
reserved space in it again. Both files are opened only after new output, so that idle instances use no file
descriptors.

A shell script with `> /dev/stderr` truncates the file and then writes at its beginning. To distinguish this
output from appended output, the file begins with a hole, the leading hole. A file that is shorter than the
leading hole was truncated, and data in the hole was written after that.
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

from windlass.base import kernel
from windlass.base.cleanup import on_failure
from windlass.engines.unread_output import BLOCK_BYTES, LEADING_HOLE, PUNCH_HOLE_FLAGS
from windlass.process.records import Record

MAX_LINE_BYTES: Final = 16 * 1024
CHUNK_BYTES: Final = 128 * 1024
AT_ONCE: Final = 512
"""Maximum number of lines to hand over before other instances have their turn. One piece may contain a
hundred thousand lines."""
MAX_BACKLOG_BYTES: Final = 64 * 1024 * 1024
_MIN_HOLE_BYTES: Final = 1024 * 1024
_MAX_FILE_BYTES: Final = 8 * 1024**4
"""File length at which a new file is started, well below the maximum of ext4 (16 TiB)."""


def prepare(file: int) -> None:
    """Creates the leading hole in a new file, before the program writes to it."""
    if os.fstat(file).st_size == 0:
        os.ftruncate(file, LEADING_HOLE)


class UnreadableOutput(OSError):
    """Raised if the file cannot be opened now. Another instance may have its name, or its program may hold a
    lease."""


class OutputFile:
    """The output file of an instance, with the current reading position.

    Only the reader of the engine's folder writes positions. If the position file is missing, the folder
    belongs to another instance that was created under the same name.
    """

    __slots__ = (
        "_backlog",
        "_free_from",
        "_in_hole",
        "_next",
        "_next_in_hole",
        "_position",
        "_saved",
        "_seen",
        "closed",
        "grown",
        "home",
        "pod",
        "service",
        "version",
        "watch",
    )

    def __init__(self, home: Path, service: str, record: Record, backlog: int = MAX_BACKLOG_BYTES) -> None:
        self.home, self.service = home, service
        self.pod, self.version = record.pod, record.deployment
        self._backlog = backlog
        _create(self._path)
        saved = _read_mark(self._mark).split() or [b"0", b"-1"]
        self._position, self._in_hole = max(int(saved[0]), LEADING_HOLE), int(saved[1])
        """The reading positions in the appended output and in the leading hole. The latter is -1 if the file
        was never truncated."""
        self._saved = self._current_position()
        self._next, self._next_in_hole = self._current_position()
        self._free_from = self._position
        self.grown = time.monotonic()
        """The time of the last new output."""
        self._seen = -1
        self.closed = False
        self.watch = -1
        """The number of the file's inotify watch, or -1."""

    @property
    def _path(self) -> Path:
        return self.home / "output"

    @property
    def _mark(self) -> Path:
        return self.home / "read"

    def close(self) -> None:
        self.save()
        self.closed = True

    def lines(self, *, unfinished: bool) -> list[str]:
        """Returns the next lines. `advance` marks them as read. With `unfinished`, a last line without a line
        end is included."""
        size = self._size()
        if LEADING_HOLE <= size <= self._next and self._next_in_hole < 0:
            return []
        with self._open() as file:
            if size < LEADING_HOLE:
                self._truncate(file)
            leading = self._read_hole(file)
            if end := _first_lines(leading, _end(leading, unfinished)):
                self._next_in_hole += end
                return list(_split(leading[:end]))
            lost = self._give_up_oldest(file, size)
            raw = os.pread(file, CHUNK_BYTES, self._next) if self._next < size else b""
        end = _first_lines(raw, _end(raw, unfinished))
        self._next += end
        lines = list(_split(raw[:end])) if end else []
        if lost:
            lines.insert(
                0, f"[windlass] {lost} bytes of output are lost: more was written than could be read"
            )
        return lines

    def advance(self) -> None:
        self._position, self._in_hole = self._next, self._next_in_hole

    def rewind(self) -> None:
        """Moves back to the position of the last `advance`, so that `lines` returns the same lines again."""
        self._next, self._next_in_hole = self._current_position()

    def current(self) -> bool:
        """Returns whether the files still belong to this instance. An instance can be removed and created
        again under the same name."""
        return self._mark.exists() and self._path.exists()

    def waiting(self) -> bool:
        """Returns whether there is unread output, with or without a line end."""
        try:
            size = self._size()
            if size > self._position or size < LEADING_HOLE:
                return True
            if self._in_hole < 0:
                return False
            with self._open() as file:
                return bool(self._read_hole(file))
        except OSError:
            return False  # the file is gone, or is read once it can be opened

    def save(self) -> bool:
        """Saves the positions. Returns False if the disk is full; the next call tries again. A lost position
        only repeats lines."""
        if self._saved != self._current_position():
            # Overwritten in place with a constant length, so that readers never see a partial write.
            try:
                _write_mark(self._mark, b"%-31d %-31d\n" % self._current_position())
            except FileNotFoundError:  # another engine has moved or erased it
                pass
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                return False
            self._saved = self._current_position()
        return True

    def can_free(self) -> bool:
        return self._position - self._free_from >= _MIN_HOLE_BYTES

    def freeing(self) -> Callable[[], bool]:
        """Returns a function that frees the disk space of the output that was read.

        The function blocks, so it must run in a thread. It returns False if a new file is needed.
        """
        until = self._position - self._position % BLOCK_BYTES
        file = self._open_again()
        self._free_from = until
        return lambda: _punch(file, LEADING_HOLE, until - LEADING_HOLE) and until < _MAX_FILE_BYTES

    def free_reserved(self) -> None:
        """Frees disk space that the program has reserved without writing: before the reading position and
        behind the end.

        The program must have ended, because its output would be truncated.
        """
        start = 0 if self._in_hole < 0 else LEADING_HOLE
        _punch(self._open_again(), start, self._position - self._position % BLOCK_BYTES - start)
        with self._open() as file:
            os.ftruncate(file, os.fstat(file).st_size)

    def start_new_file(self) -> None:
        """Empties the file after all output was read.

        This is needed if the file system does not support holes or the file is near its maximum length.
        Output that is written between the check of the size and the truncation is lost.
        """
        if self.closed or self._size() != self._position:
            return
        with self._open() as file:
            os.ftruncate(file, LEADING_HOLE)
        self._position = self._next = self._free_from = LEADING_HOLE
        self.save()

    def _current_position(self) -> tuple[int, int]:
        return self._position, self._in_hole

    def _size(self) -> int:
        try:
            size = os.stat(f"{self.home}/output").st_size  # noqa: PTH116 (of all instances, again and again)
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
        """Opens the output file. Then checks that the position file exists, so that the file belongs to this
        instance."""
        try:
            file = _open(self._path)
            with on_failure(partial(os.close, file)):
                self._mark.stat()
        except OSError as error:
            raise UnreadableOutput(*error.args) from error
        return file

    def _truncate(self, file: int) -> None:
        os.pwrite(file, b"\0", LEADING_HOLE - 1)  # extends the file if it is shorter
        self._position = self._next = self._free_from = LEADING_HOLE
        self._in_hole = self._next_in_hole = 0
        self.grown = time.monotonic()

    def _read_hole(self, file: int) -> bytes:
        if self._next_in_hole < 0:
            return b""
        raw = os.pread(file, min(CHUNK_BYTES, LEADING_HOLE - self._next_in_hole), self._next_in_hole)
        return raw.partition(b"\0")[0]

    def _give_up_oldest(self, file: int, size: int) -> int:
        """Skips the oldest output if too much is unread. Returns the number of skipped bytes."""
        if size - self._next <= self._backlog:
            return 0
        target = size - self._backlog // 2
        piece = os.pread(file, CHUNK_BYTES, target)
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


def _open(file: Path) -> int:
    """Opens the output file, including a file whose permissions the program has removed. Does not wait while
    the program holds a lease."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        return os.open(file, flags, 0o600)
    except PermissionError:
        file.chmod(0o600)
        return os.open(file, flags, 0o600)


def _create(file: Path) -> None:
    """Creates the output file with its leading hole, unless it exists: an instance may be followed before its
    program is started, and a file without the hole counts as truncated."""
    try:
        created = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        created = _open(file)
    else:
        prepare(created)
    os.close(created)


def _punch(file: int, start: int, length: int) -> bool:
    try:
        if kernel.libc.fallocate(file, PUNCH_HOLE_FLAGS, ctypes.c_int64(start), ctypes.c_int64(length)) == 0:
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
    if len(raw) > MAX_LINE_BYTES:
        return _between_characters(raw, len(raw) - len(raw) % MAX_LINE_BYTES)
    return len(raw) if unfinished else 0


def _first_lines(raw: bytes, end_position: int) -> int:
    """Returns the end position of the last line that may be handed over at once."""
    if raw.count(b"\n", 0, end_position) <= AT_ONCE:
        return end_position
    end_position = 0
    for _ in range(AT_ONCE):
        end_position = raw.find(b"\n", end_position) + 1
    return end_position


def _between_characters(raw: bytes, end_position: int) -> int:
    """Returns the position moved back to the start of a UTF-8 character, which has at most four bytes."""
    for back in range(4):
        if end_position - back >= len(raw) or raw[end_position - back] & 0xC0 != 0x80:
            return end_position - back
    return end_position


def _split(raw: bytes) -> Iterator[str]:
    text = raw.decode("utf-8", "replace")
    if "\0" in text:  # databases reject this character
        text = text.replace("\0", "")
    for line in text.removesuffix("\n").split("\n"):
        if len(line) * 4 <= MAX_LINE_BYTES or len(line.encode()) <= MAX_LINE_BYTES:
            yield line.removesuffix("\r")
        else:
            yield from _cut(line.encode())


def _cut(line: bytes) -> Iterator[str]:
    while line:
        end = _between_characters(line, min(len(line), MAX_LINE_BYTES))
        yield line[:end].decode("utf-8", "replace").removesuffix("\r")
        line = line[end:]


def last_output(home: Path) -> bytes:
    """Returns the last output of an instance, which may contain the reason for its end."""
    with suppress(OSError):
        fd = os.open(home / "output", os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(fd).st_size
            return os.pread(fd, 8192, max(0, size - 8192)) + os.pread(fd, 8192, 0)
        finally:
            os.close(fd)
    return b""
