"""The access log: one line of JSON for each request."""

from __future__ import annotations

import time

import msgspec
from msgspec import Struct

from windlass.api.requests import Request
from windlass.base.line_log import LineLog, clean_text
from windlass.config import BadSetting, Settings

_encode = msgspec.json.Encoder().encode


class AccessLine(Struct, frozen=True, gc=False):
    time: str
    message: str
    """Method, path and status, as readable text."""
    method: str
    path: str
    """The path without the query string, which may contain a secret."""
    operation: str
    status: int
    ms: float
    bytes: int
    """The size of the response body; 0 for a stream, whose size is not known when it begins."""
    actor: str | None
    """The id of the token or person; null if the caller is unknown."""
    organization: str | None
    address: str
    """The client's address, from a trusted proxy's headers if there is such a proxy."""
    user_agent: str
    request_id: str
    trace_id: str
    level: str = "info"
    logger: str = "windlass.access"


class AccessLog(LineLog):
    def note(self, request: Request, status: int, size: int, seconds: float) -> None:
        if not self.has_room():
            return
        method, path, actor = clean_text(request.method), clean_text(request.path), request.actor
        self.put(
            _encode(
                AccessLine(
                    time=self.stamp(time.time()),
                    message=f"{method} {path} {status}",
                    method=method,
                    path=path,
                    operation=request.operation,
                    status=status,
                    ms=round(seconds * 1000, 2),
                    bytes=size,
                    actor=actor.id if actor else None,
                    organization=_organization(request),
                    address=request.client,
                    user_agent=clean_text(request.user_agent),
                    request_id=request.id.decode(),
                    trace_id=request.trace.id,
                )
            )
        )


def access_log_of(settings: Settings) -> AccessLog | None:
    """Returns the access log, or None if the settings do not enable it."""
    if not settings.access_log:
        return None
    access_log = AccessLog(settings.access_log_file)
    try:
        access_log.open()
    except OSError as error:
        raise BadSetting(
            f"access_log_file: {settings.access_log_file} cannot be written: {error.strerror}"
        ) from error
    return access_log


def _organization(request: Request) -> str | None:
    """Returns the organization of the caller. If the caller has several, it is the organization in the
    path."""
    if request.actor is None:
        return None
    organizations = request.actor.organizations
    if len(organizations) == 1:
        return organizations[0]
    return next((piece for piece in request.path.split("/") if piece in organizations), None)
