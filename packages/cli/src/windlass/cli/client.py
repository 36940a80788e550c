"""The HTTP client for the API, which needs the standard library only. Its errors contain the remedy."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import ipaddress
import json
import os
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Mapping
from email.message import Message
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from msgspec import Struct

from windlass.base.version import VERSION
from windlass.terminal.command_errors import CommandFailed, InvalidUsage
from windlass.terminal.tables import plain

EVENT_STREAM = "text/event-stream"
TIMEOUT = 60
"""The timeout in seconds without a byte from the server. During a stream, the server sends a comment four
times in this interval."""
_PAGE_SIZE = 1000
_CHUNK_BYTES = 1 << 16


class ServerUnreachable(CommandFailed):
    """The server does not respond at the moment."""


class ApiRefused(CommandFailed):
    """The server refused the request."""

    def __init__(self, message: str, answer: ApiAnswer) -> None:
        super().__init__(message)
        self.answer = answer
        self.status = answer.status
        self.headers = answer.headers
        self.after = answer.headers.get("retry-after", "")


class ResponseStream:
    """The body of a streamed response, read in pieces as they arrive."""

    def __init__(self, reply: http.client.HTTPResponse) -> None:
        self._reply = reply
        # Duplicates the file descriptor, because the number of a closed descriptor may be reused.
        self._line = socket.socket(fileno=os.dup(reply.fileno()))

    def pieces(self) -> Generator[bytes, None, None]:
        """Yields the pieces. Raises OSError or HTTPException if the connection breaks."""
        with self._line, self._reply:
            while piece := self._reply.read1(_CHUNK_BYTES):
                yield piece

    def hang_up(self) -> None:
        """Ends the stream. May be called from another thread: a blocked reader returns."""
        with contextlib.suppress(OSError):  # the stream has already ended
            self._line.shutdown(socket.SHUT_RDWR)


class ApiAnswer(Struct, frozen=True):
    status: int
    headers: Mapping[str, str]
    body: bytes
    going_on: ResponseStream | None = None
    """The stream of an endless response, which has no body."""

    @property
    def json(self) -> Any:
        try:
            return json.loads(self.body) if self.body else None
        except ValueError as error:
            raise CommandFailed(
                "check the address (--url or WINDLASS_URL): another program than Windlass answers there"
            ) from error

    @property
    def tag(self) -> str:
        return self.headers.get("etag", "")


class Api:
    """An API client: the server's address, and the token that is sent with each request."""

    def __init__(self, url: str, token: str, *, seconds: float = TIMEOUT) -> None:
        """`seconds`: the timeout without a byte, after which the server is considered unreachable."""
        self._url = _check_url(url)
        self._token = token
        self._seconds = seconds
        # Redirects are not followed, because the token must not be sent to another server.
        self._opener = urllib.request.build_opener(_NoRedirect, *_proxy_bypass_handlers(self._url))
        self._insist: Callable[[Callable[[], ApiAnswer]], ApiAnswer] = lambda ask: ask()

    @property
    def url(self) -> str:
        return self._url

    @property
    def headers(self) -> dict[str, str]:
        """The headers of every request: the user agent, and the token."""
        named = {"User-Agent": f"cli/{VERSION} windlass"}
        return named | ({"Authorization": f"Token {self._token}"} if self._token else {})

    @property
    def digest(self) -> str:
        """A hash of the address and token, which does not reveal them."""
        return hashlib.sha256(f"{self._url}\n{self._token}".encode()).hexdigest()

    def get(self, path: str, /, **query: Any) -> Any:
        return self.call("GET", path, query=query).json

    def enable_retries(self, retry_until_done: Callable[[Callable[[], ApiAnswer]], ApiAnswer]) -> None:
        """Wraps all later calls in `retry_until_done`, which may repeat them."""
        self._insist = retry_until_done

    def everything(self, path: str, /, **query: Any) -> list[Any]:
        """Returns the items of all pages of a list."""
        items: list[Any] = []
        page = 1
        while True:
            answer = self.get(path, page=page, page_size=_PAGE_SIZE, **query)
            items += answer["results"]
            if page >= answer.get("pagination", {}).get("total_pages", 1):
                return items
            page += 1

    def call(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> ApiAnswer:
        """Sends a request and returns the response. Raises ApiRefused if the status is not 2xx."""
        return self._insist(lambda: self._call(method, path, body, query or {}, headers or {}))

    def _call(
        self, method: str, path: str, body: bytes | None, query: Mapping[str, Any], headers: Mapping[str, str]
    ) -> ApiAnswer:
        address = self._url + path + (f"?{urlencode(query)}" if query else "")
        sent = {"Accept": "application/json", **self.headers, **headers}
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
        request = urllib.request.Request(address, body, sent, method=method)  # noqa: S310 (checked)
        answer = self._answer(request)
        if not 200 <= answer.status < 300:
            raise self.refusal(answer)
        return answer

    def _answer(self, request: urllib.request.Request) -> ApiAnswer:
        try:
            reply = self._opener.open(request, timeout=self._seconds)
            if reply.headers.get_content_type() == EVENT_STREAM:
                return ApiAnswer(reply.status, _headers(reply.headers), b"", ResponseStream(reply))
            with reply:
                return ApiAnswer(reply.status, _headers(reply.headers), reply.read())
        except urllib.error.HTTPError as refusal:
            with refusal:
                return ApiAnswer(refusal.code, _headers(refusal.headers), refusal.read())
        except (OSError, http.client.HTTPException) as error:
            raise self.unreachable(error) from error

    def unreachable(self, error: Exception) -> ServerUnreachable:
        """Returns the exception for a network error, with the remedy in its message."""
        reason = getattr(error, "reason", error)
        if isinstance(reason, ConnectionRefusedError):
            return ServerUnreachable(
                "start a server with `windlass serve`, or set its address with --url or WINDLASS_URL: "
                f"nothing listens at {self._url}"
            )
        if isinstance(reason, ssl.SSLError):
            return ServerUnreachable(
                f"check the certificate: {self._url} cannot be trusted, or does not speak TLS: {reason}"
            )
        if isinstance(reason, TimeoutError):
            return ServerUnreachable(
                f"check the address (--url or WINDLASS_URL), and the server: {self._url} does not answer"
            )
        return ServerUnreachable(
            f"check the address (--url or WINDLASS_URL): {self._url} cannot be reached: {reason}"
        )

    def refusal(self, answer: ApiAnswer) -> ApiRefused:
        """Returns the exception for an unsuccessful response, with the remedy in its message."""
        return ApiRefused(self._explain_status(answer), answer)

    def _explain_status(self, answer: ApiAnswer) -> str:
        message = _error_message(answer)
        match answer.status:
            case 401 if not self._token:
                return (
                    "log in first, with `windlass login`, or set WINDLASS_TOKEN: a token is needed. "
                    "`windlass serve` prints one at its first start, or writes it into the file "
                    "`first-steps` of its data directory; `windlass token create` makes more"
                )
            case 401:
                return (
                    f"{message}. Log in again with `windlass login`, or set WINDLASS_TOKEN to a valid token"
                )
            case 403:
                return f"{message}. `windlass token create --scope …` makes one, with an Admin token"
            case status if status in range(300, 400):
                place = answer.headers.get("location", "elsewhere")
                return f"{self._url} points to {plain(place)}: give that as --url, if you trust it"
            case _:
                return message


def path_of(template: str, values: Mapping[str, str]) -> str:
    return template.format_map({name: quote(value, safe="") for name, value in values.items()})


def _headers(message: Message) -> dict[str, str]:
    return {name.lower(): value for name, value in message.items()}


def _error_message(answer: ApiAnswer) -> str:
    try:
        message = str(answer.json["message"])
    except (CommandFailed, KeyError, TypeError):
        phrase = HTTPStatus(answer.status).phrase if answer.status in set(HTTPStatus) else ""
        return f"check the address (--url or WINDLASS_URL): {answer.status} {phrase} is no answer of Windlass"
    return plain(message)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def _check_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise InvalidUsage(
            f"give --url (WINDLASS_URL) an address like http://127.0.0.1:8080, and not {url!r}"
        )
    return url.rstrip("/")


def _proxy_bypass_handlers(url: str) -> list[urllib.request.BaseHandler]:
    """Returns the handler that bypasses proxies of the environment for servers on this machine."""
    return [urllib.request.ProxyHandler({})] if is_this_machine(urlsplit(url).hostname or "") else []


def is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
