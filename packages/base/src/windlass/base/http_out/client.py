"""An outgoing HTTP client based on aiohttp, whose sockets connect only to allowed addresses.

The socket factory is the guard: it checks the address of each connection, whatever the DNS result was.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Any, Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from windlass.base.addresses import Reach, Resolve
from windlass.base.http_out.answers import (
    MAX_BODY_BYTES,
    AddressRefused,
    HttpResult,
    NoAnswer,
    TlsFailure,
    UnknownName,
    explain_errno,
)
from windlass.base.http_out.url import Url, no_public_address
from windlass.base.trace import trace_headers
from windlass.base.version import VERSION

IDLE_TIMEOUT: Final = 30.0
MAX_CONNECTIONS_PER_HOST: Final = 100
MAX_ADDRESSES: Final = 8
MAX_LINE_BYTES: Final = 8190
MAX_HEADERS: Final = 100

MAX_DOCUMENT_BYTES: Final = 1024 * 1024
DOCUMENT_TIMEOUT: Final = 10.0

ALL_NETWORKS: Final = ("0.0.0.0/0", "::/0")
UNACKNOWLEDGED_TIMEOUT_MS: Final = 60_000
"""The time in milliseconds after which the kernel closes a connection with unacknowledged data."""

_HEADERS: Final = {"User-Agent": f"Windlass/{VERSION}", "Accept-Encoding": "identity"}


class HttpClient:
    """An HTTP session with its connection pool. It belongs to the event loop that creates it."""

    def __init__(
        self, allowed_addresses: Reach, resolve: Resolve, proxy: str, trust: ssl.SSLContext | None
    ) -> None:
        # With a proxy, only the proxy's address is called, and the operator chose it.
        guard = Guard(Reach(ALL_NETWORKS) if proxy else allowed_addresses, resolve)
        self._proxied = bool(proxy)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                ssl=trust or True,
                resolver=guard,
                socket_factory=guard.opened,
                use_dns_cache=False,
                keepalive_timeout=IDLE_TIMEOUT,
                limit=0,  # no limit: a dead receiver must not use up the slots; callers limit themselves
                limit_per_host=MAX_CONNECTIONS_PER_HOST,
            ),
            proxy=proxy or None,
            headers=_HEADERS,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(),  # no timeouts: `send` limits the total time
            trace_configs=[_trace_reuse()],
            auto_decompress=False,
            trust_env=False,
            read_bufsize=MAX_BODY_BYTES,
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_LINE_BYTES,
            max_headers=MAX_HEADERS,
        )

    async def send(
        self, method: str, url: Url, body: bytes, headers: Mapping[str, str], seconds: float, limit: int
    ) -> HttpResult:
        began = time.monotonic()
        with self._translated(url, seconds):
            async with asyncio.timeout(seconds):
                try:
                    return await self._send_once(method, url, body, headers, began, limit)
                except _ConnectionLost:
                    return await self._send_once(method, url, body, headers, began, limit)

    async def close(self) -> None:
        await self._session.close()

    async def _send_once(
        self, method: str, url: Url, body: bytes, headers: Mapping[str, str], started_at: float, limit: int
    ) -> HttpResult:
        used = _RequestState()
        try:
            async with self._session.request(
                method,
                URL(url.url, encoded=True),
                data=body or None,
                headers={**trace_headers(), **headers},
                allow_redirects=False,
                trace_request_ctx=used,
            ) as answer:
                used.answered = True
                return await _read(answer, started_at, limit)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
            if used.before and not used.answered:
                raise _ConnectionLost from error
            raise

    @contextmanager
    def _translated(self, url: Url, seconds: float) -> Iterator[None]:
        try:
            yield
        except TimeoutError as error:
            raise NoAnswer(f"{url.shown} did not answer in full within {seconds:g} seconds.") from error
        except (aiohttp.ClientError, OSError) as error:
            if isinstance(cause := getattr(error, "os_error", error), AddressRefused | NoAnswer):
                raise cause from None
            raise _failure(error, url, proxied=self._proxied) from error


class Guard(AbstractResolver):
    """Checks each address before a socket connects to it."""

    def __init__(self, allowed_addresses: Reach, resolve: Resolve) -> None:
        self._reach = allowed_addresses
        self._resolve = resolve

    def opened(self, wanted: Any) -> socket.socket:
        family, kind, protocol, _, address = wanted
        if not self._reach.admits(ip_address(address[0])):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        connection = socket.socket(family, kind, protocol)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED_TIMEOUT_MS)
        return connection

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Returns the addresses of a host name, allowed addresses first.

        The check here only improves the error message; `opened` is the guard.
        """
        addresses = sorted(await self._resolve(host, port), key=self._reach.admits, reverse=True)
        if addresses and not self._reach.admits(addresses[0]):
            raise no_public_address(host)
        return [
            ResolveResult(
                hostname=host,
                host=str(address),
                port=port,
                family=socket.AF_INET if address.version == 4 else socket.AF_INET6,
                proto=0,
                flags=0,
            )
            for address in addresses[:MAX_ADDRESSES]
        ]

    async def close(self) -> None:
        """Does nothing, because the resolver has no resources."""


