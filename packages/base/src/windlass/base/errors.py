"""Defines the errors that are reported to callers. The code that finds the reason raises them, and the HTTP
layer renders them.

A message contains the affected object and a remedy. It never contains a trace, SQL, a path or a host name.
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
    """The request is invalid. The message begins with the field: `git_repository.url: must be …`."""

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
    """The path exists, but needs another protocol than HTTP, such as WebSocket."""

    status = 426


class Conflict(Failure):
    status = 409


class Stale(Failure):
    """The `If-Match` header of the request has a version that is out of date."""

    status = 412


class TooLarge(Failure):
    status = 413


class Unprocessable(Failure):
    """The request is valid, and another server that it concerns refuses it."""

    status = 422


class TooMany(Failure):
    status = 429


class NotOffered(Failure):
    """The API defines the operation, but Windlass refuses it on purpose. The message says why."""

    status = 501


class Unavailable(Failure):
    """A component that Windlass needs is unavailable. The same request may succeed later."""

    status = 503


class DatabaseUnavailable(Unavailable):
    """The database does not respond or cannot be reached."""


class BadSetting(Exception):
    """A setting of the operator is invalid. The message contains its name and the expected value."""
