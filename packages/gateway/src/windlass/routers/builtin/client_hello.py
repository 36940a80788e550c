"""Reads the first message of a TLS client, the ClientHello: the host name and the protocols that it asks for.
Pure.

The message is read before TLS starts, so that clients without a chance are refused before any cryptography.
The library reads the same bytes again afterwards.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

MOST_BYTES: Final = 16 * 1024
"""Maximum size of a ClientHello with its record headers. Browsers send up to 2 KiB."""
_RECORD_HEAD, _MESSAGE_HEAD = 5, 4
_HANDSHAKE, _CLIENT_HELLO = 22, 1
_RANDOM: Final = 2 + 32
"""Bytes of the version and the random value."""
_SERVER_NAME, _PROTOCOLS, _KEY_SHARE = 0, 16, 51
_FINITE_FIELDS: Final = range(0x0100, 0x0200)
"""Groups of a classic Diffie-Hellman exchange (RFC 7919). One exchange can keep the server busy for many
milliseconds."""
_NAME: Final = re.compile(
    rb"[a-z0-9_](?:[a-z0-9_-]{0,62}[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]{0,62}[a-z0-9_])?)*"
)
_LONGEST_NAME: Final = 253


class ClientHello(NamedTuple):
    name: str
    """The host name in lower case; empty if the client names none, or none that is valid."""
    protocols: tuple[bytes, ...]
    """The protocols that the client offers (ALPN); empty if it offers no choice."""
    is_costly: bool
    """Whether the client begins a key exchange that costs the server much more than the client."""


class Incomplete(Exception):
    """Raised if further bytes are needed: `size` in all."""

    def __init__(self, size: int) -> None:
        super().__init__(f"{size} bytes are needed")
        self.size = size


class NotTls(Exception):
    """Raised if the bytes are not a ClientHello."""


def read_hello(data: bytes) -> ClientHello:
    """Raises Incomplete or NotTls."""
    message = _HelloReader(_message(data))
    message.skip(_RANDOM)
    message.vector(1)  # session id
    message.vector(2)  # ciphers
    message.vector(1)  # compression methods
    name, is_costly = "", False
    protocols: tuple[bytes, ...] = ()
    seen: set[int] = set()
    extensions = _HelloReader(message.vector(2) if message.left else b"")
    while extensions.left:
        kind = extensions.number(2)
        content = _HelloReader(extensions.vector(2))
        if kind in seen:
            raise NotTls("an extension is there more than once")
        seen.add(kind)
        if kind == _SERVER_NAME:
            name = _server_name(content)
        elif kind == _PROTOCOLS:
            protocols = _protocols(content)
        elif kind == _KEY_SHARE:
            is_costly = _has_finite_field(content)
    return ClientHello(name, protocols, is_costly)


def _message(data: bytes) -> bytes:
    """Returns the content of the ClientHello, which may be split over several records."""
    parts = []
    at = length = 0
    wanted = _MESSAGE_HEAD
    while length < wanted:
        if len(data) < at + _RECORD_HEAD:
            if data and data[0] != _HANDSHAKE:
                raise NotTls("it does not begin with a handshake record")
            raise Incomplete(at + _RECORD_HEAD)
        if data[at] != _HANDSHAKE or data[at + 1] != 3:
            raise NotTls("it does not begin with handshake records")
        size = int.from_bytes(data[at + 3 : at + 5])
        if not size or at + _RECORD_HEAD + size > MOST_BYTES:
            raise NotTls("the size of a record is not valid")
        begin, at = at + _RECORD_HEAD, at + _RECORD_HEAD + size
        if len(data) < at:
            raise Incomplete(at)
        parts.append(data[begin:at])
        length += size
        if length >= _MESSAGE_HEAD:
            head = b"".join(parts)[:_MESSAGE_HEAD]
            if head[0] != _CLIENT_HELLO:
                raise NotTls("the first message is not a ClientHello")
            wanted = _MESSAGE_HEAD + int.from_bytes(head[1:])
            if wanted > MOST_BYTES:
                raise NotTls("the ClientHello is too large")
    return b"".join(parts)[_MESSAGE_HEAD:wanted]


def _server_name(content: _HelloReader) -> str:
    names = _HelloReader(content.vector(2))
    while names.left:
        kind, name = names.number(1), names.vector(2).lower()
        if kind == 0 and len(name) <= _LONGEST_NAME and _NAME.fullmatch(name):
            return name.decode()
    return ""


def _protocols(content: _HelloReader) -> tuple[bytes, ...]:
    names = _HelloReader(content.vector(2))
    found = []
    while names.left:
        found.append(names.vector(1))
    return tuple(found)


def _has_finite_field(content: _HelloReader) -> bool:
    shares = _HelloReader(content.vector(2))
    while shares.left:
        group, _ = shares.number(2), shares.vector(2)
        if group in _FINITE_FIELDS:
            return True
    return False


class _HelloReader:
    """Reads numbers and vectors. Raises NotTls at the end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def skip(self, size: int) -> bytes:
        begin = self._at
        self._at += size
        if self._at > len(self._data):
            raise NotTls("a field is longer than its message")
        return self._data[begin : self._at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.skip(size))

    def vector(self, size: int) -> bytes:
        """Reads a vector whose length has `size` bytes."""
        return self.skip(self.number(size))
