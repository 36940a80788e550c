"""A connection to the API: parses requests with the rules that the gateway also uses, and calls the
application.

Request heads are parsed by `base.http_in` and not by uvicorn, whose parser has no limits, treats trailers as
header fields, and accepts requests that the gateway refuses. uvicorn sends the responses and stops the
server.

A connection has at most one request in progress; further requests wait in order, up to a limit. Flow control
and time limits are in `serve.client_socket`.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import math
from functools import partial
from typing import Any, Final, cast
from urllib.parse import unquote

import uvicorn
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
from uvicorn.server import ServerState

from windlass.api.answers import Header
from windlass.api.requests import LONG_BODY
from windlass.base.http_in.body import RequestBody
from windlass.base.http_in.heads import (
    REQUEST_LINE,
    RequestHead,
    check_authority,
    check_target,
    parse_line,
)
from windlass.base.http_in.wire import HEAD_END, Bad
from windlass.serve.answering import WholeAnswer
from windlass.serve.client_socket import ClientSocket
from windlass.serve.port_state import PortState

_SLASH: Final = ord("/")
_MAX_DISCARDED_BYTES: Final = 1024 * 1024
"""Unread bytes of a request body that are still read and discarded after the response, to keep the connection
open."""
_SINGLE_FIELDS: Final = frozenset({b"sec-websocket-version", b"sec-websocket-key"})
_LOGGER: Final = logging.getLogger("uvicorn.error")


class Connection(ClientSocket):
    """A connection to the API and its requests. uvicorn creates it, and defines the parameter names."""

    __slots__ = ("_app", "_app_state", "_asgi", "_body", "_config", "_cycle", "_head", "_state")

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        port: PortState | None = None,
    ) -> None:
        super().__init__(_loop or asyncio.get_running_loop(), port or _UNBOUND)
        self._config = config
        self._state = server_state
        self._app_state = app_state
        self._app = config.loaded_app
        self._asgi = {"version": config.asgi_version, "spec_version": "2.3"}
        self._head: RequestHead | None = None
        """The last request's head. Clients usually repeat it, so that it need not be parsed again."""
        self._cycle: RequestResponseCycle | None = None
        """The request in progress, with the progress of its response."""
        self._body: RequestBody | None = None

    def _join(self) -> None:
        self._state.connections.add(self)  # type: ignore[arg-type]

    def connection_lost(self, exc: Exception | None) -> None:
        self._state.connections.discard(self)
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Closes the connection because the server stops; a request in progress is finished first."""
        if self._busy and self._cycle is not None:
            self._cycle.keep_alive = False
        else:
            self.transport.close()

    # Received bytes

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        if not self._whole:
            self._since = self._table.now
            self._read_body(data)
        elif self._busy or self._blocked or self._held.held:
            self._held.add(data)
            if not (self._busy or self._blocked):
                self._advance()
            self._choose_reading()
        else:
            self._since = self._table.now
            if data.find(HEAD_END, 1, self._port.bounds.head_bytes) < 0 or data.startswith(b"\r\n"):
                self._held.add(data)
                self._advance()
            else:
                self._begin(data)

    def _advance(self) -> None:
        while self._held.held and not (self._busy or self._blocked or self._closing) and self._whole:
            try:
                data = self._held.head()
            except Bad as bad:
                self._refuse(bad.status, bad.message)
                break
            if data is None:
                break
            self._begin(data)
        self._choose_reading()

    def _begin(self, data: bytes) -> None:
        """Starts a request from bytes that contain its complete head."""
        try:
            self._read_head(data)
        except Bad as bad:
            self._refuse(bad.status, bad.message)

    def _read_head(self, data: bytes) -> None:
        first = data.find(b"\r\n")
        line = REQUEST_LINE.fullmatch(data, 0, first)
        if line is not None and line[2][0] == _SLASH:
            method, target, minor = line.groups()
            check_target(target, self._port.bounds)
            old, authority = minor == b"0", None
        else:
            method, target, old, authority = parse_line(data[:first], self._port.bounds)
        head = self._head
        if head is None or head.old is not old or not data.startswith(head.raw, first):
            end = data.find(HEAD_END, first) + len(HEAD_END)
            head = self._head = RequestHead(data[first:end], old, self._port.bounds)
        else:
            end = first + len(head.raw)
        check_authority(authority, head.host)
        if not target.isascii():
            raise Bad(400, "The target of the request is not valid.")
        if len(data) > end:
            self._held.add(data[end:])
        if head.upgrade == b"websocket" and self._takes_websocket(method, head):
            self._busy = True
            self._port.open_in_turn(partial(self._become_websocket, data[:end]))
            return
        self._start(method, target, head, self._opening(head.length))

    def _opening(self, length: int) -> bytes:
        """Returns the part of the request body that has arrived. Bytes after the body wait for the next
        request."""
        self._whole, self._body = True, None
        if not length:
            return b""
        if 0 < length <= len(self._held.held):  # usually the body arrives together with the head
            return self._held.cut(length)
        bounds = self._port.bounds
        body = self._body = RequestBody(length, bounds, self._held, plain=True, limit=bounds.body_chunks)
        data = body.begin()
        self._whole = body.whole
        return data

    def _read_body(self, data: bytes) -> None:
        """Processes bytes of the request body, and of pipelined requests after it."""
        body = self._body
        if body is None:  # the body was refused meanwhile
            return
        try:
            data = body.feed(data)
        except Bad as bad:
            self._refuse(bad.status, bad.message)
            return
        self._whole = body.whole
        cycle = self._cycle
        if self._busy and cycle is not None:
            self._pass_on(cycle, data)
        elif self._whole:
            self._advance()

    def _pass_on(self, cycle: RequestResponseCycle, data: bytes) -> None:
        cycle.body += data
        cycle.more_body = not self._whole
        if data or self._whole:
            cycle.message_event.set()
        if len(cycle.body) > HIGH_WATER_LIMIT and not self._whole:
            self.flow.pause_reading()

    # Request handling

    def _start(self, method: bytes, target: bytes, head: RequestHead, body: bytes) -> None:
        raw_path, _, query = target.partition(b"?")
        path = raw_path.decode("ascii")
        scope: Any = {
            "type": "http",
            "asgi": self._asgi,
            "http_version": "1.0" if head.old else "1.1",
            "server": self._server,
            "client": self._client,
            "scheme": "http",
            "root_path": "",
            "headers": head.fields,
            "state": self._app_state.copy(),
            "method": method.decode("ascii"),
            "path": unquote(path) if "%" in path else path,
            "raw_path": raw_path,
            "query_string": query,
            "extensions": {LONG_BODY: self._allow_long_body},
        }
        cycle = self._cycle = RequestResponseCycle(
            scope=scope,
            transport=self,  # type: ignore[arg-type]
            flow=self.flow,
            logger=_LOGGER,
            access_logger=_LOGGER,
            access_log=False,
            default_headers=self._state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=head.expects,
            keep_alive=not head.close,
            on_response=self._finish_answer,
        )
        self._busy = self._served = True
        self._body_began = self._table.now
        self._pass_on(cycle, body)
        task = self._loop.create_task(cycle.run_asgi(WholeAnswer(self._app, cycle)))
        task.add_done_callback(self._state.tasks.discard)
        self._state.tasks.add(task)

    def _allow_long_body(self) -> None:
        """Removes the time limit of the body in progress, and the limit of its chunks. Each wait for bytes
        stays limited. Called by the application once the caller is allowed to send so much."""
        self._body_began = math.inf
        if self._body is not None:
            self._body.allow_chunks()

    def _finish_answer(self) -> None:
        """Prepares for the next request. Called when the response is complete, although the client may not
        have read it yet."""
        self._state.total_requests += 1
        self._busy = False
        self._since = self._table.now
        if self._closing:
            return
        self.flow.resume_reading()
        if not self._whole:
            if self._body is None or self._body.left > _MAX_DISCARDED_BYTES:
                self.close()
        elif self._held.held:
            self._advance()

    def _abandon(self) -> None:
        cycle = self._cycle
        if self._busy and cycle is not None:
            cycle.disconnected = True
            cycle.message_event.set()
        self._busy = False

    # Websockets

    def _takes_websocket(self, method: bytes, head: RequestHead) -> bool:
        """Returns whether a request opens a websocket. Invalid openings are treated as ordinary requests."""
        return self._config.ws_protocol_class is not None and opens_websocket(method, head.fields)

    def _become_websocket(self, head: bytes) -> None:
        if self._closing or self.transport.is_closing():
            return
        if self._held.held:
            self._refuse(400, "A websocket has to be opened before anything is sent through it.")
            return
        ws = cast(Any, self._config.ws_protocol_class)
        protocol = ws(config=self._config, server_state=self._state, app_state=self._app_state)
        self._state.connections.discard(self)
        protocol.join(self._table, self)
        protocol.connection_made(self.transport)
        protocol.data_received(head)
        self.transport.set_protocol(protocol)

    # Refusals

    def _refuse(self, status: int, message: str) -> None:
        self._table.refuse(str(status))
        cycle = self._cycle
        if self._busy and cycle is not None and cycle.response_started and not cycle.response_complete:
            self._abandon()
            self.transport.abort()
            return
        if not (self._busy or self._whole):  # the response was sent before the request body had arrived
            self.transport.close()
            return
        self._abandon()
        self._answer_and_close(status, message)


def opens_websocket(method: bytes, headers: list[Header]) -> bool:
    """Returns whether a request opens a websocket by the rules of RFC 6455, section 4.2.1."""
    fields = {name: value for name, value in headers if name.startswith(b"sec-websocket-")}
    times = sum(name in _SINGLE_FIELDS for name, _ in headers)
    return (
        method == b"GET"
        and times == len(_SINGLE_FIELDS)
        and fields.get(b"sec-websocket-version") == b"13"
        and _is_key(fields.get(b"sec-websocket-key", b""))
    )


def _is_key(key: bytes) -> bool:
    try:
        return len(base64.b64decode(key, validate=True)) == 16
    except binascii.Error:
        return False


_UNBOUND: Final = PortState()
