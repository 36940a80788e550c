"""The websocket for existing command line clients, which follows a service's log.

Each log line is one frame. Frames from the client are ignored. Websockets that run commands are in
`executions`.
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

LOGS_PATH: Final = "/service/logs"
MAX_EARLIER_LINES: Final = 1000
"""Number of earlier lines that are sent first."""

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Lines = AsyncGenerator[list[bytes] | Gone, None]


class SocketSession(Protocol):
    """The session of a websocket after its opening."""

    longest: int
    """Size of the largest accepted message, in bytes; 0 if the session reads no messages."""

    async def run(self, receive: Receive, send: Send, allowed: Allowed) -> None:
        """Runs until one side ends the session, then closes the websocket with the reason."""
        ...

    async def close(self) -> None:
        """Releases all resources, whether or not the session has run."""
        ...


# Close codes of RFC 6455. Existing command line clients reconnect automatically, except after 1008.
_CLOSE_FRAMES: Final = {
    StreamEnd.OVER: (1000, "Nothing more comes"),
    StreamEnd.REFUSED: (1008, "This token may not read this log any more"),
    StreamEnd.UNCHECKED: (1013, "The server cannot read its database: connect again later"),
    StreamEnd.STOPPED: (1012, "This server is stopping: connect again"),
}


class LogRequest(Spec):
    """The query of a log websocket. The optional ids must match the service's parents."""

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
    """Returns a `send` function that sends an HTTP response instead of accepting the websocket."""

    async def deny(message: Message) -> None:
        await send({**message, "type": f"websocket.{message['type']}"})

    return deny


def check_origin(request: Request, url: str, other_origins: Collection[str]) -> None:
    """Raises Forbidden for pages of other origins.

    Browsers let any page open a websocket, and may send credentials that the page itself cannot read.
    """
    origin = request.text(b"origin")
    if origin is None or origin in other_origins:
        return
    own = {urlsplit(url).netloc, request.text(b"host") or ""}
    if _host_of(origin) not in own - {""}:
        raise Forbidden(
            "Open this websocket from a page of this server, or have the operator add the origin to "
            "cors_origins"
        )


def _host_of(origin: str) -> str:
    """Returns host and port of a URL; empty if the URL is invalid."""
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
    """Sends log lines over an accepted websocket until the stream ends."""

    async def put(piece: list[bytes] | Gone) -> None:
        for text in _texts(piece, clock):
            await send({"type": "websocket.send", "text": text})

    ending = await streams.run(lines, put, wait_for_message(receive, "websocket.disconnect"), allowed)
    if ending in _CLOSE_FRAMES:
        code, reason = _CLOSE_FRAMES[ending]
        with contextlib.suppress(OSError):  # the client has already disconnected
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
