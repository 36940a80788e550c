"""Sends all outgoing HTTP requests. Follows no redirects, keeps no cookies, calls only allowed addresses."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from windlass.base import addresses
from windlass.base.addresses import Reach, Resolve
from windlass.base.http_out.answers import MAX_BODY_BYTES, HttpResult, NoAnswer
from windlass.base.http_out.url import check_url, parse_url

if TYPE_CHECKING:
    from windlass.base.http_out.client import HttpClient


class HttpTransport(Protocol):
    """Sends requests to other servers. Implemented by `HttpSender` and by test doubles."""

    async def send(
        self,
        method: str,
        url: str,
        body: bytes = b"",
        headers: Mapping[str, str] = ...,
        *,
        seconds: float = ...,
        limit: int = ...,
    ) -> HttpResult: ...


class HttpSender:
    def __init__(
        self,
        allowed: Sequence[str] = (),
        proxy: str = "",
        *,
        resolve: Resolve = addresses.resolve,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        """Calls public addresses and the networks in `allowed`. `trust` replaces the system's
        certificates."""
        self._reach = _parse_reach(allowed)
        self._proxy = _check_proxy(proxy)
        self._resolve = resolve
        self._trust = trust
        self._client: HttpClient | None = None
        self._closed = False

    async def send(
        self,
        method: str,
        url: str,
        body: bytes = b"",
        headers: Mapping[str, str] = {},
        *,
        seconds: float = 15.0,
        limit: int = MAX_BODY_BYTES,
    ) -> HttpResult:
        """Sends a request and returns the response with any status, and with up to `limit` bytes of its body.

        The request may be sent twice, so it should contain an id. Raises `AddressRefused`, or `NoAnswer` if
        no complete response arrives within `seconds`.
        """
        where = parse_url(url)
        check_url(where, self._reach, named_elsewhere=bool(self._proxy))
        return await self._open_client().send(method, where, body, headers, seconds, limit)

    async def fetch(self, url: str) -> bytes:
        """Fetches a document of a trusted issuer, at any address.

        Uses the proxy that the environment sets for all programs (HTTPS_PROXY, NO_PROXY).
        """
        from windlass.base.http_out.client import document  # noqa: PLC0415 (as below)

        return await document(url)

    async def close(self) -> None:
        """Stops sending. Requests in progress fail."""
        self._closed = True
        client, self._client = self._client, None
        if client:
            await client.close()

    def _open_client(self) -> HttpClient:
        from windlass.base.http_out.client import HttpClient  # noqa: PLC0415 (300 ms and 15 MB, unneeded by many installations)

        if self._closed:
            raise NoAnswer("Windlass is stopping and sends nothing any more.")
        self._client = self._client or HttpClient(self._reach, self._resolve, self._proxy, self._trust)
        return self._client


def _parse_reach(allowed: Sequence[str]) -> Reach:
    try:
        return Reach(allowed)
    except ValueError as error:
        raise ValueError(f"outbound_allow: {error}") from error


def _check_proxy(proxy: str) -> str:
    try:
        parts = urlsplit(proxy)
        usable = not proxy or (parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0)
    except ValueError:
        usable = False
    if not usable:
        raise ValueError("outbound_proxy: must be like http://proxy.example.com:3128")
    return proxy
