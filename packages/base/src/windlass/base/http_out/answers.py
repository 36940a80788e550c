"""Defines the outcomes of an outgoing request: a response, or the reason for its absence."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

MAX_BODY_BYTES: Final = 64 * 1024
_REASONS_BY_ERRNO: Final = {
    errno.ECONNREFUSED: "refuses connections",
    errno.ECONNRESET: "broke the connection off",
    errno.ECONNABORTED: "broke the connection off",
    errno.EPIPE: "broke the connection off",
    errno.ETIMEDOUT: "does not answer",
    errno.EHOSTUNREACH: "cannot be reached: there is no way to it",
    errno.ENETUNREACH: "cannot be reached: there is no way to it",
    errno.EMFILE: "was not called: Windlass has too many files open, and needs a higher limit (ulimit -n)",
    errno.ENFILE: "was not called: the machine of Windlass has too many files open",
}


class HttpResult(Struct, frozen=True):
    status: int
    headers: Mapping[str, str]
    """The response headers by lower-case name. Values of repeated headers are joined by commas."""
    body: bytes
    """The beginning of the body as sent: up to `MAX_BODY_BYTES` bytes, or the maximum that the caller set."""
    cut: bool
    """Whether the body was longer. The rest was not read."""
    milliseconds: int


class AddressRefused(OSError):
    """The address is not allowed. No connection was opened."""


class NoAnswer(OSError):
    """No complete response arrived. The receiver may nevertheless have processed the request."""


class UnknownName(NoAnswer):
    """Name servers have no address for the host."""


class TlsFailure(NoAnswer):
    """The receiver does not offer trustworthy TLS. Nothing was sent."""


def explain_errno(error: OSError) -> str:
    """Returns why a connection failed, as the end of a sentence about the server."""
    return _REASONS_BY_ERRNO.get(error.errno or 0, "cannot be reached")
