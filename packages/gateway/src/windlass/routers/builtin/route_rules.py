"""Applies the rules of a route to requests, and adds headers to answers.

A route without rules does not come here: `Backend.is_special` is false then. The transport of a client is
wrapped while an answer is awaited that gets further headers or has a time limit, so that connections to
instances do not know of rules.
"""

from __future__ import annotations

import base64
import binascii
import re
import time
from asyncio import TimerHandle
from collections.abc import Callable
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, Final

from windlass.base.http_in.body import RequestBody
from windlass.base.http_in.wire import Bad, without_fields
from windlass.routers.builtin import pages
from windlass.routers.builtin.compression import AnswerCompression
from windlass.routers.builtin.own_pages import OwnPage
from windlass.routers.builtin.pages import ErrorPage
from windlass.routers.builtin.retries import RetryRules
from windlass.routers.builtin.service_memory import ServiceMemory
from windlass.routers.rules import RouteCors, RouteRules

_FORWARDED_PATTERN: Final = re.compile(rb"\r\nx-forwarded-for:([^\r]*+)", re.IGNORECASE)
_REQUEST_FIELDS_PATTERN: Final = re.compile(
    rb"\r\n(authorization|origin|access-control-request-method):[\t ]*([^\r]*+)", re.IGNORECASE
)
_INTERIM_STATUS_PATTERN: Final = re.compile(rb"HTTP/1\.[01] 1")
_JOINED_FIELDS: Final = frozenset({b"vary"})
"""Headers of the instance that stay beside those of the router."""
_MAX_CACHED_ADDRESSES: Final = 1024
_MAX_ADDRESS_LENGTH: Final = 64
_MAX_CREDENTIAL_BYTES: Final = 1024
"""Size of an Authorization header. Control keeps no longer logins (`MAX_LOGIN_BYTES`)."""
_LINE_BREAKS_PATTERN: Final = re.compile(r"[\r\n\0]")
_PREFLIGHT_SECONDS: Final = 600


class RuledPage:
    """An answer of the router with further headers. It has the interface of an error page."""

    def __init__(self, page: ErrorPage | None, lines: bytes) -> None:
        self._page, self._lines = page, lines
        self.status = page.status if page else 204

    def rendered(self, fields: bytes, *, head_only: bool, closes_connection: bool) -> bytes:
        if self._page is None:
            head = (
                b"HTTP/1.1 204 No Content\r\n"
                + (b"Connection: close\r\n" if closes_connection else b"")
                + b"\r\n"
            )
        else:
            head = self._page.rendered(fields, head_only=head_only, closes_connection=closes_connection)
        first, _, rest = head.partition(b"\r\n")
        return first + self._lines + b"\r\n" + rest


RouterPage = ErrorPage | RuledPage | OwnPage
"""An answer of the router."""


