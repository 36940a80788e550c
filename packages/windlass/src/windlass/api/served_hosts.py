"""The address that a proxy in front asks before it gets a certificate on demand (`ask` of Caddy).

It needs no token, and tells nothing but whether a name is served: anyone finds that out by opening it.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qs

from windlass.api.answers import HttpAnswer
from windlass.api.callers import Callers
from windlass.api.requests import Request
from windlass.api.wrong_paths import not_allowed
from windlass.base.errors import Missing
from windlass.control.context.context import Context
from windlass.control.services.served_hosts import ServedHosts

SERVED_HOST_PATH: Final = "/served-host"
_MAX_QUERY_BYTES: Final = 1024


class ServedHostRequests:
    def __init__(self, ctx: Context, callers: Callers) -> None:
        self._callers = callers
        self._hosts = ServedHosts(ctx)

    def has(self, path: str) -> bool:
        return path == SERVED_HOST_PATH

    async def answer(self, request: Request) -> HttpAnswer:
        """200 if the name in `domain` is one of a service here, 404 otherwise."""
        self._callers.exempt(request)  # one proxy asks for all visitors, and an answer costs nothing
        request.operation = "askServedHost"
        if request.method not in {"GET", "HEAD"}:
            raise not_allowed(request.method, "GET")
        query: bytes = request.scope["query_string"]
        asked = (
            parse_qs(query.decode("latin-1")).get("domain", [""]) if len(query) <= _MAX_QUERY_BYTES else [""]
        )
        if len(asked) == 1 and await self._hosts.has(asked[0]):
            return HttpAnswer(200, b"{}")
        raise Missing("Add the name itself as a domain of a service: none here has this name")
