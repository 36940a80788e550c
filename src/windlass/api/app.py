"""HTTP and only HTTP: one function takes a request through route, caller, budget, scope and handler to bytes.

Pure ASGI. Whatever happens, the answer is JSON with the three rate-limit headers and a request id.
"""

from __future__ import annotations

import itertools
import os
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from functools import lru_cache
from http import HTTPStatus
from typing import Any

from msgspec import Struct

from windlass.api import sockets
from windlass.api.body import MOST, PATCHES, NoBody, parsed, queried
from windlass.api.dialect import based
from windlass.api.limits import Budgets, Window, stranger_at
from windlass.api.metrics import Metrics
from windlass.api.pages import Pages, ServedPage
from windlass.api.quota import StreamPlace, StreamQuota
from windlass.api.router import Methods, RouteTree, allowed
from windlass.api.streaming import EVENTS, Streams, until_gone
from windlass.base.errors import (
    Failure,
    Forbidden,
    Invalid,
    Missing,
    NotAllowed,
    NotHttp,
    TooLarge,
    TooMany,
    Unavailable,
)
from windlass.base.log import log
from windlass.control.people.authenticate import Authenticator, NoMember, RefusedCaller, refused
from windlass.control.request.context import Call, Context, Dialect, Reply, encode
from windlass.control.request.dispatch import Dispatch
from windlass.control.request.permissions import forbidden
from windlass.control.request.recording import Origin
from windlass.control.request.repeats import Repeatable
from windlass.control.telling.logs import followed
from windlass.core.access import Actor, may_somewhere
from windlass.core.declare.registry import Operation

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Header = tuple[bytes, bytes]

_JSON = (b"content-type", b"application/json")
_SAFE: tuple[Header, ...] = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
# A proxy that collects an answer before it passes it on would keep a stream for ever.
_UNBUFFERED: Header = (b"x-accel-buffering", b"no")
_ORIGINS = {"cli": "CLI", "console": "CONSOLE", "terraform": "TERRAFORM_PROVIDER"}
_LONGEST_AGENT = 256
_PROCESS = os.urandom(8).hex().encode()
_NUMBERS = itertools.count(1)
# An `Idempotency-Key`. No blank at either end: on its way a header loses those.
_KEY = re.compile(rb"(?=.{1,255}\Z)[!-~]([ -~]*[!-~])?\Z")
_log = log("api")


class Request(Struct):
    """One request on its way: what is known of it so far."""

    id: bytes
    scope: Scope
    method: str
    path: str
    dialect: Dialect
    headers: dict[bytes, bytes]
    window: Window | None = None
    operation: str = "unknown"


class HttpAnswer(Struct, frozen=True):
    status: int
    body: bytes
    headers: tuple[Header, ...] = ()
    kind: Header = _JSON
    stream: AsyncGenerator[bytes, None] | None = None
    lines: sockets.Lines | None = None
    """Of a log, for a websocket."""
    place: StreamPlace | None = None
    """Taken by a stream or a websocket."""


