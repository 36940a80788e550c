"""Identifiers: lower-case version 4 UUIDs, and shorter random tags."""

from __future__ import annotations

import os
import re
from typing import Final

PATTERN: Final = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z"
_shape = re.compile(PATTERN)


def new_id() -> str:
    # uuid.uuid4() builds an object that we would only print: this is four times cheaper.
    raw = bytearray(os.urandom(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def new_tag() -> str:
    """A random version name: after a restore, an old tag cannot meet another content by chance."""
    return os.urandom(8).hex()


def is_id(text: str) -> bool:
    return _shape.match(text) is not None
