"""Heads of HTTP/2: a request becomes a head of HTTP/1.1, and the head of an answer a header block. Pure.

A request is checked twice. Here, each name and each value is checked by the grammar of HTTP/1 heads, so that
none of them can become more than one line, and what only HTTP/2 demands is checked. Then the head goes the
way of all heads: host, length, number of fields and target are judged by the same code as on HTTP/1.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from windlass.base.http_in.wire import CONTENT_LENGTH, FIELD_TEXT, TOKEN
from windlass.routers.builtin.hpack import Field, encode_field, status_field
from windlass.routers.builtin.http2_frames import ErrorCode, StreamFault

_NAME_PATTERN: Final = re.compile(rb"(?![^A-Z]*[A-Z])" + TOKEN + rb"++")
"""A name in lower case."""
_VALUE_PATTERN: Final = re.compile(rb"(?![\t ])" + FIELD_TEXT + rb"*+(?<![\t ])")
_METHOD_PATTERN: Final = re.compile(TOKEN + rb"{1,64}")
_PATH_PATTERN: Final = re.compile(rb"/[\x21\x22\x24-\x7e\x80-\xff]*+")
_PSEUDO_FIELDS: Final = frozenset({b":method", b":scheme", b":authority", b":path"})
_SCHEMES: Final = frozenset({b"https", b"http"})
HOP_BY_HOP_FIELDS: Final = frozenset(
    {b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade", b"http2-settings"}
)
"""Fields of a connection of HTTP/1, which do not exist in HTTP/2."""
UNKNOWN_LENGTH: Final = -1
_MAX_CACHED_NAME_BYTES: Final = 64


class StreamHead(NamedTuple):
    text: bytes
    """The head of HTTP/1.1, without the field of the body's length (if it has to be added) and the empty
    line at its end."""
    method: bytes
    length: int
    """The length of the body, or `UNKNOWN_LENGTH`."""


def request_head(fields: Sequence[Field], *, has_body: bool, most: int) -> StreamHead:
    """Raises StreamFault if the request is not valid. Of a request with more than `most` fields, which is
    refused as on HTTP/1, it returns only the first ones."""
    pseudo: dict[bytes, bytes] = {}
    lines: list[bytes] = []
    cookies: list[bytes] = []
    host: bytes | None = None
    length: bytes | None = None
    for number, (name, value) in enumerate(fields):
        if name.startswith(b":"):
            if number != len(pseudo) or name in pseudo or name not in _PSEUDO_FIELDS:
                raise _malformed("a pseudo-header field is unknown, repeated, or after another field")
            pseudo[name] = value
            continue
        if len(lines) > most:
            break
        check_field(name, value)
        if name == b"cookie":
            cookies.append(value)
        elif name == b"host":
            if host is not None:
                raise _malformed("the field host is there more than once")
            host = value
        elif name == b"content-length":
            if length is not None or not CONTENT_LENGTH.fullmatch(value):
                raise _malformed("content-length is no number, or there more than once")
            length = value
            lines.append(b"\r\ncontent-length: " + value)
        else:
            lines.append(b"\r\n%b: %b" % (name, value))
    method = pseudo.get(b":method", b"")
    target = _target(pseudo, method)
    authority = pseudo.get(b":authority", host)
    if authority is not None:
        if not _VALUE_PATTERN.fullmatch(authority) or (
            host is not None and host.lower() != authority.lower()
        ):
            raise _malformed("the authority is not valid, or the field host has another one")
        lines.insert(0, b"\r\nhost: " + authority)
    if cookies:
        lines.append(b"\r\ncookie: " + b"; ".join(cookies))
    size = UNKNOWN_LENGTH if length is None else int(length)
    if not has_body:
        if size > 0:
            raise _malformed("the body is shorter than its content-length")
        size = 0
    return StreamHead(b"%b %b HTTP/1.1%b" % (method, target, b"".join(lines)), method, size)


def _target(pseudo: dict[bytes, bytes], method: bytes) -> bytes:
    """Returns the target of the first line."""
    if not _METHOD_PATTERN.fullmatch(method):
        raise _malformed("the method is missing or not valid")
    path, scheme = pseudo.get(b":path"), pseudo.get(b":scheme")
    if method == b"CONNECT":
        if (
            path is not None
            or scheme is not None
            or not _PATH_PATTERN.fullmatch(b"/" + pseudo.get(b":authority", b" "))
        ):
            raise _malformed("CONNECT has an authority only")
        return pseudo[b":authority"]  # refused as on HTTP/1
    if scheme not in _SCHEMES or path is None:
        raise _malformed("the scheme or the path is missing or not valid")
    if not _PATH_PATTERN.fullmatch(path) and not (path == b"*" and method == b"OPTIONS"):
        raise _malformed("the path is not valid")
    return path


def trailer_lines(fields: Sequence[Field]) -> bytes:
    """Returns the trailers of a body as lines, each of which begins with its line break. Raises
    StreamFault."""
    lines = []
    for name, value in fields:
        check_field(name, value)
        lines.append(b"\r\n%b: %b" % (name, value))
    return b"".join(lines)


def check_field(name: bytes, value: bytes) -> None:
    """Raises StreamFault if a field could not be one line of a head, or belongs to connections of HTTP/1."""
    if not (_is_name(name) if len(name) > _MAX_CACHED_NAME_BYTES else _is_known_name(name)):
        raise _malformed("the name of a field is not valid here")
    if not _VALUE_PATTERN.fullmatch(value):
        raise _malformed("the value of a field is not valid")
    if name == b"te" and value.lower() != b"trailers":
        raise _malformed("te names something else than trailers")


def _is_name(name: bytes) -> bool:
    return _NAME_PATTERN.fullmatch(name) is not None and name not in HOP_BY_HOP_FIELDS


_is_known_name = lru_cache(1024)(_is_name)


def _malformed(reason: str) -> StreamFault:
    return StreamFault(ErrorCode.PROTOCOL_ERROR, reason)


class AnswerStart(NamedTuple):
    """The head of an answer."""

    status: int
    block: bytes
    length: int
    """The length of the body, or `UNKNOWN_LENGTH`."""
    is_chunked: bool


def answer_start(head: bytes) -> AnswerStart:
    """`head` is a head of HTTP/1.1 that the router has made or checked, without the empty line at its end."""
    first, *lines = head.split(b"\r\n")
    status = int(first[9:12])
    parts = [status_field(status)]
    length, is_chunked = UNKNOWN_LENGTH, False
    for line in lines:
        name, _, value = line.partition(b":")
        name, value = name.lower(), value.strip(b"\t ")
        if name in HOP_BY_HOP_FIELDS:
            is_chunked = is_chunked or name == b"transfer-encoding"
            continue
        if name == b"content-length":
            length = int(value)
        parts.append(encode_field(name, value))
    return AnswerStart(status, b"".join(parts), length, is_chunked)


def trailer_block(lines: bytes) -> bytes:
    """Encodes the trailers of an answer. Each line begins with its line break."""
    parts = []
    for line in lines.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if (name := name.lower()) not in HOP_BY_HOP_FIELDS:
            parts.append(encode_field(name, value.strip(b"\t ")))
    return b"".join(parts)