class App:
    def __init__(
        self, ctx: Context, gate: Authenticator, budgets: Budgets, pages: Pages, metrics: Metrics
    ) -> None:
        self._ctx = ctx
        self._gate = gate
        self._budgets = budgets
        self._pages = pages
        self._metrics = metrics
        self._router = RouteTree(ctx.registry.operations)
        self._dispatch = Dispatch(ctx)
        self._streams = Streams()
        self.stream_quota = StreamQuota()
        metrics.gauge("streams", lambda: len(self._streams))
        self._origins = frozenset(origin.encode() for origin in ctx.settings.cors_origins)
        self._access_log = ctx.settings.access_log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            return await self._websocket(scope, receive, send)
        if scope["type"] != "http":
            return None
        began = time.perf_counter()
        request = _request(scope)
        answer = await self._answered(request, self._answer(request, receive))
        if answer.stream is None or answer.place is None:
            await self._send(request, answer, send)
            self._note(request, answer, began)
            return None
        with answer.place:
            await self._send(request, answer, send)
            self._note(request, answer, began)
            await self._stream(request, answer.stream, receive, send)
        return None

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        await receive()
        request = _request({**scope, "method": "GET"})
        answer = await self._answered(request, self._opened(request))
        if answer.lines is None or answer.place is None:
            await self._send(request, answer, sockets.denying(send))
            self._note(request, answer, began)
            return
        with answer.place:
            await send({"type": "websocket.accept", "headers": self._head(request)})
            self._note(request, answer, began)
            allowed = await self._still_allowed(request)
            told = sockets.follow(answer.lines, self._streams, self._ctx.clock, receive, send, allowed)
            await self._to_its_end(request, told)

    def _note(self, request: Request, answer: HttpAnswer, began: float) -> None:
        seconds = time.perf_counter() - began
        self._metrics.count(request.operation, answer.status, seconds)
        if self._access_log or answer.status >= 500:
            self._log_request(request, answer, seconds)

    def stop_streams(self) -> None:
        """Ends what would go on as long as its readers like."""
        self._streams.stop()

    async def _answered(self, request: Request, answering: Awaitable[HttpAnswer]) -> HttpAnswer:
        try:
            return await answering
        except Failure as failure:
            return _failed(failure.status, failure.message, failure.headers)
        except Exception:  # noqa: BLE001
            # The last resort of every request: nothing that goes wrong inside is told outside.
            _log.exception(
                "a request failed", extra={"request_id": request.id.decode(), "path": request.path}
            )
            return _failed(500, "Something went wrong here; the log has the request id of this answer")

    async def _answer(self, request: Request, receive: Receive) -> HttpAnswer:
        page = self._pages.find(request.path)
        found = None if page else self._router.find(request.path)
        if found is None and page is None:
            accept = request.headers.get(b"accept", b"")
            page = self._pages.home(request.scope["path"], request.method, accept)
        methods: Methods = {"GET": page} if page else found[0] if found else {}  # type: ignore[dict-item]
        operation = methods.get("GET" if request.method == "HEAD" else request.method)
        if operation and not page:
            request.operation = operation.id
        actor = await self._identified(request, exempt=page is not None or request.method == "OPTIONS")
        if request.method == "OPTIONS" and methods:
            return self._preflight(request, methods)
        if page and operation:
            request.operation = page.name
            return await self._page(page)
        if not methods:
            raise _nothing_at(request.path)
        if operation is None:
            raise NotAllowed(
                f"{request.method} cannot be done here; what can is in the header Allow",
                {"allow": allowed(methods)},
            )
        if isinstance(actor, Failure):
            raise actor
        assert found is not None
        try:
            return await self._served(request, operation, found[1], actor, receive)
        except Forbidden as refusal:
            seen = (actor, operation, request.path, found[1], refusal.message, _whence(request))
            self._gate.witness.refused(*seen)
            raise

    async def _opened(self, request: Request) -> HttpAnswer:
        """A websocket, if the caller may have one, and there is one here."""
        actor = await self._identified(request, exempt=False)
        if isinstance(actor, Failure):
            raise actor
        if request.path != sockets.LOGS:
            raise Missing("There is no websocket at this path")
        request.operation = "followServiceLogs"
        asked, _ = queried(request.scope["query_string"], sockets.LogRequest)
        assert isinstance(asked, sockets.LogRequest)
        if not asked.service:
            raise Invalid("service: must be the id of a service")
        org, lines = await followed(
            self._ctx, actor, request.dialect, asked.service, asked.within, sockets.LAST
        )
        return HttpAnswer(101, b"", lines=lines, place=self.stream_quota.take(org, actor.subject))

    async def _identified(self, request: Request, exempt: bool) -> Actor | Failure:
        """The caller, within budget; or why nobody in particular is calling."""
        header = _credential(request)
        if header is not None and not exempt:
            try:
                actor = self._gate.known(header, self._ctx.clock.now()) or await self._gate.admit(header)
            except Failure as failure:
                if isinstance(failure, RefusedCaller | NoMember):
                    self._gate.witness.denied(failure.who, failure.why, _whence(request))
                self._spend_as_stranger(request, spend=True)
                return failure
            now = self._ctx.clock.now()
            if self._gate.witness.met(actor, _caller(request.scope), now):
                self._gate.witness.tell_met(actor, _whence(request))
            request.window = self._budgets.quickly(actor.subject, actor.limit, now)
            if request.window is None:
                await self._spend(request, actor)
            return actor
        self._spend_as_stranger(request, spend=not exempt)
        return refused("Send `Authorization: Token <API token>`")

    async def _spend(self, request: Request, actor: Actor) -> None:
        request.window, served = await self._budgets.take(actor.subject, actor.limit)
        if not served:
            raise self._too_many(request.window)

    def _spend_as_stranger(self, request: Request, spend: bool) -> None:
        request.window, served = self._budgets.stranger(_address(request.scope), spend)
        if not served:
            raise self._too_many(request.window)

    def _too_many(self, window: Window) -> TooMany:
        seconds = window.retry_after(self._ctx.clock.now())
        return TooMany(
            f"All {window.limit} requests of this hour are used: go on in {seconds} seconds",
            {"retry-after": str(seconds)},
        )

    async def _served(
        self, request: Request, operation: Operation, ids: tuple[str, ...], actor: Actor, receive: Receive
    ) -> HttpAnswer:
        if not may_somewhere(actor, operation.need):
            raise forbidden(operation)
        query, asked = (
            queried(request.scope["query_string"], operation.query) if operation.query else (None, False)
        )
        if operation.writes:
            call = Call(
                operation=operation,
                actor=actor,
                ids=ids,
                dialect=request.dialect,
                query=query,
                if_match=_text(request.headers.get(b"if-match")),
                origin=_origin(request.headers.get(b"user-agent", b"")[:64]),
                request_id=request.id.decode(),
                address=_caller(request.scope),
                user_agent=_agent(request),
                body=await self._body(request, operation, receive),
            )
            return await self._written(request, call)
        call = Call(
            operation=operation,
            actor=actor,
            ids=ids,
            dialect=request.dialect,
            query=query,
            paging_asked=asked,
            last_event=_text(request.headers.get(b"last-event-id")) if asked or operation.streams else None,
        )
        reading = self._dispatch.read(call)
        reply = await (until_gone(reading, receive) if operation.outside else reading)
        if reply.stream is None:
            return _replied(operation, reply)
        place = self.stream_quota.take(reply.org, actor.subject)
        return HttpAnswer(operation.status, b"", (), EVENTS, reply.stream, place=place)

    async def _body(self, request: Request, operation: Operation, receive: Receive) -> Any:
        """The parsed body; the raw one stays with the request, to tell twins from others."""
        raw = await _received(request.headers, receive)
        request.scope["windlass.body"] = raw
        if operation.body is None and operation.method == "DELETE":
            return None
        kinds = PATCHES if operation.method == "PATCH" else ()
        kind, forgiving = request.headers.get(b"content-type"), request.dialect.forgiving
        return parsed(raw, kind, operation.body or NoBody, kinds, forgiving=forgiving)

    async def _written(self, request: Request, call: Call) -> HttpAnswer:
        repeatable = _repeatable(request) if request.method == "POST" else None
        reply, replayed = await self._dispatch.write(call, repeatable)
        answer = _replied(call.operation, reply)
        if not replayed:
            return answer
        return HttpAnswer(answer.status, answer.body, (*answer.headers, (b"idempotency-replayed", b"true")))

    async def _page(self, page: ServedPage) -> HttpAnswer:
        status, body, kind, headers = await page.render()
        return HttpAnswer(status, body, headers, (b"content-type", kind))

    def _preflight(self, request: Request, methods: Methods) -> HttpAnswer:
        allow = allowed(methods).encode()
        headers: tuple[Header, ...] = ((b"allow", allow),)
        if request.headers.get(b"origin") in self._origins:
            headers += (
                (b"access-control-allow-methods", allow),
                (
                    b"access-control-allow-headers",
                    b"authorization, content-type, idempotency-key, if-match, x-request-id",
                ),
                (b"access-control-max-age", b"600"),
            )
        return HttpAnswer(204, b"", headers)

    async def _send(self, request: Request, answer: HttpAnswer, send: Send) -> None:
        headers = [*self._head(request), *_SAFE, *answer.headers]
        if answer.stream is not None:
            headers += (answer.kind, _UNBUFFERED)
        elif answer.body:
            headers += (answer.kind, (b"content-length", b"%d" % len(answer.body)))
        elif answer.status != 204:
            headers += ((b"content-length", b"0"),)  # nothing is of no kind
        if self._origins:
            headers += self._cross_origin(request)
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        body = b"" if request.method == "HEAD" else answer.body
        if answer.stream is None or request.method == "HEAD":
            await send({"type": "http.response.body", "body": body})

    def _head(self, request: Request) -> list[Header]:
        """What every answer carries."""
        window = request.window or self._budgets.stranger(_address(request.scope), spend=False)[0]
        return [
            (b"x-ratelimit-limit", window.limit_text),
            (b"x-ratelimit-remaining", b"%d" % window.remaining),
            (b"x-ratelimit-reset", window.reset_text),
            (b"x-request-id", request.id),
        ]

    async def _stream(
        self, request: Request, stream: AsyncGenerator[bytes, None], receive: Receive, send: Send
    ) -> None:
        if request.method == "HEAD":
            return await stream.aclose()
        allowed = await self._still_allowed(request)
        return await self._to_its_end(request, self._streams.events(stream, receive, send, allowed))

    async def _still_allowed(self, request: Request) -> Callable[[], Awaitable[bool]]:
        header = _credential(request) or b""
        try:
            began = await self._admitted(header)
        except Unavailable:
            began = None

        async def allowed() -> bool:
            """Whether the caller still is who it was: tokens end, and rights change."""
            now = await self._admitted(header)
            if now is None or began is None:
                return False
            return now.has_the_rights_of(began)

        return allowed

    async def _to_its_end(self, request: Request, going_on: Awaitable[None]) -> None:
        try:
            await going_on
        except Exception:  # noqa: BLE001 (as for every request; the server ends the connection)
            _log.exception("a stream broke", extra={"request_id": request.id.decode(), "path": request.path})

    async def _admitted(self, header: bytes) -> Actor | None:
        try:
            return self._gate.known(header, self._ctx.clock.now()) or await self._gate.admit(header)
        except Unavailable:
            raise
        except Failure:
            return None

    def _cross_origin(self, request: Request) -> tuple[Header, ...]:
        origin = request.headers.get(b"origin")
        if origin not in self._origins or origin is None:
            return ((b"vary", b"origin"),)
        exposed = (
            b"etag, x-request-id, x-ratelimit-limit, x-ratelimit-remaining, x-ratelimit-reset, retry-after, "
            b"idempotency-replayed"
        )
        return (
            (b"vary", b"origin"),
            (b"access-control-allow-origin", origin),
            (b"access-control-expose-headers", exposed),
        )

    def _log_request(self, request: Request, answer: HttpAnswer, seconds: float) -> None:
        _log.info(
            f"{request.method} {request.path} {answer.status}",
            extra={
                "request_id": request.id.decode(),
                "operation": request.operation,
                "status": answer.status,
                "ms": round(seconds * 1000, 1),
            },
        )


