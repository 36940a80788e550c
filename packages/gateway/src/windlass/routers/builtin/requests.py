"""Parses and validates the head of a request: the body length, the host, and the headers for the instance.
Pure.

A connection caches the parsed headers of its last request, because most clients send the same headers each
time. If all bytes are equal, nothing is parsed again. If only headers that the router does not interpret
(such as a cookie) have new values, only these values are validated.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from ipaddress import ip_address
from typing import Final, NamedTuple

from windlass.base.http_in.bounds import Bounds
from windlass.base.http_in.heads import (
    CHUNKED_LENGTH,
    LINE_END,
    body_length,
    check_connection,
    check_fields,
    check_single,
    named_host,
    tokens_of,
)
from windlass.base.http_in.wire import FIELD_TEXT, without_fields

IDEMPOTENT_METHODS: Final = frozenset({b"GET", b"HEAD", b"OPTIONS", b"PUT", b"DELETE", b"TRACE"})

_REQUEST_ID_PATTERN: Final = re.compile(rb"[\x21-\x7e]{1,128}")
_VALUE_PATTERN: Final = re.compile(FIELD_TEXT + rb"*+")
# Headers that the router interprets. Many applications treat an underscore like a hyphen; without both
# spellings here, a client could forge a header that the router sets.
_INTERPRETED_FIELDS_PATTERN: Final = re.compile(
    rb"\r\n(host|content[-_]length|transfer[-_]encoding|connection|keep[-_]alive|proxy[-_]connection|te|upgrade"
    rb"|forwarded|x[-_]forwarded[^:]*|x[-_]real[-_]ip|x[-_]request[-_]id|http2[-_]settings):[\t ]*([^\r]*)"
)
# An optimization: lines with these names are never passed on unchanged.
_CHANGING_FIELDS: Final = frozenset(
    {b"Host:", b"host:", b"X-Request-Id:", b"x-request-id:", b"X-Forwarded-For:", b"x-forwarded-for:"}
)
_MAX_CACHED_VALUE_BYTES: Final = 64
"""Size of a list of tokens that is remembered. Clients choose them: 64 lists with thousands would stay."""
_MAX_ADDRESS_LENGTH: Final = 45
"""Length of the longest IP address without a zone. Zones may be long, and contain anything."""
_SCHEMES: Final = frozenset({b"http", b"https"})
_KNOWN_CONNECTION_TOKENS: Final = frozenset({b"close", b"keep-alive", b"upgrade", b"te"})


class Fields:
    """The parsed headers of a request."""

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

    def __init__(self, raw: bytes, is_http_1_0: bool) -> None:
        self.raw = raw
        self.old = is_http_1_0
        self.host = b""
        """Host name in lower case, without port; empty if the request has none."""
        self.length = 0
        """Body length, or `CHUNKED_LENGTH`."""
        self.close = is_http_1_0
        self.upgrade = b""
        self.id = b""
        """The client's request id, if valid."""
        self.passed = b""
        """The header lines for the instance. Each line begins with its line break."""
        self._before = self._after = b""
        """The router's own header lines in `passed`, before and after the client's lines."""
        self._changing: AroundValue | None = None

    @property
    def port(self) -> str:
        """The port of the host, with its colon; empty if the client named none."""
        host = self.passed.split(LINE_END, 2)[1].removeprefix(b"Host: ").decode("latin-1")
        name, colon, port = host.rpartition(":")
        return f"{colon}{port}" if name and "]" not in port else ""

    def pass_on(self, text_before: bytes, plain: bytes, text_after: bytes) -> None:
        self.passed = text_before + plain + text_after
        self._before, self._after = text_before, text_after

    def vary(self, head: bytes, first: int) -> bool:
        """Adopts new values of headers that the router does not interpret.

        `head` begins with a request line of `first` bytes. If its headers differ from the cached ones in any
        other way, returns False and changes nothing: the caller then has to parse the whole head."""
        changing = self._changing
        if changing is not None:
            before, after, passed_before, passed_after = changing
            at, end = first + len(before), len(head) - len(after)
            if at <= end and head.startswith(before, first) and head.endswith(after):
                if not _VALUE_PATTERN.fullmatch(head, at, end):
                    return False
                self.raw = head[first:]
                self.passed = passed_before + head[at:end] + passed_after
                return True
        return self._vary_anywhere(head, first)

    def _vary_anywhere(self, head: bytes, first: int) -> bool:
        lines, expected = head.split(LINE_END), self.raw.split(LINE_END)
        if len(lines) != len(expected):
            return False
        lines[0] = b""  # as in `expected`: `self.raw` begins with a line break
        plain: list[bytes] = []
        changed: list[tuple[int, int, bytes]] = []
        for number, (line, old) in enumerate(zip(lines, expected, strict=True)):
            if line != old:
                name = old[: old.find(b":") + 1]
                if name in _CHANGING_FIELDS or not line.startswith(name):
                    return False
                plain = plain or self._unchanged_lines()
                if not name or plain.count(old) != 1:
                    return False
                if not _VALUE_PATTERN.fullmatch(line, len(name)):
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
        """Returns the client's header lines that are passed on unchanged. The first element is empty."""
        return self.passed[len(self._before) : len(self.passed) - len(self._after)].split(LINE_END)


class AroundValue(NamedTuple):
    """The text before and after the only header value that changes between requests, in the head and in
    `passed`."""

    before: bytes
    after: bytes
    passed_before: bytes
    passed_after: bytes


def _split_around(lines: list[bytes], position: int, name: bytes) -> tuple[bytes, bytes]:
    return LINE_END.join([*lines[:position], name]), LINE_END.join([b"", *lines[position + 1 :]])