class CompiledRules:
    """The rules of a route in the form in which requests are compared with them."""

    __slots__ = (
        "_allowed",
        "_denied",
        "_headers",
        "_judges_address",
        "_let_in",
        "_lets_in",
        "_logins",
        "_rates",
        "_rules",
        "_title",
        "answer_seconds",
        "awaits_answer",
        "body_bytes",
        "budget",
        "compresses",
        "retry",
    )

    def __init__(self, rules: RouteRules, title: str, memory: ServiceMemory) -> None:
        self._rules, self._title = rules, title
        self.retry = RetryRules(rules.retry) if rules.retry else None
        self.budget = memory.retry_budget
        self.compresses = rules.compresses
        self._rates = memory.rates
        self._let_in = _parse_networks(rules.maintenance.let_in) if rules.maintenance else []
        self._judges_address = bool(rules.allowed or rules.denied or rules.rate or rules.maintenance)
        self.awaits_answer = bool(rules.answer_seconds or rules.sticky or rules.compresses)
        """Whether the head of an answer needs attention, for other reasons than the headers of `added`."""
        self.body_bytes, self.answer_seconds = rules.body_bytes, rules.answer_seconds
        self._allowed, self._denied = _parse_networks(rules.allowed), _parse_networks(rules.denied)
        self._logins = {login.user.encode(): login for login in rules.logins}
        self._headers = dict(_header_line(name, value) for name, value in rules.headers)
        self._lets_in = lru_cache(_MAX_CACHED_ADDRESSES)(self._judge_address)

    def judge(
        self, method: bytes, fields: bytes, address: str, trusts: Callable[[str], bool], length: int
    ) -> RouterPage | None:
        """Returns the answer to a request that is not passed on; None for one that is."""
        rules = self._rules
        if self._judges_address:
            page = self._judge_client(client_address(fields, address, trusts))
            if page is not None:
                return page
        asked = (
            {match[1].lower(): match[2] for match in _REQUEST_FIELDS_PATTERN.finditer(fields)}
            if self._reads_headers
            else {}
        )
        if rules.cors and method == b"OPTIONS" and b"access-control-request-method" in asked:
            return RuledPage(None, b"".join(_preflight_lines(rules.cors, asked.get(b"origin", b""))))
        if rules.needs_login and not self._judge_login(asked.get(b"authorization", b"")):
            page = ErrorPage(401, "Sign in", f"{self._title} asks for a name and a password.")
            return RuledPage(page, b'\r\nWWW-Authenticate: Basic realm="Windlass", charset="UTF-8"')
        if 0 < rules.body_bytes < length:
            return self.too_large()
        return None

    def _judge_client(self, address: str) -> RouterPage | None:
        rules = self._rules
        if (rules.allowed or rules.denied) and not self._admits_address(address):
            return ErrorPage(403, "Not for this address", f"{self._title} is open to chosen networks only.")
        if rules.rate is not None:
            wait = self._rates.take(address, rules.rate, time.monotonic())
            if wait:
                return pages.too_many_requests(self._title, rules.rate.requests, wait)
        if rules.maintenance is not None and not self._is_let_in(address):
            page = pages.under_maintenance(self._title)
            return OwnPage(page, rules.maintenance.page) if rules.maintenance.page else self.own_page(page)
        return None

    def _is_let_in(self, address: str) -> bool:
        found = _parse_address(address) if self._let_in and len(address) <= _MAX_ADDRESS_LENGTH else None
        return found is not None and any(found in network for network in self._let_in)

    def own_page(self, page: RouterPage) -> RouterPage:
        """Returns the page of the service in place of one of the router."""
        if self._rules.error_page and isinstance(page, ErrorPage) and page.status >= 500:
            return OwnPage(page, self._rules.error_page)
        return page

    @property
    def _reads_headers(self) -> bool:
        return self._rules.needs_login or self._rules.cors is not None

    def added(self, fields: bytes) -> dict[bytes, bytes]:
        """Returns the headers for the answer to a request: each name in lower case, with its line."""
        if self._rules.cors is None:
            return self._headers
        origin = next(
            (match[2] for match in _REQUEST_FIELDS_PATTERN.finditer(fields) if match[1].lower() == b"origin"),
            b"",
        )
        return _cors_origin_lines(self._rules.cors, origin) | self._headers

    def too_large(self) -> ErrorPage:
        return ErrorPage(413, "Too large", f"{self._title} takes at most {self.body_bytes:,} bytes.")

    def too_late(self) -> ErrorPage:
        return pages.too_late(self._title, self.answer_seconds)

    def closes(self, age: float) -> bool:
        """Returns whether a connection of this age takes no further requests."""
        return 0 < self._rules.times.connection < age

    def _admits_address(self, address: str) -> bool:
        # A proxy may pass on any text as an address. Only short ones are remembered.
        return len(address) <= _MAX_ADDRESS_LENGTH and self._lets_in(address)

    def _judge_address(self, text: str) -> bool:
        address = _parse_address(text)
        if address is None:
            return False
        if any(address in network for network in self._denied):
            return False
        return not self._rules.allowed or any(address in network for network in self._allowed)

    def _judge_login(self, authorization: bytes) -> bool:
        """Returns whether a header has a login. Nothing is remembered, because anyone may send any header."""
        if len(authorization) > _MAX_CREDENTIAL_BYTES:
            return False
        scheme, _, credential = authorization.partition(b" ")
        try:
            given = base64.b64decode(credential.strip(), validate=True)
        except (binascii.Error, ValueError):
            return False
        user, colon, password = given.partition(b":")
        login = self._logins.get(user)
        return scheme.lower() == b"basic" and bool(colon) and login is not None and login.fits(password)