def _request(scope: Scope) -> Request:
    path, dialect = based(scope["path"])
    headers = dict(scope["headers"])
    return Request(_request_id(headers), scope, scope["method"], path, dialect, headers)


def _request_id(headers: dict[bytes, bytes]) -> bytes:
    """The caller's own, if it is harmless to repeat and to log."""
    given = headers.get(b"x-request-id")
    if given and len(given) <= 64 and given.replace(b"-", b"").replace(b"_", b"").isalnum():
        return given
    # Unique by process and number: a system call for each request would cost more than its look-up.
    return b"%s%08x" % (_PROCESS, next(_NUMBERS))


def _failed(status: int, message: str, headers: dict[str, str] | None = None) -> HttpAnswer:
    body = {"status": status, "error": HTTPStatus(status).phrase, "message": message, "detail": message}
    listed = tuple((name.encode(), value.encode()) for name, value in (headers or {}).items())
    return HttpAnswer(status, encode(body), listed)


def failure_response(status: int, message: str, headers: list[Header]) -> bytes:
    """A whole HTTP/1.1 answer, for what is refused before it is a request."""
    answer = _failed(status, message)
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode()]
    sent = [
        *headers,
        *_SAFE,
        answer.kind,
        (b"content-length", b"%d" % len(answer.body)),
        (b"connection", b"close"),
    ]
    return b"\r\n".join([*lines, *(name + b": " + value for name, value in sent), b"", answer.body])


