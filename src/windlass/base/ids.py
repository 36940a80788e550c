"""Identifiers: lower-case version 4 UUIDs, and shorter random tags."""

from __future__ import annotations

import os
import re
from typing import Final

PATTERN: Final = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z"
LENGTH: Final = 36
_shape = re.compile(PATTERN)
_DIGITS, _RESERVE = 32, 256
_VARIANT: Final = {digit: "89ab"[place % 4] for place, digit in enumerate("0123456789abcdef")}
# Random digits are taken from the system in batches: one call for each id would cost more than the id, and
# lets other threads run first. A popped entry is used by one thread only; a fork clears the list.
_reserve: list[str] = []
os.register_at_fork(after_in_child=_reserve.clear)


def new_id() -> str:
    # uuid.uuid4() builds an object that would only be printed.
    text = _random()
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{_VARIANT[text[16]]}{text[17:20]}-{text[20:]}"


def new_tag() -> str:
    """Returns a random version name. After a restore, an old tag cannot match new content by chance."""
    return _random()[:16]


def is_id(text: str) -> bool:
    return _shape.match(text) is not None


def _random() -> str:
    """Returns random digits, unique to this call."""
    try:
        return _reserve.pop()
    except IndexError:
        digits = os.urandom(_DIGITS // 2 * _RESERVE).hex()
        mine, *others = (digits[at : at + _DIGITS] for at in range(0, len(digits), _DIGITS))
        _reserve.extend(others)
        return mine
