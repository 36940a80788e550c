"""Calls the authority that the operator has chosen, at whatever address its directory has.

Other hosts, which the documents of the authority may name, must have public addresses, as for all outgoing
requests.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from windlass.base.http_out import MAX_BODY_BYTES, AddressRefused, HttpResult, HttpSender

_ANYWHERE = ("0.0.0.0/0", "::/0")


class AuthorityHttp:
    def __init__(
        self,
        directory: str,
        trust: ssl.SSLContext | None = None,
        allowed: Sequence[str] = (),
        proxy: str = "",
    ) -> None:
        """`trust` decides whether the authority's own TLS certificate is accepted; by default, the system
        does."""
        self.directory = directory
        self._origin = _origin_of(directory)
        self._chosen = HttpSender(_ANYWHERE, proxy, trust=trust)
        self._others = HttpSender(allowed, proxy, trust=trust)

    async def send(
        self,
        method: str,
        url: str,
        body: bytes = b"",
        headers: Mapping[str, str] = {},
        *,
        seconds: float = 20.0,
        limit: int = MAX_BODY_BYTES,
    ) -> HttpResult:
        origin = _origin_of(url)
        if origin == self._origin:
            return await self._chosen.send(method, url, body, headers, seconds=seconds, limit=limit)
        if origin[0] != "https":
            raise AddressRefused("The authority names an address without https.")
        return await self._others.send(method, url, body, headers, seconds=seconds, limit=limit)

    async def close(self) -> None:
        await self._chosen.close()
        await self._others.close()


def _origin_of(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme.lower(), parts.netloc.lower()
