"""Parses and checks request heads for both ports: the first line, the length of the body, and the host.

Performs no input or output. Accepts less than RFC 9112 allows: input that two programs could interpret
differently is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from windlass.base.http_in.bounds import Bounds
from windlass.base.http_in.wire import CONTENT_LENGTH, FIELD_BLOCK, TOKEN, Bad

CHUNKED_LENGTH: Final = -1

LINE_END: Final = b"\r\n"
REQUEST_LINE: Final = re.compile(rb"(" + TOKEN + rb"{1,64}) ([\x21\x22\x24-\x7e\x80-\xff]+) HTTP/1\.([01])")
"""Method, target and minor version. Targets without a leading slash are checked further."""
_OTHER_VERSION_PATTERN: Final = re.compile(rb"\S+ \S+ HTTP/(?!1\.[01]\Z)[0-9.]+")
_ABSOLUTE_PATTERN: Final = re.compile(rb"https?://([^/?@]+)([/?].*)?", re.IGNORECASE)
_HOST_PATTERN: Final = re.compile(
    rb"([a-z0-9_](?:[a-z0-9_-]{0,62}[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]{0,62}[a-z0-9_])?)*|\[[0-9a-f:.]+\])"
    rb"\.?(?::[0-9]{1,5})?"
)
_MAX_HOST_LENGTH: Final = 253
SINGLE_FIELDS: Final = frozenset({b"host", b"content-length", b"transfer-encoding"})
NEVER_DROPPED: Final = SINGLE_FIELDS | {b"authorization", b"cookie", b"expect"}
"""The end-to-end fields, which a client may not declare as hop-by-hop."""
_INTERPRETED_FIELDS: Final = SINGLE_FIELDS | {b"connection", b"upgrade", b"expect"}

Values = Mapping[bytes, bytes]
"""Field values by name in lower case. Values of repeated fields are joined by commas."""


class StartLine(NamedTuple):
    method: bytes
    target: bytes
    """The target in the form that is passed on, without scheme and host."""
    old: bool
    """Whether the version is HTTP/1.0."""
    authority: bytes | None
    """The host of an absolute target, which must be equal to the Host field."""


def parse_line(line: bytes, bounds: Bounds) -> StartLine:
    match = REQUEST_LINE.fullmatch(line)
    if not match:
        if _OTHER_VERSION_PATTERN.fullmatch(line):
            raise Bad(505, "Only HTTP/1.1 and HTTP/1.0 are spoken here.")
        raise Bad(400, "The first line of the request is not valid.")
    method, target, minor = match.groups()
    check_target(target, bounds)
    old = minor == b"0"
    if target[0] == 0x2F or (target == b"*" and method == b"OPTIONS"):
        return StartLine(method, target, old, None)
    if method == b"CONNECT":
        raise Bad(405, "This is no proxy: CONNECT is not offered.")
    absolute = _ABSOLUTE_PATTERN.fullmatch(target)
    if not absolute:
        raise Bad(400, "The target of the request is not valid.")
    rest = absolute[2] or b"/"
    return StartLine(method, rest if rest[0] == 0x2F else b"/" + rest, old, absolute[1].lower())


def check_target(target: bytes, bounds: Bounds) -> None:
    if len(target) > bounds.target_bytes:
        raise Bad(414, f"The target of the request is longer than {bounds.target_bytes} bytes.")


def check_authority(authority: bytes | None, host: bytes) -> None:
    if authority is not None and host_of(authority) != host:
        raise Bad(400, "The target of the request and its field Host name different hosts.")


def check_fields(block: bytes, bounds: Bounds) -> None:
    """Checks syntax and number of fields. In `block`, each field begins with the preceding line break."""
    if not FIELD_BLOCK.fullmatch(block):
        raise Bad(400, "A field of the head is not valid.")
    if block.count(LINE_END) > bounds.fields:
        raise Bad(431, f"The head has more than {bounds.fields} fields.")


def check_single(name: bytes) -> None:
    """Refuses a repeated field if it may appear only once."""
    if name in SINGLE_FIELDS:
        raise Bad(400, f"The field {name.decode()} is there more than once.")


def body_length(values: Values, is_http_1_0: bool) -> int:
    """Returns the length of the body, or `CHUNKED_LENGTH`."""
    coding, length = values.get(b"transfer-encoding"), values.get(b"content-length")
    if coding is not None:
        if length is not None:
            raise Bad(400, "There are both Content-Length and Transfer-Encoding.")
        if is_http_1_0:
            raise Bad(400, "HTTP/1.0 knows no Transfer-Encoding.")
        if coding.lower() != b"chunked":
            raise Bad(501, "The only Transfer-Encoding that is accepted is chunked.")
        return CHUNKED_LENGTH
    if length is None:
        return 0
    if not CONTENT_LENGTH.fullmatch(length):
        raise Bad(400, "Content-Length is not a number.")
    return int(length)


def named_host(values: Values, is_http_1_0: bool) -> bytes:
    """Returns the host in lower case, without the port; empty if HTTP/1.0 omits it."""
    host = values.get(b"host")
    if host is None:
        if is_http_1_0:
            return b""
        raise Bad(400, "The field Host is missing.")
    return host_of(host)


@lru_cache(1024)
def host_of(value: bytes) -> bytes:
    match = _HOST_PATTERN.fullmatch(value.lower())
    if not match or len(match[1]) > _MAX_HOST_LENGTH:
        raise Bad(400, "The field Host is not a valid name.")
    return match[1]


def tokens_of(value: bytes) -> frozenset[bytes]:
    return frozenset(token for word in value.lower().split(b",") if (token := word.strip(b"\t ")))


def check_connection(tokens: frozenset[bytes]) -> None:
    for token in sorted(tokens & NEVER_DROPPED):
        raise Bad(400, f"The field {token.decode('latin-1')} must not be named in Connection.")


class RequestHead:
    """The fields of a request, for a server that handles the request itself."""

    __slots__ = ("close", "expects", "fields", "host", "length", "old", "raw", "upgrade")

    def __init__(self, raw: bytes, is_http_1_0: bool, bounds: Bounds) -> None:
        """Parses `raw`, which contains everything from the end of the first line to the end of the head."""
        block = raw[:-4]
        check_fields(block, bounds)
        self.raw = raw
        self.old = is_http_1_0
        self.fields: list[tuple[bytes, bytes]] = []
        """The fields in their order, with names in lower case."""
        values = self._read(block)
        self.length = body_length(values, is_http_1_0)
        self.host = named_host(values, is_http_1_0)
        tokens = tokens_of(values[b"connection"]) if b"connection" in values else frozenset()
        check_connection(tokens)
        self.close = is_http_1_0 or b"close" in tokens
        self.upgrade = (
            values.get(b"upgrade", b"").lower() if b"upgrade" in tokens and not is_http_1_0 else b""
        )
        self.expects = not is_http_1_0 and values.get(b"expect", b"").lower() == b"100-continue"

    def _read(self, block: bytes) -> Values:
        values: dict[bytes, bytes] = {}
        for line in block.split(LINE_END)[1:]:
            name, _, value = line.partition(b":")
            name, value = name.lower(), value.strip(b"\t ")
            self.fields.append((name, value))
            if name in _INTERPRETED_FIELDS:
                if name in values:
                    check_single(name)
                    value = values[name] + b"," + value
                values[name] = value
        return values
