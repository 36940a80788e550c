"""Checks the head of a request: the length of its body, its host, and the headers that an instance gets.

Pure. A connection keeps the fields that it had last: most clients send the same ones with each request, and
what is equal byte for byte need not be judged twice. Where they are the same but for values that mean nothing
here, such as a trace or a cookie, only these values are judged.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from windlass.base.http_in.bounds import Bounds
from windlass.base.http_in.heads import (
    CHUNKED,
    LINE_END,
    body_length,
    check_connection,
    check_fields,
    check_single,
    named_host,
    tokens_of,
)
from windlass.base.http_in.wire import TEXT, without_fields

IDEMPOTENT: Final = frozenset({b"GET", b"HEAD", b"OPTIONS", b"PUT", b"DELETE", b"TRACE"})

_ID: Final = re.compile(rb"[\x21-\x7e]{1,128}")
_VALUE: Final = re.compile(TEXT + rb"*+")
# Fields that the router interprets. An underscore is the same as a hyphen to many applications, so that a
# field of ours could be imitated with one.
_MEANT: Final = re.compile(
    rb"\r\n(host|content[-_]length|transfer[-_]encoding|connection|keep[-_]alive|proxy[-_]connection|te|upgrade"
    rb"|forwarded|x[-_]forwarded[^:]*|x[-_]real[-_]ip|x[-_]request[-_]id|http2[-_]settings):[\t ]*([^\r]*)"
)
# An optimization: no line that is passed on unchanged begins with one of these.
_OFTEN_NEW: Final = frozenset(
    {b"Host:", b"host:", b"X-Request-Id:", b"x-request-id:", b"X-Forwarded-For:", b"x-forwarded-for:"}
)
_NEIGHBOURLY: Final = frozenset({b"close", b"keep-alive", b"upgrade", b"te"})


class Fields:
    """The fields of a request, parsed."""

    __slots__ = (
        "_after",
        "_before",
        "_changing",
        "close",
        "host",
        "id",
        "length",
        "old",
        "passed",
        "raw",
        "upgrade",
    )

    def __init__(self, raw: bytes, old: bool) -> None:
        self.raw = raw
        self.old = old
        self.host = b""
        """Lower case, without port; empty if the request names none."""
        self.length = 0
        """The length of the body, or CHUNKED."""
        self.close = old
        self.upgrade = b""
        self.id = b""
        """The id of the request, if the client sent a valid one."""
        self.passed = b""
        """The fields for the instance. Each line begins with its line break."""
        self._before = self._after = b""
        """Our own lines there, around those that are passed on unchanged."""
        self._changing: AroundValue | None = None

    def pass_on(self, before: bytes, plain: bytes, after: bytes) -> None:
        self.passed = before + plain + after
        self._before, self._after = before, after

    def vary(self, head: bytes, first: int) -> bool:
        """Takes over new values of fields that mean nothing here, if nothing else differs from the fields of
        this head, whose first line is `first` bytes long. Otherwise returns False and changes nothing: then
        the whole head has to be judged."""
        changing = self._changing
        if changing is not None:
            before, after, passed_before, passed_after = changing
            at, end = first + len(before), len(head) - len(after)
            if at <= end and head.startswith(before, first) and head.endswith(after):
                if not _VALUE.fullmatch(head, at, end):
                    return False
                self.raw = head[first:]
                self.passed = passed_before + head[at:end] + passed_after
                return True
        return self._vary_anywhere(head, first)

    def _vary_anywhere(self, head: bytes, first: int) -> bool:
        lines, expected = head.split(LINE_END), self.raw.split(LINE_END)
        if len(lines) != len(expected):
            return False
        lines[0] = b""  # as in `known`, which begins with a line break
        plain: list[bytes] = []
        changed: list[tuple[int, int, bytes]] = []
        for number, (line, old) in enumerate(zip(lines, expected, strict=True)):
            if line != old:
                name = old[: old.find(b":") + 1]
                if name in _OFTEN_NEW or not line.startswith(name):
                    return False
                plain = plain or self._unchanged_lines()
                if not name or plain.count(old) != 1:
                    return False
                if not _VALUE.fullmatch(line, len(name)):
                    return False
                place = plain.index(old)
                plain[place] = line
                changed.append((number, place, name))
        self.raw = head[first:]
        self.passed = self._before + LINE_END.join(plain or self._unchanged_lines()) + self._after
        if len(changed) == 1:
            number, place, name = changed[0]
            before, after = _split_around(lines, number, name)
            passed_before, passed_after = _split_around(plain, place, name)
            self._changing = AroundValue(
                before, after, self._before + passed_before, passed_after + self._after
            )
        return True

    def _unchanged_lines(self) -> list[bytes]:
        """Returns the lines that are passed on unchanged, after an empty one."""
        return self.passed[len(self._before) : len(self.passed) - len(self._after)].split(LINE_END)


class AroundValue(NamedTuple):
    """The text around the value that changes from one request to the next."""

    before: bytes
    after: bytes
    passed_before: bytes
    passed_after: bytes


def _split_around(lines: list[bytes], place: int, name: bytes) -> tuple[bytes, bytes]:
    return LINE_END.join([*lines[:place], name]), LINE_END.join([b"", *lines[place + 1 :]])


def check_headers(raw: bytes, old: bool, client: bytes, bounds: Bounds) -> Fields:
    """Parses and judges fields. `raw` is the head without its first line; `client` is an address."""
    block = raw[:-4]
    check_fields(block, bounds)
    fields = Fields(raw, old)
    low = block.lower()
    kept, at = [], 0
    meant: dict[bytes, bytes] = {}
    for field in _MEANT.finditer(low):
        kept.append(block[at : field.start()])
        at = field.end()
        name, value = field[1], block[field.start(2) : at].rstrip(b"\t ")
        if name in meant:
            check_single(name)
        meant[name] = meant[name] + b"," + value if name in meant else value
    kept.append(block[at:])
    rest = b"".join(kept)

    fields.length = body_length(meant, old)
    fields.host = named_host(meant, old)
    if b"connection" in meant:
        tokens = _tokens(meant[b"connection"])
        if not tokens <= _NEIGHBOURLY:
            rest = _remove_fields(rest, tokens - _NEIGHBOURLY)
        fields.close = old or b"close" in tokens
        _set_upgrade(fields, meant, tokens)
    if b"x-request-id" in meant and _ID.fullmatch(meant[b"x-request-id"]):
        fields.id = meant[b"x-request-id"]
    _set_passed(fields, meant, rest, client)
    return fields


def _set_upgrade(fields: Fields, meant: dict[bytes, bytes], tokens: frozenset[bytes]) -> None:
    """Accepts an upgrade, except to HTTP/2: over such a pipe, requests would reach an instance unjudged."""
    wanted = meant.get(b"upgrade", b"")
    if (
        b"upgrade" in tokens
        and wanted
        and not fields.old
        and fields.length == 0
        and b"h2" not in wanted.lower()
    ):
        fields.upgrade = wanted


_tokens = lru_cache(64)(tokens_of)


def _remove_fields(block: bytes, tokens: frozenset[bytes]) -> bytes:
    """Removes the fields that the client declares to be for the next hop only, which is the router."""
    check_connection(tokens)
    return without_fields(block, tokens)


def _set_passed(fields: Fields, meant: dict[bytes, bytes], rest: bytes, client: bytes) -> None:
    host = meant.get(b"host", b"")
    lines = []
    if fields.length == CHUNKED:
        lines.append(b"\r\nTransfer-Encoding: chunked")
    elif b"content-length" in meant:
        lines.append(b"\r\nContent-Length: %d" % fields.length)
    if fields.upgrade:
        lines.append(b"\r\nConnection: Upgrade\r\nUpgrade: " + fields.upgrade)
    elif b"te" in meant and b"trailers" in _tokens(meant[b"te"]):
        lines.append(b"\r\nConnection: TE\r\nTE: trailers")
    lines.append(_origin(client, host))
    fields.pass_on(b"\r\nHost: " + (host or b"localhost"), rest, b"".join(lines))


@lru_cache(4096)
def _origin(client: bytes, host: bytes) -> bytes:
    """Returns the lines about the client and the host that it asked for, up to the name of the request id."""
    node = b'"[%b]"' % client if b":" in client else client
    forwarded = b'\r\nX-Forwarded-Host: %b\r\nForwarded: for=%b;host="%b";proto=http' % (host, node, host)
    if not host:
        forwarded = b"\r\nForwarded: for=%b;proto=http" % node
    return b"\r\nX-Forwarded-For: %b\r\nX-Forwarded-Proto: http%b\r\nX-Request-Id: " % (client, forwarded)
