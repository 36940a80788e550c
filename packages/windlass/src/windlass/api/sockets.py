"""Websockets: on one path, existing command lines follow the log of a service.

A frame is a line. Frames of the client are ignored, except that it leaves. Commands in instances have
websockets of their own (executions.py).
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, MutableMapping
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from windlass.api.requests import Request
from windlass.api.streaming import Allowed, StreamEnd, Streams, wait_for_message
from windlass.base.clock import Clock
from windlass.base.errors import Forbidden
from windlass.base.segments import Gone, instant
from windlass.core.declare.fields import Id
from windlass.core.declare.resource import Spec

LOGS: Final = "/service/logs"
LAST: Final = 1000
"""The number of earlier lines that are sent first."""

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Lines = AsyncGenerator[list[bytes] | Gone, None]


class SocketSession(Protocol):
    """The part of a websocket after its opening."""

    longest: int
    """Bytes of the longest message that it reads; 0 if it reads none."""

    async def run(self, receive: Receive, send: Send, allowed: Allowed) -> None:
        """Runs until one side ends the session, and closes the websocket with the reason."""
        ...

    async def close(self) -> None:
        """Releases all resources, whether or not the session ran."""
        ...


# Close codes of RFC 6455. Existing command lines reconnect by themselves, except after 1008.
_CLOSED: Final = {
    StreamEnd.OVER: (1000, "Nothing more comes"),
    StreamEnd.REFUSED: (1008, "This token may not read this log any more"),
    StreamEnd.UNCHECKED: (1013, "The server cannot read its database: connect again later"),
    StreamEnd.STOPPED: (1012, "This server is stopping: connect again"),
}


class LogRequest(Spec):
    """The query of a log. The other ids name where the service lies, and must be right if given."""

    service: Id = ""
    environment: str = ""
    project: str = ""
    organization: str = ""
    cluster: str = ""

    @property
    def within(self) -> set[str]:
        return {self.environment, self.project, self.organization, self.cluster} - {""}


class _SocketLine(Struct):
    created_at: str
    message: str
    pod_name: str = ""
    version: str = ""


class Frame(Struct, frozen=True):
    created_at: int
    message: str
    version: str
    pod_name: str


_line_of = msgspec.json.Decoder(_SocketLine).decode
_encode = msgspec.json.Encoder().encode


def denial_sender(send: Send) -> Send:
    """Returns a `send` for an ordinary answer instead of a websocket."""

    async def deny(message: Message) -> None:
        await send({**message, "type": f"websocket.{message['type']}"})

    return deny


def check_origin(request: Request, url: str, others: Collection[str]) -> None:
    """Refuses pages of other origins. A browser lets any page open a websocket, and may send credentials that
    the page does not know."""
    origin = request.text(b"origin")
    if origin is None or origin in others:
        return
    own = {urlsplit(url).netloc, request.text(b"host") or ""}
    if _host_of(origin) not in own - {""}:
        raise Forbidden(
            "Open this websocket from a page of this server, or have the operator add the origin to "
            "cors_origins"
        )


def _host_of(origin: str) -> str:
    """Returns host and port of an address; empty if it is invalid."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


class LogSession:
    longest = 0

    def __init__(self, lines: Lines, streams: Streams, clock: Clock) -> None:
        self._lines, self._streams, self._clock = lines, streams, clock

    async def run(self, receive: Receive, send: Send, allowed: Allowed) -> None:
        await follow(self._lines, self._streams, self._clock, receive, send, allowed)

    async def close(self) -> None:
        await self._lines.aclose()


async def follow(
    lines: Lines, streams: Streams, clock: Clock, receive: Receive, send: Send, allowed: Allowed
) -> None:
    """Sends the lines over an accepted connection, to its end."""

    async def put(piece: list[bytes] | Gone) -> None:
        for text in _texts(piece, clock):
            await send({"type": "websocket.send", "text": text})

    ending = await streams.run(lines, put, wait_for_message(receive, "websocket.disconnect"), allowed)
    if ending in _CLOSED:
        code, reason = _CLOSED[ending]
        with contextlib.suppress(OSError):  # the client was faster
            await send({"type": "websocket.close", "code": code, "reason": reason})


def _texts(piece: list[bytes] | Gone, clock: Clock) -> list[str]:
    if isinstance(piece, Gone):
        missing = "Lines that should come here are no longer kept: the log has grown too large or too old"
        return [_text(Frame(clock.now(), missing, "", "windlass"))]
    return [_text(_frame(_line_of(line))) for line in piece]


def _frame(line: _SocketLine) -> Frame:
    return Frame(instant(line.created_at), line.message, line.version, line.pod_name)


def _text(frame: Frame) -> str:
    return _encode(frame).decode()