class _RequestState:
    """The progress of one request."""

    before = False
    """Whether the connection had served another request before."""
    answered = False


class _ConnectionLost(Exception):
    """The receiver closed a pooled connection just as it was reused. The request is sent again."""


def _trace_reuse() -> aiohttp.TraceConfig:
    async def note(session: Any, context: Any, parameters: Any) -> None:
        context.trace_request_ctx.before = True

    tracing = aiohttp.TraceConfig()
    tracing.on_connection_reuseconn.append(note)
    return tracing


async def _read(answer: aiohttp.ClientResponse, started_at: float, limit: int) -> HttpResult:
    body = await _read_beginning(answer.content, limit + 1)
    if cut := len(body) > limit:
        _close_abruptly(answer)
    return HttpResult(
        answer.status,
        _decoded_headers(answer),
        body[:limit],
        cut,
        round((time.monotonic() - started_at) * 1000),
    )


async def _read_beginning(content: aiohttp.StreamReader, limit: int) -> bytes:
    kept = bytearray()
    while len(kept) < limit and (more := await content.read(limit - len(kept))):
        kept += more
    return bytes(kept)


def _close_abruptly(answer: aiohttp.ClientResponse) -> None:
    """Closes the connection at once. An orderly TLS shutdown would continue to read data of the receiver."""
    if answer.connection and answer.connection.transport:
        answer.connection.transport.abort()
    answer.close()


def _decoded_headers(answer: aiohttp.ClientResponse) -> dict[str, str]:
    headers: dict[str, str] = {}
    for raw, value in answer.raw_headers:
        name, text = raw.decode("ascii", "replace").lower(), value.decode("utf-8", "replace")
        headers[name] = f"{headers[name]}, {text}" if name in headers else text
    return headers


def _failure(error: Exception, url: Url, *, proxied: bool) -> NoAnswer:
    words = _explain_failure(error, url, proxied=proxied)
    match error:
        case aiohttp.ClientProxyConnectionError() | aiohttp.ClientHttpProxyError():
            return NoAnswer(words)
        case aiohttp.ClientConnectorDNSError() if not proxied:
            return UnknownName(words)
        case aiohttp.ClientSSLError():
            return TlsFailure(words)
    return NoAnswer(words)


def _explain_failure(error: Exception, url: Url, *, proxied: bool) -> str:
    match error:
        case aiohttp.ClientProxyConnectionError():
            return _PROXY_UNREACHABLE
        case aiohttp.ClientHttpProxyError():
            return f"The proxy (outbound_proxy) does not connect to {url.shown}: it answers {error.status}."
        case aiohttp.ClientConnectorDNSError():
            return (
                _PROXY_UNREACHABLE
                if proxied
                else f"There is no machine named {url.host}, or no name server knows it."
            )
        case aiohttp.ClientConnectorCertificateError():
            why = getattr(error.certificate_error, "verify_message", "") or "it does not fit"
            return f"{url.shown} shows a certificate that is not valid: {why}."
        case aiohttp.ClientSSLError():
            return f"{url.shown} does not speak TLS, or none that is safe."
        case aiohttp.ClientResponseError():
            return f"{url.shown} answered something that is not HTTP, or with headers beyond all measure."
        case aiohttp.ClientPayloadError():
            return f"{url.shown} broke off in the middle of its answer."
        case aiohttp.ServerDisconnectedError():
            return f"{url.shown} ended the connection without an answer."
        case OSError():
            return f"{url.shown} {explain_errno(error)}."
    return f"{url.shown} cannot be reached."


_PROXY_UNREACHABLE: Final = "The proxy (outbound_proxy) cannot be reached."


async def document(url: str) -> bytes:
    try:
        async with (
            aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=DOCUMENT_TIMEOUT), headers=_HEADERS, trust_env=True
            ) as session,
            session.get(url, allow_redirects=False) as answer,
        ):
            if answer.status != 200:
                raise NoAnswer(f"{url} answered {answer.status}")
            body = await _read_beginning(answer.content, MAX_DOCUMENT_BYTES + 1)
    except TimeoutError as error:
        raise NoAnswer(f"{url} did not answer within {DOCUMENT_TIMEOUT:g} seconds") from error
    except aiohttp.ClientError as error:
        raise NoAnswer(f"{url} cannot be fetched: {error}") from error
    if len(body) > MAX_DOCUMENT_BYTES:
        raise NoAnswer(f"{url} answered more than {MAX_DOCUMENT_BYTES} bytes")
    return body
