"""The responses of the API: status, headers, and a body, a file or a stream.

`api.app` decides which response is sent, and `api.streaming` sends the body of a stream. Files and documents
that browsers may cache are compressed, and are not sent again while unchanged.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import AbstractContextManager
from http import HTTPStatus
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct

from windlass.api import sockets
from windlass.api.limits import Window
from windlass.api.requests import Request, Send
from windlass.base.errors import NO_DATA, Failure, Invalid, Unavailable
from windlass.control.context.call import Reply, encode
from windlass.core.declare.registry import Operation

Header = tuple[bytes, bytes]

_JSON_TYPE = (b"content-type", b"application/json")
_NO_STORE = b"no-store"
_NO_SNIFF: Header = (b"x-content-type-options", b"nosniff")
_SAFE_HEADERS: tuple[Header, ...] = ((b"cache-control", _NO_STORE), _NO_SNIFF)
# A proxy that buffers whole responses would never pass a stream on.
_NO_BUFFERING: Header = (b"x-accel-buffering", b"no")


class HttpAnswer(Struct, frozen=True):
    status: int
    body: bytes
    headers: tuple[Header, ...] = ()
    content_type: Header = _JSON_TYPE
    stream: AsyncGenerator[bytes, None] | None = None
    session: sockets.SocketSession | None = None
    """The session of a websocket, which starts after its opening."""
    place: AbstractContextManager[object, bool | None] | None = None
    """The quota slot that a stream or websocket occupies."""
    farewell: bytes = b""
    """The last bytes of a stream that ends because the server stops. A stream with a farewell is sent as it
    is, and not as events."""
    caching: bytes = _NO_STORE
    """The `Cache-Control` header of the response."""


MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
"""Largest response to a read, in bytes. All unread responses of the port together may have twice as many; a
larger response would be cut off."""
_ASK_FOR_LESS: Final = (
    "Ask for less at a time, by page and page_size, or by tail for a log: the answer has {} MiB as a whole, "
    "and may have {}"
)


def check_length(reply: Reply) -> None:
    """Raises Invalid for a response that is too large to be sent."""
    if len(reply.body) > MAX_ANSWER_BYTES:
        raise Invalid(_ASK_FOR_LESS.format(len(reply.body) >> 20, MAX_ANSWER_BYTES >> 20))


def answer_of(operation: Operation, reply: Reply) -> HttpAnswer:
    headers: tuple[Header, ...] = ((b"etag", b'"' + reply.tag.encode() + b'"'),) if reply.tag else ()
    headers += tuple((name.encode(), value.encode()) for name, value in (reply.headers or {}).items())
    content_type = (b"content-type", operation.media_type.encode()) if operation.media_type else _JSON_TYPE
    return HttpAnswer(reply.status or operation.status, reply.body, headers, content_type)


def failure_answer(failure: Failure) -> HttpAnswer:
    headers = tuple((name.encode(), value.encode()) for name, value in failure.headers.items())
    return HttpAnswer(failure.status, _error_body(failure.status, failure.message), headers)


def error_answer(error: Exception, data_dir: str) -> HttpAnswer:
    """Returns the response to an unexpected exception."""
    if isinstance(error, OSError) and not Path(data_dir).is_dir():
        return failure_answer(Unavailable(NO_DATA))
    message = "Something went wrong here; the log has the request id of this answer"
    return HttpAnswer(500, _error_body(500, message))


def _error_body(status: int, message: str) -> bytes:
    error = HTTPStatus(status).phrase
    return encode({"status": status, "error": error, "message": message, "detail": message})


def failure_response(status: int, message: str, headers: list[Header]) -> bytes:
    """Returns a complete HTTP/1.1 response, for a connection that is refused before a request was parsed."""
    body = _error_body(status, message)
    sent = (
        *headers,
        *_SAFE_HEADERS,
        _JSON_TYPE,
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),
    )
    head = (b"HTTP/1.1 %d %b" % (status, HTTPStatus(status).phrase.encode()), *map(b": ".join, sent))
    return b"\r\n".join((*head, b"", body))


def rate_limit_headers(window: Window) -> list[Header]:
    return [
        (b"x-ratelimit-limit", window.limit_text),
        (b"x-ratelimit-remaining", b"%d" % window.remaining),
        (b"x-ratelimit-reset", window.reset_text),
    ]


async def send_answer(
    request: Request, answer: HttpAnswer, window: Window, extra_headers: Iterable[Header], send: Send
) -> None:
    """Sends a response, or only the head if it is a stream. `extra_headers` are additional headers."""
    headers = rate_limit_headers(window)
    headers += ((b"x-request-id", request.id), (b"cache-control", answer.caching), _NO_SNIFF, *answer.headers)
    if answer.stream is not None:
        headers += (answer.content_type, _NO_BUFFERING)
    elif answer.body:
        headers += (answer.content_type, (b"content-length", b"%d" % len(answer.body)))
    elif answer.status not in {204, 304}:
        headers += ((b"content-length", b"0"),)  # an empty body has no content type
    headers += extra_headers
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    body = b"" if request.method == "HEAD" else answer.body
    if answer.stream is None or request.method == "HEAD":
        await send({"type": "http.response.body", "body": body})


IMMUTABLE_CACHE: Final = b"public, max-age=31536000, immutable"
NO_CACHE: Final = b"no-cache"


class ServedFile(Protocol):
    """A file that the API serves; see `console.files`."""

    @property
    def body(self) -> bytes: ...
    @property
    def packed(self) -> bytes: ...
    @property
    def content_type(self) -> bytes: ...
    @property
    def etag(self) -> bytes: ...
    @property
    def is_forever(self) -> bool: ...
    @property
    def headers(self) -> tuple[Header, ...]: ...


def file_answer(request: Request, file: ServedFile) -> HttpAnswer:
    """Returns a file, compressed if the client accepts gzip, or 304 if the client has the current version."""
    content_type = (b"content-type", file.content_type)
    caching = IMMUTABLE_CACHE if file.is_forever else NO_CACHE
    more = ((b"etag", file.etag), (b"vary", b"accept-encoding"), *file.headers)
    held = request.headers.get(b"if-none-match", b"")
    if held == b"*" or file.etag in (tag.strip().removeprefix(b"W/") for tag in held.split(b",")):
        return HttpAnswer(304, b"", more, caching=caching)
    if _accepts_gzip(request.headers.get(b"accept-encoding", b"")):
        more += ((b"content-encoding", b"gzip"),)
        return HttpAnswer(200, file.packed, more, content_type, caching=caching)
    return HttpAnswer(200, file.body, more, content_type, caching=caching)


def _accepts_gzip(accepted: bytes) -> bool:
    for part in accepted.lower().split(b","):
        name, _, weight = part.strip().partition(b";")
        if name.strip() == b"gzip":
            return weight.replace(b" ", b"").rstrip(b"0.") != b"q="
    return False
