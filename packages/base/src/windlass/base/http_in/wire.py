"""Defines the common grammar of request and response heads, and a buffer that collects heads.

The grammar accepts less than many servers, on purpose: request smuggling needs two programs that interpret
the same bytes differently. Ambiguous input is refused, and other input is passed on in one form only.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

TOKEN: Final = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]"
FIELD_TEXT: Final = rb"[\t\x20-\x7e\x80-\xff]"

FIELD_BLOCK: Final = re.compile(rb"(?:\r\n" + TOKEN + rb"++:" + FIELD_TEXT + rb"*+)*+")
"""A block of fields. Each field begins with the preceding line break. Folded lines, single CR or LF
characters, and NUL are not allowed."""

CONTENT_LENGTH: Final = re.compile(rb"[0-9]{1,15}")
_LINE_END: Final = b"\r\n"
_LONE_FEED_PATTERN: Final = re.compile(rb"(?<!\r)\n")
HEAD_END: Final = b"\r\n\r\n"
_AROUND_TARGET: Final = 96
"""The length of the longest method and the version."""
_MAX_EMPTY_LINES: Final = 16


class Bad(Exception):
    """The input is not valid HTTP, or is refused for safety."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def without_fields(block: bytes, names: Collection[bytes]) -> bytes:
    """Returns a block of fields without the fields whose lower-case names are in `names`.

    Scans the block once, because there may be thousands of names.
    """
    lines = block.split(_LINE_END)[1:]
    return b"".join(_LINE_END + line for line in lines if line.partition(b":")[0].lower() not in names)


class HeadBuffer:
    """Collects bytes until a head is complete. Scans each byte once, however small the pieces are."""

    __slots__ = ("_empty", "_most", "_most_of_line", "_seen", "held")

    def __init__(self, limit: int, most_of_line: int) -> None:
        """`limit` is the maximum size of a head, and `most_of_line` the maximum length of its target."""
        self.held = bytearray()
        self._seen = self._empty = 0
        self._most = limit
        self._most_of_line = most_of_line + _AROUND_TARGET

    def add(self, data: bytes) -> None:
        self.held += data

    def complete(self) -> bytes | None:
        """Removes and returns all bytes if they contain a complete head."""
        return self.take() if self._end() >= 0 else None

    def head(self) -> bytes | None:
        """Removes and returns the first head if it is complete."""
        end = self._end()
        return self.cut(end + len(HEAD_END)) if end >= 0 else None

    def _end(self) -> int:
        held = self.held
        while held.startswith(b"\r\n"):
            del held[:2]  # empty lines before a request are ignored (RFC 9112, 2.2)
            self._seen = 0
            self._empty += 1
            if self._empty > _MAX_EMPTY_LINES:
                raise Bad(400, "There are too many empty lines before the request.")
        begin = max(0, self._seen - 3)
        end = held.find(HEAD_END, begin, self._most)
        if end < 0:
            if len(held) >= self._most_of_line > begin and held.find(b"\n", begin, self._most_of_line) < 0:
                self._check_line()
            if len(held) >= self._most:
                raise Bad(431, f"The head is larger than {self._most // 1024} KiB.")
            if _LONE_FEED_PATTERN.search(held, begin):
                raise Bad(400, "A line ends without a carriage return.")
            self._seen = len(held)
        return end

    def _check_line(self) -> None:
        if self.held.find(b"\n", 0, self._most_of_line) < 0:
            raise Bad(414, "The first line of the request is too long.")

    def cut(self, size: int) -> bytes:
        """Removes and returns the first `size` bytes without copying the rest."""
        data = bytes(self.held[:size])
        del self.held[:size]
        self._seen = self._empty = 0
        return data

    def take(self) -> bytes:
        data = bytes(self.held)
        self.held.clear()
        self._seen = self._empty = 0
        return data
