"""Errors that are reported to callers. Raised where the reason is known, rendered once, at the HTTP
edge.

A message names the resource and the remedy. It never contains a trace, SQL, a path or a host name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

NO_DATA: Final = (
    "Mount the disk of the data directory, or bring the directory back: it is not there, and changes cannot "
    "be stored"
)
READ_ONLY: Final = (
    "Mount the disk of the data directory writable: it is read-only now, and changes cannot be stored. The "
    "kernel makes a damaged disk read-only: see `dmesg`"
)


class Failure(Exception):
    """An error that is reported to the caller."""

    status: ClassVar[int] = 500

    def __init__(self, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.headers = dict(headers or {})


class Invalid(Failure):
    """The request is wrong. The message names the field: `git_repository.url: must be …`."""

    status = 400


class Unauthorized(Failure):
    status = 401


class Forbidden(Failure):
    status = 403


class Missing(Failure):
    status = 404


class NotAllowed(Failure):
    status = 405


class NotHttp(Failure):
    """The path exists, but speaks another protocol than HTTP, such as websocket."""

    status = 426


class Conflict(Failure):
    status = 409


class Stale(Failure):
    """The caller's `If-Match` names a version that is no longer the current one."""

    status = 412


class TooLarge(Failure):
    status = 413


class TooMany(Failure):
    status = 429


class NotOffered(Failure):
    """An operation of the full interface that Windlass refuses on purpose. The message says why."""

    status = 501


class Unavailable(Failure):
    """A part that Windlass needs is unavailable; the same call may succeed later."""

    status = 503


class DatabaseUnavailable(Unavailable):
    """The database does not answer, or cannot be reached."""


class BadSetting(Exception):
    """A setting of the operator is wrong. The message names it and says what it should be."""
