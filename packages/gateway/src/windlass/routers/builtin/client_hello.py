"""Reads the first message of a TLS client, the ClientHello: the host name and the protocols that it asks for.
Pure.

The message is read before TLS starts, so that clients without a chance are refused before any cryptography.
The library reads the same bytes again afterwards.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from typing import Final, NamedTuple

MAX_HELLO_BYTES: Final = 16 * 1024
"""Maximum size of a ClientHello with its record headers. Browsers send up to 2 KiB."""
_MAX_RECORDS: Final = 64
"""Maximum number of records of a ClientHello. Each record that arrives by itself is a reason to read the
message again from its beginning. Clients that split it, so that firewalls do not see the name, make a few."""
_RECORD_HEAD, _MESSAGE_HEAD = 5, 4
HANDSHAKE_RECORD: Final = 22
_CLIENT_HELLO = 1
_RANDOM_BYTES: Final = 2 + 32
"""Bytes of the version and the random value."""
_LENGTH_SIZES: Final = (1, 2, 1)
"""Sizes of the lengths of the vectors before the extensions."""
_SERVER_NAME, _GROUPS, _PROTOCOLS, _KEY_SHARE = b"\0\0", b"\0\x0a", b"\0\x10", b"\0\x33"
_FINITE_FIELDS: Final = range(0x0100, 0x0200)
"""Groups of a classic Diffie-Hellman exchange (RFC 7919). With 8,192 bits, one exchange takes the server 6
milliseconds, and a client that only pretends nothing."""
_NAME_PATTERN: Final = re.compile(
    rb"[a-z0-9_](?:[a-z0-9_-]{0,62}[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]{0,62}[a-z0-9_])?)*"
)
_RARE_GROUPS: Final = frozenset({b"\0\x19", b"\0\x1e"})
"""P-521 and X448. Clients that offer them offer others, too."""
_CURVES: Final = frozenset({b"\0\x17", b"\0\x18", b"\0\x1d"}) | _RARE_GROUPS
"""P-256, P-384, X25519, and the rare ones."""
_TLS_1_2: Final = b"\x03\x03"
_MAX_NAME_LENGTH: Final = 253


class ClientHello(NamedTuple):
    name: str
    """The host name in lower case; empty if the client names none, or none that is valid."""
    protocols: tuple[bytes, ...]
    """The protocols that the client offers (ALPN); empty if it offers no choice."""
    is_costly: bool
    """Whether the client begins a key exchange that costs the server much more than the client, or offers no
    exchange of Mozilla's profile *intermediate*."""
    is_outdated: bool = False
    """Whether the client speaks only versions before TLS 1.2."""


class Incomplete(Exception):
    """Raised if further bytes are needed: `size` in all."""

    def __init__(self, size: int) -> None:
        super().__init__(f"{size} bytes are needed")
        self.size = size


class NotTls(Exception):
    """Raised if the bytes are not a ClientHello."""


def read_hello(data: bytes) -> ClientHello:
    """Raises Incomplete or NotTls."""
    message = _client_hello_content(data)
    at = _RANDOM_BYTES
    for size in _LENGTH_SIZES:  # session id, ciphers, compression methods
        at += size + int.from_bytes(message[at : at + size])
    name, is_costly = "", False
    protocols: tuple[bytes, ...] = ()
    seen = set()
    end = at + 2 + int.from_bytes(message[at : at + 2])
    if end > len(message) and at != len(message):
        raise NotTls("the extensions are longer than the message")
    at += 2
    while at < end:
        kind = message[at : at + 2]
        begin = at + 4
        at = begin + int.from_bytes(message[at + 2 : begin])
        if at > end:
            raise NotTls("an extension is longer than the message")
        if kind in seen:
            raise NotTls("an extension is there more than once")
        seen.add(kind)
        if kind == _SERVER_NAME:
            name = _server_name(message[begin:at])
        elif kind == _PROTOCOLS:
            protocols = tuple(content for _, content in _extension_entries(message[begin:at], 0, 1))
        elif kind == _KEY_SHARE:
            shares = _extension_entries(message[begin:at], 2, 2)
            is_costly = is_costly or _begins_costly(group for group, _ in shares)
        elif kind == _GROUPS:
            # If no key share is acceptable, the server asks for one of a group that both know.
            groups = _extension_entries(message[begin:at], 2, 0)
            is_costly = is_costly or all(group in _RARE_GROUPS or _is_finite(group) for group, _ in groups)
    return ClientHello(name, protocols, is_costly, message[:2] < _TLS_1_2)


def _client_hello_content(data: bytes) -> bytes:
    """Returns the content of the ClientHello, which may be split over several records."""
    parts = []
    at = length = 0
    wanted = _MESSAGE_HEAD
    while length < wanted:
        if len(data) < at + _RECORD_HEAD:
            if data and data[0] != HANDSHAKE_RECORD:
                raise NotTls("it does not begin with a handshake record")
            raise Incomplete(at + _RECORD_HEAD)
        if data[at] != HANDSHAKE_RECORD or data[at + 1] != 3:
            raise NotTls("it does not begin with handshake records")
        size = int.from_bytes(data[at + 3 : at + 5])
        if not size or at + _RECORD_HEAD + size > MAX_HELLO_BYTES:
            raise NotTls("the size of a record is not valid")
        begin, at = at + _RECORD_HEAD, at + _RECORD_HEAD + size
        if len(data) < at:
            raise Incomplete(at)
        parts.append(data[begin:at])
        if len(parts) > _MAX_RECORDS:
            raise NotTls("the ClientHello has too many records")
        length += size
        if length >= _MESSAGE_HEAD:
            head = b"".join(parts)[:_MESSAGE_HEAD]
            if head[0] != _CLIENT_HELLO:
                raise NotTls("the first message is not a ClientHello")
            wanted = _MESSAGE_HEAD + int.from_bytes(head[1:])
            if wanted > MAX_HELLO_BYTES:
                raise NotTls("the ClientHello is too large")
    return b"".join(parts)[_MESSAGE_HEAD:wanted]


def _server_name(content: bytes) -> str:
    for kind, name in _extension_entries(content, 1, 2):
        low = name.lower()
        if kind == b"\0" and len(low) <= _MAX_NAME_LENGTH and _NAME_PATTERN.fullmatch(low):
            return low.decode()
    return ""


def _begins_costly(shares: Iterable[bytes]) -> bool:
    """Returns whether the server would exchange keys over a finite field: it takes the first share of a group
    that it knows."""
    known = (group for group in shares if group in _CURVES or _is_finite(group))
    return any(_is_finite(group) for group in itertools.islice(known, 1))


def _is_finite(group: bytes) -> bool:
    return int.from_bytes(group) in _FINITE_FIELDS


def _extension_entries(content: bytes, head: int, size: int) -> list[tuple[bytes, bytes]]:
    """Reads the list of an extension. Each entry has a head, and a content whose length has `size` bytes."""
    entries = []
    at, end = 2, len(content)
    if int.from_bytes(content[:2]) != end - 2:
        raise NotTls("the length of a list is not valid")
    while at < end:
        begin = at + head + size
        after = begin + int.from_bytes(content[at + head : begin])
        if after > end:
            raise NotTls("an entry is longer than its list")
        entries.append((content[at : at + head], content[begin:after]))
        at = after
    return entries