def _nothing_at(path: str) -> Failure:
    if path == sockets.LOGS:
        return NotHttp(
            "This is for websockets, version 13. Over HTTP, a log is read with GET /application/{app_id}/log",
            {"connection": "upgrade", "upgrade": "websocket", "sec-websocket-version": "13"},
        )
    return Missing("There is nothing at this path (yet): /openapi.json lists what there is")


def _replied(operation: Operation, reply: Reply) -> HttpAnswer:
    headers = ((b"etag", b'"' + reply.tag.encode() + b'"'),) if reply.tag else ()
    return HttpAnswer(reply.status or operation.status, reply.body, headers)


async def _received(headers: dict[bytes, bytes], receive: Receive) -> bytes:
    announced = headers.get(b"content-length")
    if announced is not None and int(announced) > MOST:
        raise _too_large()
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Invalid("The request ended before its body did")
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > MOST:
            raise _too_large()
    return body


def _too_large() -> TooLarge:
    return TooLarge(f"The body is larger than {MOST} bytes", {"connection": "close"})


def _repeatable(request: Request) -> Repeatable | None:
    key = request.headers.get(b"idempotency-key")
    if key is None:
        return None
    if not _KEY.fullmatch(key):
        raise Invalid(
            "Idempotency-Key: must be 1 to 255 printable ASCII characters, with no blank at either end"
        )
    return Repeatable(key.decode(), request.scope["windlass.body"])


def _address(scope: Scope) -> str:
    return stranger_at(_caller(scope))


def _caller(scope: Scope) -> str:
    """The client's address; a trusted proxy has said it, if one stands before us."""
    client = scope.get("client")
    return str(client[0]) if client else "unknown"


def _agent(request: Request) -> str:
    return request.headers.get(b"user-agent", b"")[:_LONGEST_AGENT].decode("latin-1")


def _whence(request: Request) -> Origin:
    origin = _origin(request.headers.get(b"user-agent", b"")[:64])
    return Origin(origin, _caller(request.scope), _agent(request), request.id.decode())


@lru_cache(256)
def _origin(agent: bytes) -> str:
    """Which of our own clients it is. Kept, because each says it again with every request."""
    said = agent.decode("latin-1").lower()
    return next((origin for word, origin in _ORIGINS.items() if said.startswith(word)), "API")


def _credential(request: Request) -> bytes | None:
    """The `Authorization`; of two, whoever stands before us may have judged the other, so neither is read."""
    header, sent = request.headers.get(b"authorization"), request.scope["headers"]
    if header is None or len(sent) == len(request.headers):
        return header
    return header if sum(name == b"authorization" for name, _ in sent) == 1 else b""


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")
