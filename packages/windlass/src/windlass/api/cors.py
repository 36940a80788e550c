"""Cross-origin requests: calls of the API from browsers that show pages of other origins.

The settings name the origins. Without any, an answer carries no header about them.
"""

from __future__ import annotations

from collections.abc import Collection

from windlass.api.answers import Header, HttpAnswer
from windlass.api.requests import Request

_ACCEPTED = b"authorization, content-type, idempotency-key, if-match, x-request-id"
_EXPOSED = (
    b"etag, x-request-id, x-ratelimit-limit, x-ratelimit-remaining, x-ratelimit-reset, retry-after, "
    b"idempotency-replayed"
)
_CACHED_SECONDS = b"600"


class CrossOrigin:
    def __init__(self, origins: Collection[str]) -> None:
        self.origins = frozenset(origin.encode() for origin in origins)

    def preflight(self, request: Request, allow: str) -> HttpAnswer:
        """Answers OPTIONS: the methods of the path, and to an allowed origin what else it may send."""
        methods = allow.encode()
        headers: tuple[Header, ...] = ((b"allow", methods),)
        if request.headers.get(b"origin") in self.origins:
            headers += (
                (b"access-control-allow-methods", methods),
                (b"access-control-allow-headers", _ACCEPTED),
                (b"access-control-max-age", _CACHED_SECONDS),
            )
        return HttpAnswer(204, b"", headers)

    def headers(self, request: Request) -> tuple[Header, ...]:
        """Returns the headers of every answer to this request, where any origins are allowed."""
        origin = request.headers.get(b"origin")
        if origin not in self.origins or origin is None:
            return ((b"vary", b"origin"),)
        return (
            (b"vary", b"origin"),
            (b"access-control-allow-origin", origin),
            (b"access-control-expose-headers", _EXPOSED),
        )
