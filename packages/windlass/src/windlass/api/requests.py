"""A request to the API as received: path, headers, body and sender.

This module decides nothing: `api.callers` identifies the caller, and `api.body` parses the body.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Awaitable, Callable, MutableMapping
from functools import lru_cache
from typing import Any

from msgspec import Struct

from windlass.api.body import MAX_BODY_BYTES
from windlass.api.body_memory import BodyMemory, HeldBody
from windlass.api.limits import Window
from windlass.base.errors import Invalid, TooLarge
from windlass.base.trace import Trace, given_trace, new_trace
from windlass.control.context.call import Dialect, Origin
from windlass.control.people.authenticate import browser_credential
from windlass.control.request.idempotency import Repeatable
from windlass.core.access import Actor
from windlass.core.deploy import states
from windlass.core.words import events

PLAIN_DIALECT = Dialect(name="plain", state=states.contract_state, event=events.plain)
FULL_DIALECT = Dialect(
    name="full",
    state=states.full_state,
    exact=states.full_state,
    event=events.full,
)

BASE_PATHS = (("/api/v1", PLAIN_DIALECT), ("/compat", FULL_DIALECT))
_PREFIXES = tuple(base for base, _ in BASE_PATHS)


def split_base(path: str) -> tuple[str, Dialect]:
    """Returns the path without its base, and the dialect of the base."""
    if not path.startswith(_PREFIXES):  # most paths have no base
        return path, PLAIN_DIALECT
    for base, dialect in BASE_PATHS:
        if path.startswith(base) and path[len(base) : len(base) + 1] in {"", "/"}:
            return path[len(base) :] or "/", dialect
    return path, PLAIN_DIALECT


Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

SESSION_COOKIE = "windlass_session"
HOST_PREFIX = "__Host-"
"""Prefix of the names of cookies over https, which prevents other hosts from setting them."""
SECURE_COOKIE = f"{HOST_PREFIX}{SESSION_COOKIE}"
SOCKET_PROTOCOL = "windlass"
LONG_BODY = "windlass.long_body"
"""The ASGI extension with the function that allows a body of any duration."""

_CLIENTS = {"cli": "CLI", "console": "CONSOLE", "terraform": "TERRAFORM_PROVIDER"}
"""Our own clients, by the first word of their `User-Agent`."""
_MAX_AGENT_LENGTH = 256
_PROCESS_ID = os.urandom(8).hex().encode()
_REQUEST_NUMBERS = itertools.count(1)
# The syntax of an `Idempotency-Key`. Blanks at either end are not allowed, because headers lose them on the
# way.
_IDEMPOTENCY_KEY_PATTERN = re.compile(rb"(?=.{1,255}\Z)[!-~]([ -~]*[!-~])?\Z")


class Request(Struct):
    """A request in progress."""

    id: bytes
    scope: Scope
    method: str
    path: str
    """The path without its base; see `split_base`."""
    dialect: Dialect
    headers: dict[bytes, bytes]
    window: Window | None = None
    """The budget that the request was charged to."""
    operation: str = "unknown"
    actor: Actor | None = None
    """The caller, once it has been identified."""
    held_body: HeldBody | None = None
    """The memory of the body, if that arrives in several pieces."""
    _trace: Trace | None = None

    @property
    def client(self) -> str:
        """The address of the client, from the headers of a trusted proxy if there is one."""
        client = self.scope.get("client")
        return str(client[0]) if client else "unknown"

    @property
    def user_agent(self) -> str:
        return self.headers.get(b"user-agent", b"")[:_MAX_AGENT_LENGTH].decode("latin-1")

    @property
    def origin(self) -> str:
        """The kind of client, as recorded in the audit."""
        if b"x-windlass-page-key" in self.headers:
            return "CONSOLE"
        return _origin(self.headers.get(b"user-agent", b"")[:64])

    @property
    def source(self) -> Origin:
        """The origin of the request, as recorded in the audit."""
        return Origin(self.origin, self.client, self.user_agent, self.id.decode())

    @property
    def trace(self) -> Trace:
        """The trace of the client's `traceparent` header, or a new trace. Created on demand, because most
        requests need none."""
        if self._trace is None:
            self._trace = given_trace(self._single(b"traceparent")) or new_trace()
        return self._trace

    def _single(self, name: bytes) -> bytes | None:
        """Returns the value of a header, or None if the header was sent more than once."""
        sent, value = self.scope["headers"], self.headers.get(name)
        if value is None or len(sent) == len(self.headers):
            return value
        return value if sum(other == name for other, _ in sent) == 1 else None

    @property
    def credential(self) -> bytes | None:
        """The `Authorization` header, or else the session cookie of a browser together with its page key.

        An empty value if the header was sent more than once: a proxy may have checked the other value, so
        neither is trusted.
        """
        header, sent = self.headers.get(b"authorization"), self.scope["headers"]
        if header is None and b"cookie" in self.headers:
            return self._browser_credential()
        if header is None or len(sent) == len(self.headers):
            return header
        return header if sum(name == b"authorization" for name, _ in sent) == 1 else b""

    def _browser_credential(self) -> bytes | None:
        cookies = self._cookies(SECURE_COOKIE) or self._cookies(SESSION_COOKIE)
        key = self.headers.get(b"x-windlass-page-key") or self._page_key_of_socket()
        return browser_credential([cookie.encode("latin-1") for cookie in cookies], key) if cookies else None

    def _page_key_of_socket(self) -> bytes:
        """Returns the page key of a websocket, which is its second subprotocol. Browsers cannot send headers
        with a websocket."""
        match self.scope.get("subprotocols"):
            case [first, key] if first == SOCKET_PROTOCOL:
                return str(key).encode("latin-1", "replace")
            case _:
                return b""

    @property
    def socket_protocol(self) -> str | None:
        """The websocket subprotocol to accept; None if the page requested none."""
        return SOCKET_PROTOCOL if self._page_key_of_socket() else None

    def cookie(self, name: str) -> str:
        """Returns the value of a cookie; empty if there is none."""
        return next(iter(self._cookies(name)), "")

    def _cookies(self, name: str) -> list[str]:
        """Returns all values of a cookie. A service on another port of this host can set further cookies of
        the same name."""
        pairs = (pair.strip() for pair in self.headers.get(b"cookie", b"").decode("latin-1").split(";"))
        return [value for sent, _, value in (pair.partition("=") for pair in pairs) if sent == name and value]

    def text(self, header: bytes) -> str | None:
        value = self.headers.get(header)
        return None if value is None else value.decode("latin-1")


def request_of(scope: Scope) -> Request:
    path, dialect = split_base(scope["path"])
    headers = dict(scope["headers"])
    return Request(_request_id(headers), scope, scope["method"], path, dialect, headers)


def _request_id(headers: dict[bytes, bytes]) -> bytes:
    """Returns the client's request id if it is safe to log and to return, otherwise a new id."""
    chosen = headers.get(b"x-request-id")
    if chosen and len(chosen) <= 64 and chosen.replace(b"-", b"").replace(b"_", b"").isalnum():
        return chosen
    # Unique by process and number. A random id would need a system call for each request.
    return b"%s%08x" % (_PROCESS_ID, next(_REQUEST_NUMBERS))


