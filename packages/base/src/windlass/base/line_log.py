"""Writes a log file to which many requests add lines, such as an access log.

A thread writes the collected lines a moment later, so that no request waits for the disk. If lines cannot be
written in time, they are dropped, and the server log reports their number.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import stat
import sys
import time
from pathlib import Path
from typing import Final

from windlass.base.log import log
from windlass.base.subprocesses import in_thread
from windlass.base.trace import start_untraced

WRITE_INTERVAL: Final = 0.2
"""The interval between writes, in seconds."""
MAX_WAITING_LINES: Final = 20_000
"""The maximum number of lines in memory while the disk or the pipe does not accept data."""
MAX_TEXT_LENGTH: Final = 512
# Clients may put anything into a path or a user agent, including a token.
_SECRET_TEXTS_PATTERN: Final = re.compile(r"wdl_\w+|eyJ[\w-]+(\.[\w-]*)*")
_TERMINAL_CONTROLS_PATTERN: Final = re.compile(r"[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Terminal control characters, line ends and marks of text direction, which JSON does not escape."""
_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
_log = log("access")


class LineLog:
    def __init__(self, file: str = "") -> None:
        """Writes to a file, or to standard error without one.

        If the file is moved away, a new file is created. If it cannot be opened, each write tries again.
        """
        self.dropped = 0
        """The number of lines dropped so far."""
        self._path = Path(file) if file else None
        self._descriptor = -1 if file else sys.stderr.fileno()
        self._second: tuple[int, str] = (0, "")
        """The current second and its formatted text, which all its lines share."""
        self._lines: list[bytes] = []
        self._unreported = 0
        self._is_closed = False
        self._turn = asyncio.Lock()
        self._writing: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Opens the file. Raises OSError if it cannot be written."""
        if self._path:
            self._descriptor = os.open(self._path, _FLAGS, 0o600)

    def has_room(self) -> bool:
        """Returns whether a line can be added. If the queue is full, counts the line as dropped."""
        if self._is_closed:
            return False
        if len(self._lines) < MAX_WAITING_LINES:
            return True
        self._count_dropped(1)
        return False

    def put(self, line: bytes) -> None:
        self._lines.append(line)
        if self._writing is None:
            self._writing = start_untraced(self._write_all())

    def refuse_lines(self) -> None:
        self._is_closed = True

    async def close(self) -> None:
        """Writes the remaining lines and refuses new lines."""
        self.refuse_lines()
        if self._writing:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)
        await self.write()
        if self._path and self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    async def _write_all(self) -> None:
        """Writes lines until the queue is empty."""
        while self._lines:
            await asyncio.sleep(WRITE_INTERVAL)
            await asyncio.shield(self.write())
        self._writing = None

    async def write(self) -> None:
        """Writes all waiting lines. Returns after earlier writes have ended, too."""
        async with self._turn:
            await self._write()

    async def _write(self) -> None:
        lines, self._lines = self._lines, []
        try:
            await in_thread(self._append, b"".join(line + b"\n" for line in lines))
        except OSError as error:
            self._count_dropped(len(lines))
            _log.error("the access log cannot be written", extra={"error": error.strerror})
        if self._unreported:
            _log.warning("lines of the access log were dropped", extra={"lines": self._unreported})
            self._unreported = 0

    def _count_dropped(self, lines: int) -> None:
        self.dropped += lines
        self._unreported += lines

    def _append(self, data: bytes) -> None:
        if self._path and not self._is_in_place(self._path):
            # The old file is closed only after this succeeds: its number could soon belong to another file.
            before = self._descriptor
            self.open()
            if before >= 0:
                os.close(before)
        while data:
            data = data[os.write(self._descriptor, data) :]

    def _is_in_place(self, path: Path) -> bool:
        if self._descriptor < 0:
            return False
        try:
            return os.path.samestat(path.stat(), os.fstat(self._descriptor))
        except FileNotFoundError:
            return False

    def stamp(self, now: float) -> str:
        second = int(now)
        if self._second[0] != second:
            self._second = second, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        return f"{self._second[1]}.{int(now % 1 * 1000):03d}Z"


def check_writable(path: Path) -> None:
    """Raises OSError if lines cannot be appended to a file. Creates the file if it is missing.

    Refuses a pipe, because a server that shuts down would wait for the reader of the pipe.
    """
    descriptor = os.open(path, _FLAGS | os.O_NONBLOCK, 0o600)
    try:
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            raise OSError(errno.ESPIPE, "it is a pipe")
    finally:
        os.close(descriptor)


def clean_text(text: str) -> str:
    """Makes text of a client safe for a log: one line, without secrets of Windlass, and shortened."""
    if "wdl_" in text or "eyJ" in text:
        text = _SECRET_TEXTS_PATTERN.sub("***", text)
    if not text.isprintable():
        text = _TERMINAL_CONTROLS_PATTERN.sub("\ufffd", text)
    return text[:MAX_TEXT_LENGTH]
