"""The API as one ASGI application. It routes a request, identifies the caller, checks budget and scope, and
calls the handler.

`control` implements the operations, and `serve` the HTTP protocol. Every response, including errors, has the
three rate limit headers and a request id.

Browsers may call the API from pages of other origins if the settings list these origins.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from functools import lru_cache
from typing import Any

from windlass.api import sockets
from windlass.api.access_log import access_log_of
from windlass.api.account import AccountRequests
from windlass.api.answers import (
    Header,
    HttpAnswer,
    ServedFile,
    answer_of,
    check_length,
    error_answer,
    failure_answer,
    file_answer,
    rate_limit_headers,
    send_answer,
)
from windlass.api.body import PAGING_PARAMETERS, PATCH_TYPES, NoBody, parse_body, parse_query
from windlass.api.body_memory import MAX_ACCOUNT_BODIES_BYTES, BodyMemory
from windlass.api.build_usage_reports import BuildUsageReportRequests
from windlass.api.callers import Callers
from windlass.api.executions import ExecutionSockets
from windlass.api.git_requests import GitRequests
from windlass.api.git_webhooks import GitWebhookRequests
from windlass.api.later_lists import later_list_of
from windlass.api.metrics import Metrics
from windlass.api.pages import Pages, ServedPage
from windlass.api.quota import StreamQuota
from windlass.api.registry_webhooks import RegistryWebhookRequests
from windlass.api.requests import Receive, Request, Scope, Send, receive_body, repeatable_of, request_of
from windlass.api.router import Methods, RouteTree, allow_header
from windlass.api.run_requests import RunRequests
from windlass.api.served_hosts import ServedHostRequests
from windlass.api.streaming import EVENT_STREAM, Streams, until_gone
from windlass.api.uploads import UploadRequests
from windlass.api.wrong_paths import not_allowed, nothing_at, refuse_unsupported, websocket_only
from windlass.base.errors import Failure, Forbidden, Invalid
from windlass.base.log import log
from windlass.base.trace import enter_trace
from windlass.control.context.call import Call
from windlass.control.context.context import Context
from windlass.control.reporting.logs import follow_log
from windlass.control.request.dispatch import Dispatch
from windlass.control.request.permissions import forbidden
from windlass.core.access import Actor, may_somewhere
from windlass.core.declare.registry import Operation, Registry

_ACCEPTED_HEADERS = b"authorization, content-type, idempotency-key, if-match, x-request-id"
_EXPOSED_HEADERS = (
    b"etag, x-request-id, x-ratelimit-limit, x-ratelimit-remaining, x-ratelimit-reset, retry-after, "
    b"idempotency-replayed"
)
_CACHED_SECONDS = b"600"


class CrossOrigin:
    def __init__(self, origins: Collection[str]) -> None:
        self.origins = frozenset(origin.encode() for origin in origins)

    def preflight(self, request: Request, allow: str) -> HttpAnswer:
        """Responds to OPTIONS with the methods of the path, and with the allowed request headers if the
        origin is allowed."""
        methods = allow.encode()
        headers: tuple[Header, ...] = ((b"allow", methods),)
        if request.headers.get(b"origin") in self.origins:
            headers += (
                (b"access-control-allow-methods", methods),
                (b"access-control-allow-headers", _ACCEPTED_HEADERS),
                (b"access-control-max-age", _CACHED_SECONDS),
            )
        return HttpAnswer(204, b"", headers)

    def headers(self, request: Request) -> tuple[Header, ...]:
        """Returns the CORS headers of every response to this request, if the settings allow any origins."""
        origin = request.headers.get(b"origin")
        if origin not in self.origins or origin is None:
            return ((b"vary", b"origin"),)
        return (
            (b"vary", b"origin"),
            (b"access-control-allow-origin", origin),
            (b"access-control-expose-headers", _EXPOSED_HEADERS),
        )


_log = log("api")


@lru_cache(maxsize=2)
def _routes_of(registry: Registry) -> RouteTree:
    """Builds the tree once: servers in one process share it, such as those of tests."""
    return RouteTree(registry.operations)


class App:
    def __init__(
        self,
        ctx: Context,
        callers: Callers,
        pages: Pages,
        metrics: Metrics,
        console: Callable[[str], ServedFile | None],
    ) -> None:
        self._ctx = ctx
        self._callers = callers
        self._pages = pages
        self._metrics = metrics
        self._console = console
        self._cors = CrossOrigin(ctx.settings.cors_origins)
        self._routes = _routes_of(ctx.registry)
        self._dispatch = Dispatch(ctx)
        self._streams = Streams()
        self.stream_quota = StreamQuota()
        self._executions = ExecutionSockets(ctx, callers, self._streams)
        self._uploads = UploadRequests(ctx, callers)
        self._git = GitRequests(ctx, callers, self.stream_quota)
        run_apis = [kind.run_api for kind in ctx.kinds.values() if kind.run_api]
        self.body_memory = BodyMemory(max((api.most_bytes(ctx.settings) for api in run_apis), default=0))
        self._runs = RunRequests(ctx, callers, self.body_memory, run_apis)
        self._git_webhooks = GitWebhookRequests(ctx, callers)
        self._registry_webhooks = RegistryWebhookRequests(ctx, callers)
        self._build_usage_reports = BuildUsageReportRequests(ctx, callers)
        self._served_hosts = ServedHostRequests(ctx, callers)
        # Anybody may send these, from many addresses: they leave the memory of other bodies alone.
        self.account_body_memory = BodyMemory(most=MAX_ACCOUNT_BODIES_BYTES)
        self._account = AccountRequests(ctx, callers, callers.authenticator, self.account_body_memory)
        metrics.gauge("streams", "Open event streams and websockets", lambda: len(self._streams))
        self.access_log = access_log_of(ctx.settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return None
        began, is_websocket = time.perf_counter(), scope["type"] == "websocket"
        if is_websocket:
            await receive()
            scope = {**scope, "method": "GET"}
        request = request_of(scope)
        try:
            answer = await (self._open_socket(request) if is_websocket else self._answer(request, receive))
        except Failure as failure:
            answer = failure_answer(failure)
        except Exception as error:  # noqa: BLE001 (bugs are logged, without details for the client)
            enter_trace(request.trace)
            _log.exception(
                "a request failed", extra={"request_id": request.id.decode(), "path": request.path}
            )
            answer = error_answer(error, self._ctx.settings.data_dir)
        finally:
            if request.held_body is not None:
                request.held_body.release()
        if is_websocket:
            return await self._follow(request, answer, began, receive, send)
        if answer.stream is None or answer.place is None:
            await self._send(request, answer, send)
            self._note(request, answer, began)
            return None
        with answer.place:
            await self._send(request, answer, send)
            self._note(request, answer, began)
            await self._stream(request, answer.stream, receive, send, answer.farewell)
        return None

    def stop_streams(self) -> None:
        """Ends all streams, which would otherwise last until their clients disconnect."""
        self._streams.stop()

    async def stop_mails(self) -> None:
        """Waits a moment for mails that are being sent."""
        await self._account.stop()

    async def stop_pushes(self) -> None:
        """Ends pushes, whose deployments go on at the next start."""
        await self._git.stop()

    async def stop_logging(self) -> None:
        """Writes the remaining lines of the access log."""
        if self.access_log is not None:
            await self.access_log.close()

    # HTTP

    async def _answer(self, request: Request, receive: Receive) -> HttpAnswer:
        route = self._routes.find(request.path)
        if route is None:
            return await self._answer_elsewhere(request, receive)
        methods, ids = route
        operation = methods.get("GET" if request.method == "HEAD" else request.method)
        if operation is None:
            return await self._answer_without_operation(request, methods)
        request.operation = operation.id
        actor = self._callers.at_hand(request) or await self._callers.identify(request)
        if isinstance(actor, Failure):
            raise actor
        try:
            return await self._serve(request, operation, ids, actor, receive)
        except Forbidden as refusal:
            self._callers.security.record_refused(
                actor, operation, request.path, ids, refusal.message, request.source
            )
            raise

    async def _answer_without_operation(self, request: Request, methods: Methods) -> HttpAnswer:
        """Responds to a path that has operations for other methods: handles OPTIONS, or raises 405."""
        if request.method == "OPTIONS":
            self._callers.exempt(request)
            return self._cors.preflight(request, allow_header(methods))
        actor = await self._callers.identify(request)
        if not isinstance(actor, Failure):
            refuse_unsupported(request.method, request.path)
        raise not_allowed(request.method, allow_header(methods))

    async def _answer_elsewhere(self, request: Request, receive: Receive) -> HttpAnswer:
        """Responds to a path without operations, such as a page, a file or an upload."""
        accept = request.headers.get(b"accept", b"")
        page = self._pages.find(request.path) or self._pages.home(
            request.scope["path"], request.method, accept
        )
        if page:
            return await self._answer_page(request, page)
        if request.path == "/openapi.json":
            return self._answer_file(request, "openapi.json", self._pages.document())
        if request.path.startswith("/console") and (file := self._console(request.path)):
            return self._answer_file(request, "console", file)
        if self._uploads.has(request.path) and request.method != "OPTIONS":
            return await self._uploads.answer(request, receive)
        if self._git.has(request.path):
            return await self._git.answer(request, receive)
        if self._runs.has(request.path):
            return await self._runs.answer(request, receive)
        if self._git_webhooks.has(request.path):
            return await self._git_webhooks.answer(request, receive)
        if self._registry_webhooks.has(request.path):
            return await self._registry_webhooks.answer(request, receive)
        if self._build_usage_reports.has(request.path):
            return await self._build_usage_reports.answer(request)
        if self._served_hosts.has(request.path):
            return await self._served_hosts.answer(request)
        if self._account.has(request.path):
            return await self._account.answer(request, receive)
        if request.method == "OPTIONS":
            self._callers.exempt(request)
        else:
            actor = await self._callers.identify(request)
            if list_ := later_list_of(request):
                if isinstance(actor, Failure):
                    raise actor
                return await list_.answer(self._ctx, actor)
            if not isinstance(actor, Failure):
                refuse_unsupported(request.method, request.path)
        if self._executions.has(request.path):
            raise websocket_only("Connect with `windlass exec`, or with a client of websockets")
        raise nothing_at(request.path)

    def _answer_file(self, request: Request, name: str, file: ServedFile) -> HttpAnswer:
        self._callers.exempt(request)
        if request.method == "OPTIONS":
            return self._cors.preflight(request, allow_header({"GET"}))
        if request.method not in {"GET", "HEAD"}:
            raise not_allowed(request.method, allow_header({"GET"}))
        request.operation = name
        return file_answer(request, file)

    async def _answer_page(self, request: Request, page: ServedPage) -> HttpAnswer:
        is_read = request.method in {"GET", "HEAD"}
        if page.is_open or not is_read:
            self._callers.exempt(request)
        else:
            await self._callers.admit_to_metrics(request, self._ctx.settings.metrics_token)
        if request.method == "OPTIONS":
            return self._cors.preflight(request, allow_header({"GET"}))
        if not is_read:
            raise not_allowed(request.method, allow_header({"GET"}))
        request.operation = page.name
        status, body, content_type, headers = await page.render()
        return HttpAnswer(status, body, headers, (b"content-type", content_type))

    async def _serve(
        self, request: Request, operation: Operation, ids: tuple[str, ...], actor: Actor, receive: Receive
    ) -> HttpAnswer:
        if not may_somewhere(actor, operation.need):
            raise forbidden(operation)
        query, names = parse_query(request.scope["query_string"], operation.query)
        if (writes := operation.writes) or operation.outside:
            enter_trace(lambda: request.trace)
        if writes:
            body = await self._body(request, actor, receive)
            call = Call(
                operation=operation,
                actor=actor,
                ids=ids,
                dialect=request.dialect,
                query=query,
                if_match=request.text(b"if-match"),
                origin=request.source,
                find_trace=lambda: request.trace,
                body=_parse(request, operation, body),
            )
            return await self._write(request, call, body)
        question = None
        if operation.only_reads:
            question = _parse(request, operation, await self._body(request, actor, receive))
        call = Call(
            operation=operation,
            actor=actor,
            ids=ids,
            dialect=request.dialect,
            query=query,
            body=question,
            paging_asked=not PAGING_PARAMETERS.isdisjoint(names),
            last_event=request.text(b"last-event-id") if names or operation.streams else None,
        )
        reading = self._dispatch.read(call)
        reply = await (until_gone(reading, receive) if operation.outside else reading)
        if reply.stream is None:
            check_length(reply)
            return answer_of(operation, reply)
        place = self.stream_quota.take(reply.org, actor.subject)
        return HttpAnswer(operation.status, b"", (), EVENT_STREAM, reply.stream, place=place)

    def _body(self, request: Request, actor: Actor, receive: Receive) -> Awaitable[bytes]:
        return receive_body(request, receive, self.body_memory, actor.home, actor.subject)

    async def _write(self, request: Request, call: Call, body: bytes) -> HttpAnswer:
        repeatable = repeatable_of(request, body) if request.method == "POST" else None
        reply, replayed = await self._dispatch.write(call, repeatable, len(body))
        answer = answer_of(call.operation, reply)
        if not replayed:
            return answer
        return HttpAnswer(answer.status, answer.body, (*answer.headers, (b"idempotency-replayed", b"true")))

    def _send(self, request: Request, answer: HttpAnswer, send: Send) -> Awaitable[None]:
        window = request.window or self._callers.window_of(request)
        further = self._cors.headers(request) if self._cors.origins else ()
        return send_answer(request, answer, window, further, send)

    async def _stream(
        self,
        request: Request,
        stream: AsyncGenerator[bytes, None],
        receive: Receive,
        send: Send,
        closing_message: bytes,
    ) -> None:
        if request.method == "HEAD":
            return await stream.aclose()
        if closing_message:
            raw = self._streams.raw(stream, receive, send, closing_message)
            return await self._to_its_end(request, raw)
        allowed = await self._callers.still_allowed(request)
        return await self._to_its_end(request, self._streams.events(stream, receive, send, allowed))

    # Websockets

    async def _follow(
        self, request: Request, answer: HttpAnswer, started_at: float, receive: Receive, send: Send
    ) -> None:
        session = answer.session
        if session is None or answer.place is None:
            await self._send(request, answer, sockets.denial_sender(send))
            self._note(request, answer, started_at)
            return
        with answer.place:
            try:
                headers = [
                    *rate_limit_headers(self._callers.window_of(request)),
                    (b"x-request-id", request.id),
                ]
                # `longest` is for our own websocket protocol class: the largest message that it accepts.
                accept = {
                    "type": "websocket.accept",
                    "headers": headers,
                    "longest": session.longest,
                    "subprotocol": request.socket_protocol,
                }
                await send(accept)
                self._note(request, answer, started_at)
                allowed = await self._callers.still_allowed(request)
                await self._to_its_end(request, session.run(receive, send, allowed))
            finally:
                await session.close()

    async def _open_socket(self, request: Request) -> HttpAnswer:
        """Opens a websocket for a log or a command, if the caller has the permission."""
        actor = await self._callers.identify(request)
        if isinstance(actor, Failure):
            raise actor
        if request.path == sockets.LOGS_PATH:
            return await self._open_log(request, actor)
        return await self._executions.open(request, actor)

    async def _open_log(self, request: Request, actor: Actor) -> HttpAnswer:
        request.operation = "followServiceLogs"
        sockets.check_origin(request, self._ctx.settings.url, self._ctx.settings.cors_origins)
        query, _ = parse_query(request.scope["query_string"], sockets.LogRequest)
        assert isinstance(query, sockets.LogRequest)
        if not query.service:
            raise Invalid("service: must be the id of a service")
        org, lines = await follow_log(
            self._ctx, actor, request.dialect, query.service, query.within, sockets.MAX_EARLIER_LINES
        )
        session = sockets.LogSession(lines, self._streams, self._ctx.clock)
        return HttpAnswer(101, b"", session=session, place=self.stream_quota.take(org, actor.subject))

    # HTTP and websockets

    async def _to_its_end(self, request: Request, streaming: Awaitable[None]) -> None:
        try:
            await streaming
        except Exception:  # noqa: BLE001 (as for every request; the server then closes the connection)
            _log.exception("a stream broke", extra={"request_id": request.id.decode(), "path": request.path})

    def _note(self, request: Request, answer: HttpAnswer, started_at: float) -> None:
        seconds = time.perf_counter() - started_at
        self._metrics.count(request.operation, answer.status, seconds)
        if self.access_log is not None:
            self.access_log.note(request, answer.status, len(answer.body), seconds)
        if answer.status >= 500:
            _log_request(request, answer, seconds)


def _parse(request: Request, operation: Operation, body: bytes) -> Any:
    struct = operation.body
    if struct is None and operation.method == "DELETE":
        return None
    kinds = PATCH_TYPES if operation.method == "PATCH" else ()
    content_type, forgiving = request.headers.get(b"content-type"), request.dialect.is_full
    return parse_body(body, content_type, struct or NoBody, kinds, forgiving=forgiving)


def _log_request(request: Request, answer: HttpAnswer, seconds: float) -> None:
    _log.info(
        f"{request.method} {request.path} {answer.status}",
        extra={
            "request_id": request.id.decode(),
            "operation": request.operation,
            "status": answer.status,
            "trace_id": request.trace.id,
            "ms": round(seconds * 1000, 1),
        },
    )