def client_address(fields: bytes, address: str, trusts: Callable[[str], bool]) -> str:
    """Returns the address of the client. If a trusted proxy has connected, this is the last address in
    X-Forwarded-For that is not a trusted proxy."""
    if trusts(address):
        named = b",".join(match[1] for match in _FORWARDED_PATTERN.finditer(fields)).decode("latin-1")
        for word in reversed(named.split(",")):
            address = word.strip() or address
            if len(address) > _MAX_ADDRESS_LENGTH or not trusts(address):  # it remembers what it is asked
                break
    return address


def _parse_address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _parse_networks(texts: tuple[str, ...]) -> list[IPv4Network | IPv6Network]:
    return [ip_network(text, strict=False) for text in texts]


def _header_line(name: str, value: str) -> tuple[bytes, bytes]:
    line = f"\r\n{_LINE_BREAKS_PATTERN.sub('', name)}: {_LINE_BREAKS_PATTERN.sub('', value)}"
    return name.lower().encode(), line.encode()


def _cors_origin_lines(cors: RouteCors, origin: bytes) -> dict[bytes, bytes]:
    if "*" in cors.origins:
        return dict([_header_line("Access-Control-Allow-Origin", "*")])
    named = origin.decode("latin-1")
    if named not in cors.origins:
        return dict([_header_line("Vary", "Origin")])
    return dict(
        [
            _header_line("Access-Control-Allow-Origin", named),
            _header_line("Access-Control-Allow-Credentials", "true"),
            _header_line("Vary", "Origin"),
        ]
    )


def _preflight_lines(cors: RouteCors, origin: bytes) -> list[bytes]:
    lines = _cors_origin_lines(cors, origin)
    if b"access-control-allow-origin" not in lines:
        return [*lines.values()]
    more = {
        "Access-Control-Allow-Methods": cors.methods,
        "Access-Control-Allow-Headers": cors.headers,
        "Access-Control-Max-Age": str(_PREFLIGHT_SECONDS),
    }
    return [*lines.values(), *(_header_line(name, value)[1] for name, value in more.items())]


class RuledTransport:
    """Wraps a client's transport until the head of the final answer is written."""

    __slots__ = ("_added", "_compression", "_cookie", "_done", "_timer", "_transport")

    def __init__(
        self,
        transport: Any,
        added_headers: dict[bytes, bytes],
        on_done: Callable[[Any], None],
        cookie: Callable[[], bytes],
        compression: AnswerCompression | None,
    ) -> None:
        """`cookie` returns a further header line for the answer."""
        self._transport, self._added, self._done = transport, added_headers, on_done
        self._cookie, self._compression = cookie, compression
        self._timer: TimerHandle | None = None

    def wait(self, timer: TimerHandle) -> None:
        """Sets the timer of the answer, which is cancelled when the answer begins."""
        self._timer = timer

    def write(self, data: bytes) -> None:
        if _INTERIM_STATUS_PATTERN.match(data) and not data.startswith((b"HTTP/1.1 101", b"HTTP/1.0 101")):
            self._transport.write(data)
            return
        self.end()
        cookie = self._cookie()
        if self._added or cookie:
            data = _with_headers(data, self._added, cookie)
        if self._compression is not None:
            data = self._compression.packed(data, self._transport)
        self._transport.write(data)

    def end(self) -> None:
        """Gives the transport back."""
        if self._timer is not None:
            self._timer.cancel()
        self._done(self._transport)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def _with_headers(data: bytes, added_headers: dict[bytes, bytes], cookie: bytes) -> bytes:
    head, end, body = data.partition(b"\r\n\r\n")
    first, _, fields = head.partition(b"\r\n")
    kept = without_fields(b"\r\n" + fields, added_headers.keys() - _JOINED_FIELDS) if fields else b""
    return first + kept + b"".join(added_headers.values()) + cookie + end + body


class LimitedBody:
    """A request body of unknown length that is refused above a limit."""

    def __init__(self, body: RequestBody, left: int) -> None:
        self._body, self._left = body, left

    def feed(self, data: bytes) -> bytes:
        passed = self._body.feed(data)
        self._left -= len(passed)
        if self._left < 0:
            raise Bad(413, "The body of the request is larger than this service takes.")
        return passed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._body, name)