async def receive_body(
    request: Request,
    receive: Receive,
    memory: BodyMemory,
    holder: str,
    caller: str = "",
    limit: int = MAX_BODY_BYTES,
) -> bytes:
    """Returns the body of a request. The bytes of a body in several pieces are held by the request until it
    is answered, and count for its holder, and for its caller among the callers of the holder."""
    announced = request.headers.get(b"content-length")
    if announced is not None and int(announced) > limit:
        raise _too_large(limit)
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Invalid("The request ended before its body did")
        piece = message.get("body", b"")
        body += piece
        if len(body) > limit:
            raise _too_large(limit)
        if not message.get("more_body", False):
            return bytes(body)
        held = request.held_body = request.held_body or HeldBody(memory, holder, caller)
        held.add(len(piece))


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"The body is larger than {limit} bytes", {"connection": "close"})


def repeatable_of(request: Request, body: bytes) -> Repeatable | None:
    """Returns the `Idempotency-Key` of a request with its body, or None without a key."""
    key = request.headers.get(b"idempotency-key")
    if key is None:
        return None
    if not _IDEMPOTENCY_KEY_PATTERN.fullmatch(key):
        raise Invalid(
            "Idempotency-Key: must be 1 to 255 printable ASCII characters, with no blank at either end"
        )
    return Repeatable(key.decode(), body)


@lru_cache(256)
def _origin(agent: bytes) -> str:
    """Recognizes our own clients by their `User-Agent`. Cached, because a client repeats the header with
    every request."""
    product = agent.decode("latin-1").lower()
    return next((origin for word, origin in _CLIENTS.items() if product.startswith(word)), "API")
