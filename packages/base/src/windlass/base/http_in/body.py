"""Separates a request body from the other bytes of a connection.

The module `chunks` parses the framing of a chunked body. The connection decides what to do with the bytes.
"""

from __future__ import annotations

import sys
from typing import Final

from windlass.base.http_in.bounds import Bounds
from windlass.base.http_in.chunks import Chunks
from windlass.base.http_in.heads import CHUNKED_LENGTH
from windlass.base.http_in.wire import HeadBuffer

_UNKNOWN: Final = sys.maxsize


class RequestBody:
    """Parses a body to its end. Stores bytes after the end in `held`, for the next request."""

    __slots__ = ("_chunks", "_held", "left", "whole")

    def __init__(
        self,
        length: int,
        bounds: Bounds,
        buffer: HeadBuffer,
        *,
        plain: bool = False,
        limit: int = sys.maxsize,
        at_once: int = sys.maxsize,
    ) -> None:
        """`plain` removes the framing of a chunked body. For `limit` and `at_once`, see `Chunks`."""
        is_chunked = length == CHUNKED_LENGTH
        self._chunks = Chunks(bounds, plain=plain, limit=limit, at_once=at_once) if is_chunked else None
        self._held = buffer
        self.left = length if self._chunks is None else _UNKNOWN
        """The maximum number of bytes that are still missing."""
        self.whole = False

    @property
    def is_behind(self) -> bool:
        """See `Chunks.is_behind`."""
        return self._chunks is not None and self._chunks.is_behind

    def allow_chunks(self) -> None:
        """Removes the limit for the number of chunks."""
        if self._chunks is not None:
            self._chunks.allow_any_number()

    def begin(self) -> bytes:
        """Returns the part of the body that `held` already contains."""
        return self.feed(self._held.take() if self._chunks else self._held.cut(self.left))

    def feed(self, data: bytes) -> bytes:
        """Returns the part of `data` that belongs to the body. Raises Bad."""
        after: bytes | None
        if self._chunks is not None:
            data, after = self._chunks.feed(data)
        else:
            data, after = data[: self.left], data[self.left :] if len(data) >= self.left else None
            self.left -= len(data)
        if after is not None:
            self.whole = True
            if after:
                self._held.add(after)
        return data
