"""Generates identifiers: lower-case version 4 UUIDs, and shorter random tags."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from struct import Struct
from typing import Final

PATTERN: Final = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z"
LENGTH: Final = 36
_shape = re.compile(PATTERN)
_BYTES, _RESERVE = 16, 256
# Ids and tags are generated in batches, because a system call for each would take longer than everything else
# and would release the interpreter lock. Each entry is popped by one thread only; a fork clears the lists.
_ids: list[str] = []
_tags: list[str] = []
os.register_at_fork(after_in_child=_ids.clear)
os.register_at_fork(after_in_child=_tags.clear)
_ID: Final = Struct("8s4s4s4s12s")
_TAG: Final = Struct("16s")
# The bits of a version 4 UUID that are fixed, and their values, repeated for a whole batch.
_FIXED: Final = int.from_bytes(bytes([0] * 6 + [0xF0, 0, 0xC0] + [0] * 7) * _RESERVE, "big")
_VALUES: Final = int.from_bytes(bytes([0] * 6 + [0x40, 0, 0x80] + [0] * 7) * _RESERVE, "big")


def new_id() -> str:
    # uuid.uuid4() would create an object that is only formatted.
    try:
        return _ids.pop()
    except IndexError:
        number = int.from_bytes(os.urandom(_BYTES * _RESERVE), "big") & ~_FIXED | _VALUES
        digits = number.to_bytes(_BYTES * _RESERVE, "big").hex().encode()
        return _refill(b"%b-%b-%b-%b-%b", _ID.iter_unpack(digits), _ids)


def new_tag() -> str:
    """Returns a random version tag. Random tags of old content cannot match new content after a restore."""
    try:
        return _tags.pop()
    except IndexError:
        digits = os.urandom(_BYTES // 2 * _RESERVE).hex().encode()
        return _refill(b"%b", _TAG.iter_unpack(digits), _tags)


def _refill(id_format: bytes, parts: Iterable[tuple[bytes, ...]], reserve: list[str]) -> str:
    """Generates a batch of ids. Returns one of them and stores the others in the reserve."""
    mine, *others = b" ".join(map(id_format.__mod__, parts)).decode().split(" ")
    reserve.extend(others)
    return mine


def is_id(text: str) -> bool:
    return _shape.match(text) is not None
