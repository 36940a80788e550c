"""The access log: one JSON object a line for each request that was answered."""

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
    """The method, the path and the status, as readable text."""
    method: str
    path: str
    """The path without the query, which may contain a secret."""
    operation: str
    status: int
    ms: float
    bytes: int
    """The size of the body; 0 for a stream, which has only begun."""
    actor: str | None
    """The id of the token or of the person, if it was known."""
    organization: str | None
    address: str
    """The address of the client, as reported by a trusted proxy if there is one."""
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
    """Returns the access log that the settings ask for, if they do."""
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
    """Returns the organization of the caller; of several the one that the path names."""
    if request.actor is None:
        return None
    organizations = request.actor.organizations
    if len(organizations) == 1:
        return organizations[0]
    return next((piece for piece in request.path.split("/") if piece in organizations), None)
