"""Error responses for paths and methods that are not served."""

from __future__ import annotations

from windlass.api import sockets
from windlass.base.errors import Failure, Missing, NotAllowed, NotHttp, NotOffered
from windlass.core.words.not_offered import why_not_offered


def websocket_only(advice: str) -> Failure:
    return NotHttp(
        f"This is for websockets, version 13. {advice}",
        {"connection": "upgrade", "upgrade": "websocket", "sec-websocket-version": "13"},
    )


def refuse_unsupported(method: str, path: str) -> None:
    if reason := why_not_offered(method, path):
        raise NotOffered(reason)


def nothing_at(path: str) -> Failure:
    if path == sockets.LOGS_PATH:
        return websocket_only("Over HTTP, a log is read with GET /application/{app_id}/log")
    return Missing(
        "There is nothing at this path: look in /openapi.json, which lists all paths. They take ids, "
        "not names: GET /organization/{org_id}/services lists the ids of services"
    )


def not_allowed(method: str, allow: str) -> NotAllowed:
    return NotAllowed(
        f"{method} is not allowed here; the header Allow lists the methods that are", {"allow": allow}
    )
