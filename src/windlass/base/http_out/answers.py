"""What becomes of a request that leaves: an answer, whatever it says, or why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

MOST_READ: Final = 64 * 1024


class HttpResult(Struct, frozen=True):
    status: int
    headers: Mapping[str, str]
    """By names in lower case; what came several times is joined by commas."""
    body: bytes
    """The first `MOST_READ` bytes of it, as they came over the wire."""
    cut: bool
    """Whether there was more, which nobody read."""
    milliseconds: int


class AddressRefused(OSError):
    """It is not allowed to go there. Nobody was called."""


class NoAnswer(OSError):
    """There was no answer, or no whole one. It may have been heard all the same."""
