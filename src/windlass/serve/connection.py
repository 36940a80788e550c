"""A connection to the API: reads requests by the rules of both ports, and runs the application for each.

Heads are read by `base.http_in`, as on the gateway, and not by uvicorn: its parser has no limits, takes
trailers for fields and accepts what the gateway refuses. uvicorn's part is the answer and the stop.

A connection has at most one request under way; what comes after it waits in order, up to a limit. There is no
timer: the table of connections asks each of them now and then whether its client has taken too long.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, cast
from urllib.parse import unquote

import uvicorn
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
from uvicorn.protocols.utils import get_local_addr, get_remote_addr
from uvicorn.server import ServerState

from windlass.api.answers import Header, failure_response
from windlass.base.http_in.bounds import ROOM, Bounds
from windlass.base.http_in.chunks import Chunks
from windlass.base.http_in.connections import ConnectionTable, Room, network_of
from windlass.base.http_in.heads import (
    CHUNKED,
    LINE,
    RequestHead,
    check_authority,
    check_target,
    judged_line,
)
from windlass.base.http_in.wire import END, Bad, Gathering

_SLASH: Final = ord("/")
_LEFTOVER: Final = 1024 * 1024
"""Bytes of a body that are still read after the request was answered, so that the connection can be kept."""
_ONCE: Final = frozenset({b"sec-websocket-version", b"sec-websocket-key"})
_LOGGER: Final = logging.getLogger("uvicorn.error")
# Answers with a body whose length is announced.
_USUAL = {200: b"HTTP/1.1 200 OK", 201: b"HTTP/1.1 201 Created"}


class Corked:
    """A transport that sends what one turn of the loop wrote with one system call: head and body travel
    together, and the reader is woken once."""

    __slots__ = ("_call_soon", "_parts", "_transport")

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._call_soon = loop.call_soon
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        if not self._parts:
            self._call_soon(self._flush)
        self._parts.append(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        parts, self._parts = self._parts, []
        if parts and not self._transport.is_closing():
            self._transport.write(parts[0] if len(parts) == 1 else b"".join(parts))

    def write_eof(self) -> None:
        self._flush()
        if not self._transport.is_closing():
            self._transport.write_eof()

    def is_closing(self) -> bool:
        return bool(self._transport.is_closing())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class WholeAnswer:
    """The application, for one request: what it answers in one piece is put together here, in one step.

    uvicorn looks at each header by itself, which takes longer than the rest of sending it. What is not the
    usual answer, to a client that stays, is left to uvicorn."""

    __slots__ = ("_app", "_cycle", "_start")

    def __init__(self, app: Any, cycle: RequestResponseCycle) -> None:
        self._app = app
        self._cycle = cycle
        self._start: Any = None

    def __call__(self, scope: Any, receive: Any, send: Any) -> Awaitable[None]:
        return cast(Awaitable[None], self._app(scope, receive, self._send))

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            return
        start, self._start = self._start, None
        if start is not None:
            if answer := self._put_together(start, message):
                await self._answer(answer)
                return
            await self._cycle.send(start)
        await self._cycle.send(message)

    def _put_together(self, start: Any, message: Any) -> bytes | None:
        """The usual answer, or none: it is whole, says how long it is, and closes nothing."""
        cycle, line = self._cycle, _USUAL.get(start["status"])
        if not line or message.get("more_body") or not cycle.keep_alive or cycle.scope["method"] == "HEAD":
            return None
        body: bytes = message["body"]
        headers = [*cycle.default_headers, *start["headers"]]
        head = b"\r\n".join((line, *map(b": ".join, headers), b"\r\n"))
        if head.count(b"\n") != len(headers) + 2:
            raise ValueError("a header with a line break in it would be two")
        if b"\r\ncontent-length: %d\r\n" % len(body) not in head or b"\r\nconnection:" in head:
            return None
        return head + body

    async def _answer(self, answer: bytes) -> None:
        """As uvicorn's own, which keeps in these fields how far an answer is."""
        cycle = self._cycle
        if cycle.flow.write_paused and not cycle.disconnected:
            await cycle.flow.drain()
        if cycle.disconnected:
            return
        cycle.response_started = cycle.response_complete = True
        cycle.transport.write(answer)
        cycle.message_event.set()
        cycle.on_response()


