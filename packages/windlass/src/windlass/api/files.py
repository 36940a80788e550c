"""Answers with files and documents that browsers may keep: compressed, and not sent again if unchanged."""

from __future__ import annotations

from typing import Final, Protocol

from windlass.api.answers import Header, HttpAnswer
from windlass.api.requests import Request

FOREVER: Final = b"public, max-age=31536000, immutable"
ASK_AGAIN: Final = b"no-cache"


class ServedFile(Protocol):
    """A file as it is served; see `console.files`."""

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
    """Returns the file in the form that the client takes, or 304 if the client has it."""
    content_type = (b"content-type", file.content_type)
    caching = FOREVER if file.is_forever else ASK_AGAIN
    more = ((b"etag", file.etag), (b"vary", b"accept-encoding"), *file.headers)
    held = request.headers.get(b"if-none-match", b"")
    if held == b"*" or file.etag in (tag.strip().removeprefix(b"W/") for tag in held.split(b",")):
        return HttpAnswer(304, b"", more, caching=caching)
    if _takes_gzip(request.headers.get(b"accept-encoding", b"")):
        more += ((b"content-encoding", b"gzip"),)
        return HttpAnswer(200, file.packed, more, content_type, caching=caching)
    return HttpAnswer(200, file.body, more, content_type, caching=caching)


def _takes_gzip(accepted: bytes) -> bool:
    for part in accepted.lower().split(b","):
        name, _, weight = part.strip().partition(b";")
        if name.strip() == b"gzip":
            return weight.replace(b" ", b"").rstrip(b"0.") != b"q="
    return False
