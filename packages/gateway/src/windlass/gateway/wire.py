"""Messages as bytes: a length of four bytes, and msgpack."""

from __future__ import annotations

import asyncio
import struct
from typing import Final

_LENGTH: Final = struct.Struct(">I")
MOST: Final = 64 * 1024 * 1024
"""Bytes of one message."""


def frame(body: bytes) -> bytes:
    return _LENGTH.pack(len(body)) + body


async def read_frame(reader: asyncio.StreamReader) -> bytes | None:
    """Returns the next message; None at the end."""
    try:
        (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        return None if length > MOST else await reader.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def frames(content: bytes) -> list[bytes]:
    """Splits the content of a file into messages. Leaves out an incomplete last message."""
    messages, at = [], 0
    while at + _LENGTH.size <= len(content):
        (length,) = _LENGTH.unpack_from(content, at)
        begin, at = at + _LENGTH.size, at + _LENGTH.size + length
        if at <= len(content):
            messages.append(content[begin:at])
    return messages