class PortState:
    """State that all connections of the port share: their table, and the rate limit headers of refusals."""

    def __init__(
        self,
        bounds: Bounds | None = None,
        trusts: Callable[[str], bool] = lambda network: False,
        headers: Callable[[str], list[Header]] = lambda address: [],
    ) -> None:
        self.bounds = bounds or Bounds()
        self.table = ConnectionTable("api", self.bounds, trusts)
        self.headers = headers
        self._opening: deque[Callable[[], None]] = deque()

    def open_in_turn(self, opening: Callable[[], None]) -> None:
        """Opens one websocket in each turn of the loop: it takes as long as many requests, and thousands of
        them at once would keep everybody else waiting for seconds."""
        if not self._opening:
            asyncio.get_running_loop().call_soon(self._open_next)
        self._opening.append(opening)

    def _open_next(self) -> None:
        opening = self._opening.popleft()
        if self._opening:
            asyncio.get_running_loop().call_soon(self._open_next)
        opening()


class Flow(FlowControl):
    """The application reads on with each piece of a body that it takes, but not while much waits already."""

    full = False

    def resume_reading(self) -> None:
        if not self.full:
            super().resume_reading()


class Connection(asyncio.Protocol):
    """Made by uvicorn for each connection, with these names for its parts."""

    __slots__ = (
        "_answer_began",
        "_app",
        "_app_state",
        "_body",
        "_body_began",
        "_busy",
        "_client",
        "_config",
        "_cycle",
        "_head",
        "_held",
        "_left",
        "_loop",
        "_parting",
        "_port",
        "_served",
        "_server",
        "_since",
        "_state",
        "_stuck",
        "_stuck_since",
        "_table",
        "_unsent",
        "_whole",
        "flow",
        "is_closing",
        "network",
        "transport",
        "write",
    )

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        port: PortState | None = None,
    ) -> None:
        self._config = config
        self._state = server_state
        self._app_state = app_state
        self._app = config.loaded_app
        self._loop = _loop or asyncio.get_running_loop()
        self._port = port or _UNBOUND
        self._table = self._port.table
        self._held = Gathering(self._port.bounds.head_bytes, self._port.bounds.target_bytes)
        self._head: RequestHead | None = None
        """That of the last request, which the next one usually repeats."""
        # Of the connection
        self._served = self._parting = self._stuck = False
        self._since = self._stuck_since = self._loop.time()
        self._unsent = 0
        # Of the request under way
        self._cycle: RequestResponseCycle | None = None
        self._busy = False
        """It has not been answered to its end."""
        self._whole = True
        """All of it has arrived."""
        self._left = 0
        self._body: Chunks | None = None
        self._body_began = 0.0

    # The connection

    def connection_made(self, transport: Any) -> None:
        corked = Corked(transport, self._loop)
        self.transport = corked
        self.write = corked.write
        self.is_closing = transport.is_closing
        self.flow = Flow(cast(asyncio.Transport, transport))
        self._server = get_local_addr(transport)
        self._client = get_remote_addr(transport)
        self.network = network_of(self._address)
        room = self._table.admit(self)
        if room is Room.NONE:
            transport.abort()
            return
        self._state.connections.add(self)  # type: ignore[arg-type]
        if room is Room.FULL:
            self._tell(503, "This server has as many connections as it may have: try again in a moment")

    @property
    def _address(self) -> str:
        return str(self._client[0]) if self._client else "unknown"

    def connection_lost(self, exc: Exception | None) -> None:
        self._parting = True
        self._table.remove(self)
        self._state.connections.discard(self)
        self._abandon()
        self.flow.resume_writing()

    def shutdown(self) -> None:
        """The server stops: what is under way may end."""
        if self._busy and self._cycle is not None:
            self._cycle.keep_alive = False
        else:
            self.transport.close()

    def abort(self) -> None:
        self.transport.abort()

    def pause_writing(self) -> None:
        self.flow.pause_writing()
        self._stuck = True
        self._stuck_since = self._table.now
        self._note_unsent()

    def resume_writing(self) -> None:
        self._stuck = False
        self._table.sent(self)
        self.flow.resume_writing()
        if not self._busy:
            self._advance()

    def _note_unsent(self) -> None:
        self._unsent = self.transport.get_write_buffer_size()
        self._table.unsent(self, self._unsent)

    def waits_since(self) -> float | None:
        """Returns since when the server has been waiting for the client; None while the application works."""
        if self._stuck:
            return self._stuck_since
        if self._busy and (self._whole or self.flow.read_paused):
            return None
        return self._since

    def age(self, now: float) -> None:
        bounds, age = self._port.bounds, now - self._since
        if self._parting:
            if age > bounds.parting_seconds:
                self.transport.abort()
        elif self._stuck:
            self._age_unread(now)
        elif self.flow.read_paused:
            self._since = now  # the application takes its time, not the client
        elif not self._whole:
            if age > bounds.stall_seconds or now - self._body_began > bounds.body_seconds:
                self._refuse(408, "The rest of the request did not arrive in time.")
        elif self._busy:
            return
        elif self._held.held:
            if age > bounds.head_seconds:
                self._refuse(408, "The head of the request did not arrive in time.")
        elif age > (bounds.idle_seconds if self._served else bounds.head_seconds):
            self.transport.close()

    def _age_unread(self, now: float) -> None:
        """A client that reads slowly goes on; one that reads nothing is let go."""
        if self.transport.get_write_buffer_size() < self._unsent:
            self._stuck_since = now
            self._table.sent(self)
            self._note_unsent()
        elif now - self._stuck_since > self._port.bounds.stall_seconds:
            self.transport.abort()

    # What arrives

    def data_received(self, data: bytes) -> None:
        if self._parting:
            return
        if not self._whole:
            self._since = self._table.now
            self._more(data)
        elif self._busy or self._stuck or self._held.held:
            self._held.add(data)
            if not (self._busy or self._stuck):
                self._advance()
            self._choose_reading()
        else:
            self._since = self._table.now
            if data.find(END, 1, self._port.bounds.head_bytes) < 0 or data.startswith(b"\r\n"):
                self._held.add(data)
                self._advance()
            else:
                self._begin(data)

    def _advance(self) -> None:
        """Takes up what waits, one request after the other."""
        while self._held.held and not (self._busy or self._stuck or self._parting) and self._whole:
            try:
                data = self._held.head()
            except Bad as bad:
                self._refuse(bad.status, bad.message)
                break
            if data is None:
                break
            self._begin(data)

        self._choose_reading()

    def _choose_reading(self) -> None:
        """Pauses reading while many bytes are waiting already, and resumes it after that."""
        flow = self.flow
        full = flow.full
        flow.full = len(self._held.held) > ROOM and not self._parting
        if flow.full:
            flow.pause_reading()
        elif full:
            flow.resume_reading()

    def _begin(self, data: bytes) -> None:
        """Starts the request that these bytes begin with; its head is whole."""
        try:
            self._take(data)
        except Bad as bad:
            self._refuse(bad.status, bad.message)

    def _take(self, data: bytes) -> None:
        first = data.find(b"\r\n")
        line = LINE.fullmatch(data, 0, first)
        if line is not None and line[2][0] == _SLASH:
            method, target, minor = line.groups()
            check_target(target, self._port.bounds)
            old, authority = minor == b"0", None
        else:
            method, target, old, authority = judged_line(data[:first], self._port.bounds)
        head = self._head
        if head is None or head.old is not old or not data.startswith(head.raw, first):
            end = data.find(END, first) + len(END)
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
        """As much of the body as is there; what is not of it goes on waiting."""
        self._whole, self._body = True, None
        bounds = self._port.bounds
        if length == CHUNKED:
            self._body = Chunks(bounds, plain=True, most=bounds.body_chunks)
            body, after = self._body.feed(self._held.take())
            self._whole = after is not None
            if after:
                self._held.add(after)
        elif length:
            body = self._held.cut(length)
            self._left = length - len(body)
            self._whole = not self._left
        else:
            body = b""
        return body

    def _more(self, data: bytes) -> None:
        """Reads bytes of the body, and perhaps of the requests after it."""
        after: bytes | None = None
        if self._body is not None:
            try:
                data, after = self._body.feed(data)
            except Bad as bad:
                self._refuse(bad.status, bad.message)
                return
        else:
            data, after = data[: self._left], data[self._left :] if len(data) >= self._left else None
            self._left -= len(data)
        if after is not None:
            self._whole = True
            self._held.add(after)
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

    # The request

    def _start(self, method: bytes, target: bytes, head: RequestHead, body: bytes) -> None:
        raw_path, _, query = target.partition(b"?")
        path = raw_path.decode("ascii")
        scope: Any = {
            "type": "http",
            "asgi": {"version": self._config.asgi_version, "spec_version": "2.3"},
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
        }
        cycle = self._cycle = RequestResponseCycle(
            scope=scope,
            transport=cast(asyncio.Transport, self),
            flow=self.flow,
            logger=_LOGGER,
            access_logger=_LOGGER,
            access_log=False,
            default_headers=self._state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=head.expects,
            keep_alive=not head.close,
            on_response=self._answered,
        )
        self._busy = self._served = True
        self._body_began = self._table.now
        self._pass_on(cycle, body)
        task = self._loop.create_task(cycle.run_asgi(cast(Any, WholeAnswer(self._app, cycle))))
        task.add_done_callback(self._state.tasks.discard)
        self._state.tasks.add(task)

    def _answered(self) -> None:
        """The answer is complete, as far as the application is concerned."""
        self._state.total_requests += 1
        self._busy = False
        self._since = self._table.now
        if self._parting:
            return
        self.flow.resume_reading()
        if not self._whole:
            if self._body is not None or self._left > _LEFTOVER:
                self.close()
        elif self._held.held:
            self._advance()

    def _abandon(self) -> None:
        """The application hears that its client has gone."""
        cycle = self._cycle
        if self._busy and cycle is not None:
            cycle.disconnected = True
            cycle.message_event.set()
        self._busy = False

    def close(self) -> None:
        """Hangs up after what was written. Where something may still come, it is read for a moment: closing
        over unread bytes would take the answer away from a client that has not read it yet."""
        if self._parting or self.transport.is_closing():
            return
        self._parting = True
        self._since = self._table.now
        if self._whole and not self._held.held:
            self.transport.close()
            return
        self._held.take()
        self.transport.write_eof()
        self.flow.full = False
        self.flow.resume_reading()

    def _takes_websocket(self, method: bytes, head: RequestHead) -> bool:
        """What is no proper opening of a websocket is an ordinary request, and answered like one."""
        return self._config.ws_protocol_class is not None and opens_websocket(method, head.fields)

    def _become_websocket(self, head: bytes) -> None:
        if self._parting or self.transport.is_closing():
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

    # What is said without the application

    def _refuse(self, status: int, message: str) -> None:
        """A request that is not one: nothing after it can be trusted either."""
        self._table.refuse(str(status))
        cycle = self._cycle
        if self._busy and cycle is not None and cycle.response_started and not cycle.response_complete:
            self._abandon()
            self.transport.abort()
            return
        if not (self._busy or self._whole):  # it was answered before all of it had come
            self.transport.close()
            return
        self._abandon()
        self._tell(status, message)

    def _tell(self, status: int, message: str) -> None:
        self._whole = False  # whatever comes is not read as a request any more
        if not self.transport.is_closing():
            self.transport.write(failure_response(status, message, self._port.headers(self._address)))
            self.close()


def opens_websocket(method: bytes, headers: list[Header]) -> bool:
    """As RFC 6455 has it, in its section 4.2.1."""
    given = {name: value for name, value in headers if name.startswith(b"sec-websocket-")}
    times = sum(name in _ONCE for name, _ in headers)
    return (
        method == b"GET"
        and times == len(_ONCE)
        and given.get(b"sec-websocket-version") == b"13"
        and _is_key(given.get(b"sec-websocket-key", b""))
    )


def _is_key(key: bytes) -> bool:
    try:
        return len(base64.b64decode(key, validate=True)) == 16
    except binascii.Error:
        return False


_UNBOUND: Final = PortState()