def trust_nobody(address: str) -> bool:
    return False


def check_headers(
    raw: bytes,
    is_http_1_0: bool,
    client: bytes,
    bounds: Bounds,
    scheme: bytes = b"http",
    trusts: Callable[[str], bool] = trust_nobody,
) -> Fields:
    """Parses and validates the headers of a request. `raw` is the head without the request line; `client` is
    the client's address, `scheme` that of the connection: `http` or `https`. `trusts` returns whether an
    address belongs to a proxy that tells both."""
    block = raw[:-4]
    check_fields(block, bounds)
    fields = Fields(raw, is_http_1_0)
    low = block.lower()
    kept, at = [], 0
    meant: dict[bytes, bytes] = {}
    for field in _INTERPRETED_FIELDS_PATTERN.finditer(low):
        kept.append(block[at : field.start()])
        at = field.end()
        name, value = field[1], block[field.start(2) : at].rstrip(b"\t ")
        if name in meant:
            check_single(name)
        meant[name] = meant[name] + b"," + value if name in meant else value
    kept.append(block[at:])
    rest = b"".join(kept)

    fields.length = body_length(meant, is_http_1_0)
    fields.host = named_host(meant, is_http_1_0)
    if b"connection" in meant:
        tokens = _tokens(meant[b"connection"])
        if not tokens <= _KNOWN_CONNECTION_TOKENS:
            rest = _remove_fields(rest, tokens - _KNOWN_CONNECTION_TOKENS)
        fields.close = is_http_1_0 or b"close" in tokens
        _set_upgrade(fields, meant, tokens)
    if b"x-request-id" in meant and _REQUEST_ID_PATTERN.fullmatch(meant[b"x-request-id"]):
        fields.id = meant[b"x-request-id"]
    _set_passed(fields, meant, rest, *_told_by_proxy(meant, client, scheme, trusts))
    return fields


def _set_upgrade(fields: Fields, meant: dict[bytes, bytes], tokens: frozenset[bytes]) -> None:
    """Accepts a protocol upgrade, except to HTTP/2: requests inside an HTTP/2 tunnel would reach the instance
    without validation."""
    wanted = meant.get(b"upgrade", b"")
    if (
        b"upgrade" in tokens
        and wanted
        and not fields.old
        and fields.length == 0
        and b"h2" not in wanted.lower()
    ):
        fields.upgrade = wanted


def _tokens(value: bytes) -> frozenset[bytes]:
    return _known_tokens(value) if len(value) <= _MAX_CACHED_VALUE_BYTES else tokens_of(value)


_known_tokens = lru_cache(64)(tokens_of)


def _remove_fields(block: bytes, tokens: frozenset[bytes]) -> bytes:
    """Removes hop-by-hop headers, which the Connection header lists."""
    check_connection(tokens)
    return without_fields(block, tokens)


def _set_passed(
    fields: Fields, meant: dict[bytes, bytes], other_lines: bytes, client: bytes, scheme: bytes
) -> None:
    host = meant.get(b"host", b"")
    lines = []
    if fields.length == CHUNKED_LENGTH:
        lines.append(b"\r\nTransfer-Encoding: chunked")
    elif b"content-length" in meant:
        lines.append(b"\r\nContent-Length: %d" % fields.length)
    if fields.upgrade:
        lines.append(b"\r\nConnection: Upgrade\r\nUpgrade: " + fields.upgrade)
    elif b"te" in meant and b"trailers" in _tokens(meant[b"te"]):
        lines.append(b"\r\nConnection: TE\r\nTE: trailers")
    lines.append(_forwarded_fields(client, host, scheme))
    fields.pass_on(b"\r\nHost: " + (host or b"localhost"), other_lines, b"".join(lines))


def _told_by_proxy(
    meant: dict[bytes, bytes], client: bytes, scheme: bytes, trusts: Callable[[str], bool]
) -> tuple[bytes, bytes]:
    """Returns the address of the client and the scheme of its request. If a trusted proxy has connected,
    these are the last address in X-Forwarded-For that is not a trusted proxy, and its X-Forwarded-Proto."""
    if not (b"x-forwarded-for" in meant or b"x-forwarded-proto" in meant) or not trusts(client.decode()):
        return client, scheme
    for word in reversed(meant.get(b"x-forwarded-for", b"").decode("latin-1").split(",")):
        word = word.strip()
        if len(word) > _MAX_ADDRESS_LENGTH or "%" in word:
            break
        try:
            client = str(ip_address(word)).encode()
        except ValueError:  # no address, such as `unknown`: the proxy before it is the last that is known
            break
        if not trusts(client.decode()):
            break
    told = meant.get(b"x-forwarded-proto", b"").rpartition(b",")[2].strip().lower()
    return client, told if told in _SCHEMES else scheme


@lru_cache(4096)
def _forwarded_fields(client: bytes, host: bytes, scheme: bytes) -> bytes:
    """Returns the header lines with the client's address and the requested host. The last line ends before
    the value of the request id."""
    node = b'"[%b]"' % client if b":" in client else client
    forwarded = b'\r\nX-Forwarded-Host: %b\r\nForwarded: for=%b;host="%b";proto=%b' % (
        host,
        node,
        host,
        scheme,
    )
    if not host:
        forwarded = b"\r\nForwarded: for=%b;proto=%b" % (node, scheme)
    return b"\r\nX-Forwarded-For: %b\r\nX-Forwarded-Proto: %b%b\r\nX-Request-Id: " % (
        client,
        scheme,
        forwarded,
    )
