"""Frames of server-sent events, used by all streams of the API."""

from __future__ import annotations

from typing import Final

from windlass.control.context.call import encode


def event(id: bytes, data: bytes) -> bytes:
    """Encodes an event. A client that reconnects sends the id of the last event that it received."""
    return b"id: %b\ndata: %b\n\n" % (id, data)


def missing_remark(message: str) -> bytes:
    """Encodes a message about a gap in the stream."""
    return remark(b"gone", message)


def remark(kind: bytes, message: str, **further: object) -> bytes:
    """Encodes a message about the stream itself."""
    return b"event: %b\ndata: %b\n\n" % (kind, encode({"message": message, **further}))


END_REMARK: Final = remark(b"end", "Nothing more comes")
