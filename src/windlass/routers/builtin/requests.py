"""Judges the head of a request: how long it is, whom it is for, and what is said of it to an instance.

Pure. A connection keeps the fields that it had last: most clients send the same ones with each request, and
what is equal byte for byte need not be judged twice.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from windlass.routers.builtin.wire import FIELDS as GRAMMAR
from windlass.routers.builtin.wire import LENGTH, TOKEN, Bad

CHUNKED: Final = -1
IDEMPOTENT: Final = frozenset({b"GET", b"HEAD", b"OPTIONS", b"PUT", b"DELETE", b"TRACE"})

LINE: Final = re.compile(rb"(" + TOKEN + rb"{1,64}) ([\x21\x22\x24-\x7e\x80-\xff]+) HTTP/1\.([01])")
"""Method, target and minor version; the target is judged further where it does not begin with a slash."""
_OTHER_VERSION: Final = re.compile(rb"\S+ \S+ HTTP/(?!1\.[01]\Z)[0-9.]+")
_ABSOLUTE: Final = re.compile(rb"https?://([^/?@]+)([/?].*)?", re.IGNORECASE)
_HOST: Final = re.compile(
    rb"([a-z0-9_](?:[a-z0-9_-]{0,62}[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]{0,62}[a-z0-9_])?)*|\[[0-9a-f:.]+\])"
    rb"\.?(?::[0-9]{1,5})?"
)
_LONGEST_HOST: Final = 253
_ID: Final = re.compile(rb"[\x21-\x7e]{1,128}")
# Those that mean something to us. An underscore is the same as a hyphen to many applications, so that a
# field of ours could be imitated with one.
_MEANT: Final = re.compile(
    rb"\r\n(host|content[-_]length|transfer[-_]encoding|connection|keep[-_]alive|proxy[-_]connection|te|upgrade"
    rb"|forwarded|x[-_]forwarded[^:]*|x[-_]real[-_]ip|x[-_]request[-_]id|http2[-_]settings):[\t ]*([^\r]*)"
)
_SINGLE: Final = frozenset({b"host", b"content-length", b"transfer-encoding"})
_NEIGHBOURLY: Final = frozenset({b"close", b"keep-alive", b"upgrade", b"te"})
_NEVER_DROPPED: Final = _SINGLE | {b"authorization", b"cookie", b"expect"}


class Line(NamedTuple):
    method: bytes
    target: bytes
    """As it is passed on: never with a scheme and host."""
    old: bool
    """HTTP/1.0."""
    authority: bytes | None
    """The host of an absolute target, which the Host field has to agree with."""


class Fields:
    """What the fields of a request say."""

    __slots__ = ("close", "host", "id", "length", "old", "passed", "raw", "upgrade")

    def __init__(self, raw: bytes, old: bool) -> None:
        self.raw = raw
        self.old = old
        self.host = b""
        """Lower case, without port; empty if it is not told."""
        self.length = 0
        """Of the body, or CHUNKED."""
        self.close = old
        self.upgrade = b""
        self.id = b""
        """Of the request, if the client gave it a sensible one."""
        self.passed = b""
        """For the instance: each line begins with its line break."""


def judged_line(line: bytes) -> Line:
    found = LINE.fullmatch(line)
    if not found:
        if _OTHER_VERSION.fullmatch(line):
            raise Bad(505, "Only HTTP/1.1 and HTTP/1.0 are spoken here.")
        raise Bad(400, "The first line of the request is not valid.")
    method, target, minor = found.groups()
    old = minor == b"0"
    if target[0] == 0x2F or (target == b"*" and method == b"OPTIONS"):
        return Line(method, target, old, None)
    if method == b"CONNECT":
        raise Bad(405, "This is no proxy: CONNECT is not offered.")
    absolute = _ABSOLUTE.fullmatch(target)
    if not absolute:
        raise Bad(400, "The target of the request is not valid.")
    rest = absolute[2] or b"/"
    return Line(method, rest if rest[0] == 0x2F else b"/" + rest, old, absolute[1].lower())


def judged_fields(raw: bytes, old: bool, client: bytes) -> Fields:
    """`raw` is all from the end of the first line to the end of the head; `client` is an address."""
    block = raw[:-4]
    if not GRAMMAR.fullmatch(block):
        raise Bad(400, "A field of the head is not valid.")
    fields = Fields(raw, old)
    low = block.lower()
    kept, at = [], 0
    said: dict[bytes, bytes] = {}
    for found in _MEANT.finditer(low):
        kept.append(block[at : found.start()])
        at = found.end()
        name, value = found[1], block[found.start(2) : at].rstrip(b"\t ")
        if name in said and name in _SINGLE:
            raise Bad(400, f"The field {name.decode()} is there more than once.")
        said[name] = said[name] + b"," + value if name in said else value
    kept.append(block[at:])
    rest = b"".join(kept)

    _set_length(fields, said)
    _set_host(fields, said)
    if b"connection" in said:
        tokens = _tokens(said[b"connection"])
        if not tokens <= _NEIGHBOURLY:
            rest = _without(rest, tokens - _NEIGHBOURLY)
        fields.close = old or b"close" in tokens
        _set_upgrade(fields, said, tokens)
    if b"x-request-id" in said and _ID.fullmatch(said[b"x-request-id"]):
        fields.id = said[b"x-request-id"]
    fields.passed = _passed(fields, said, rest, client)
    return fields


def _set_length(fields: Fields, said: dict[bytes, bytes]) -> None:
    coding, length = said.get(b"transfer-encoding"), said.get(b"content-length")
    if coding is not None:
        if length is not None:
            raise Bad(400, "There are both Content-Length and Transfer-Encoding.")
        if fields.old:
            raise Bad(400, "HTTP/1.0 knows no Transfer-Encoding.")
        if coding.lower() != b"chunked":
            raise Bad(501, "The only Transfer-Encoding that is taken is chunked.")
        fields.length = CHUNKED
    elif length is not None:
        if not LENGTH.fullmatch(length):
            raise Bad(400, "Content-Length is not a number.")
        fields.length = int(length)


def _set_host(fields: Fields, said: dict[bytes, bytes]) -> None:
    host = said.get(b"host")
    if host is None:
        if fields.old:
            return
        raise Bad(400, "The field Host is missing.")
    fields.host = host_of(host)


@lru_cache(1024)
def host_of(value: bytes) -> bytes:
    found = _HOST.fullmatch(value.lower())
    if not found or len(found[1]) > _LONGEST_HOST:
        raise Bad(400, "The field Host is not a valid name.")
    return found[1]


def _set_upgrade(fields: Fields, said: dict[bytes, bytes], tokens: frozenset[bytes]) -> None:
    """Not to HTTP/2: over such a pipe requests would reach an instance that nobody has judged."""
    wanted = said.get(b"upgrade", b"")
    if (
        b"upgrade" in tokens
        and wanted
        and not fields.old
        and fields.length == 0
        and b"h2" not in wanted.lower()
    ):
        fields.upgrade = wanted


@lru_cache(64)
def _tokens(value: bytes) -> frozenset[bytes]:
    return frozenset(token for word in value.lower().split(b",") if (token := word.strip(b"\t ")))


def _without(block: bytes, tokens: frozenset[bytes]) -> bytes:
    """Fields that the client says are only for the next hop, which is us."""
    for token in tokens:
        if token in _NEVER_DROPPED:
            raise Bad(400, f"The field {token.decode('latin-1')} is not one between neighbours.")
        block = re.sub(rb"\r\n" + re.escape(token) + rb":[^\r]*", b"", block, flags=re.IGNORECASE)
    return block


def _passed(fields: Fields, said: dict[bytes, bytes], rest: bytes, client: bytes) -> bytes:
    host = said.get(b"host", b"")
    lines = [b"\r\nHost: ", host or b"localhost", rest]
    if fields.length == CHUNKED:
        lines.append(b"\r\nTransfer-Encoding: chunked")
    elif b"content-length" in said:
        lines.append(b"\r\nContent-Length: %d" % fields.length)
    if fields.upgrade:
        lines.append(b"\r\nConnection: Upgrade\r\nUpgrade: " + fields.upgrade)
    elif b"te" in said and b"trailers" in _tokens(said[b"te"]):
        lines.append(b"\r\nConnection: TE\r\nTE: trailers")
    lines.append(_origin(client, host))
    return b"".join(lines)


@lru_cache(4096)
def _origin(client: bytes, host: bytes) -> bytes:
    """Who called, and under which name; the id of the request follows it."""
    node = b'"[%b]"' % client if b":" in client else client
    told = b'\r\nX-Forwarded-Host: %b\r\nForwarded: for=%b;host="%b";proto=http' % (host, node, host)
    if not host:
        told = b"\r\nForwarded: for=%b;proto=http" % node
    return b"\r\nX-Forwarded-For: %b\r\nX-Forwarded-Proto: http%b\r\nX-Request-Id: " % (client, told)
