"""The outcome of an outgoing request: an answer, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

MOST_READ: Final = 64 * 1024


class HttpResult(Struct, frozen=True):
    status: int
    headers: Mapping[str, str]
    """Headers by names in lower case; repeated ones are joined by commas."""
    body: bytes
    """The first bytes of the body, as sent: `MOST_READ`, unless the caller takes more."""
    cut: bool
    """True if the body was longer; the rest was not read."""
    milliseconds: int


class AddressRefused(OSError):
    """The address is not allowed. No connection was opened."""


class NoAnswer(OSError):
    """No complete answer arrived. The receiver may have processed the request all the same."""


class UnknownName(NoAnswer):
    """The host has no address, as far as name servers know."""


class TlsFailure(NoAnswer):
    """The receiver speaks no TLS that can be trusted. Nothing was sent."""
