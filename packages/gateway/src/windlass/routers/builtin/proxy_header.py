"""Reads the header of the PROXY protocol, versions 1 and 2, with which a proxy tells the client's address.
Pure.

The header stands before all other bytes of a connection, also before those of TLS. Additional fields of
version 2 (TLV) are skipped.
"""

from __future__ import annotations

import re
import socket
from ipaddress import IPv4Address, IPv6Address
from typing import Final, NamedTuple

MAX_HEADER_BYTES: Final = 4096
"""Maximum size of a header. One of version 2 with all fields that proxies usually add has 600 bytes."""
_TEXT_PREFIX: Final = b"PROXY "
_MAX_LINE_BYTES: Final = 107
_LINE_PATTERN: Final = re.compile(
    rb"PROXY (TCP4|TCP6) ([0-9a-fA-F.:]{2,39}) ([0-9a-fA-F.:]{2,39}) (\S+) (\S+)\r\n"
)
_UNKNOWN_LINE_PATTERN: Final = re.compile(rb"PROXY UNKNOWN(?: [^\r\n]*+)?\r\n")
_PORT_PATTERN: Final = re.compile(rb"0|[1-9][0-9]{0,4}")
_MAX_PORT: Final = 65_535
_FAMILIES: Final = {b"TCP4": socket.AF_INET, b"TCP6": socket.AF_INET6}

_SIGNATURE: Final = b"\r\n\r\n\0\r\nQUIT\n"
_FIXED_BYTES: Final = 16
"""Bytes of a header of version 2 before the addresses: signature, command, family and length."""
_LOCAL, _PROXY = 0x20, 0x21
_ADDRESS_BYTES: Final = {0x00: 0, 0x11: 12, 0x21: 36, 0x31: 216}
"""Bytes of the addresses by family: none, TCP over IPv4 and IPv6, Unix streams."""
_TCP_4, _TCP_6 = 0x11, 0x21


class ProxyHeader(NamedTuple):
    size: int
    """Number of bytes of the header."""
    address: str
    """The client's address; empty if the proxy speaks for itself (in a health check), or does not know it."""


class IncompleteHeader(Exception):
    """Raised if further bytes are needed: `size` in all, or more."""

    def __init__(self, size: int) -> None:
        super().__init__(f"{size} bytes are needed")
        self.size = size


class NoHeader(Exception):
    """Raised if the bytes do not begin with a valid header."""


def read_proxy_header(data: bytes) -> ProxyHeader:
    """Raises IncompleteHeader or NoHeader."""
    if data.startswith(_TEXT_PREFIX):
        return _read_line(data)
    if data.startswith(_SIGNATURE):
        return _read_binary(data)
    for beginning in (_TEXT_PREFIX, _SIGNATURE):
        if beginning.startswith(data):
            raise IncompleteHeader(len(beginning))
    raise NoHeader("it does not begin with PROXY, or with the signature of version 2")


def _read_line(data: bytes) -> ProxyHeader:
    end = data.find(b"\n", 0, _MAX_LINE_BYTES) + 1
    if not end:
        if len(data) >= _MAX_LINE_BYTES:
            raise NoHeader("the line is too long")
        raise IncompleteHeader(len(data) + 1)
    if _UNKNOWN_LINE_PATTERN.fullmatch(data, 0, end):
        return ProxyHeader(end, "")
    line = _LINE_PATTERN.fullmatch(data, 0, end)
    if line is None or not all(_is_port(port) for port in line.group(4, 5)):
        raise NoHeader("the line is not valid")
    addresses = [_packed_address(_FAMILIES[line[1]], address) for address in line.group(2, 3)]
    return ProxyHeader(end, _address_text(addresses[0]))


def _is_port(port: bytes) -> bool:
    return _PORT_PATTERN.fullmatch(port) is not None and int(port) <= _MAX_PORT


def _packed_address(family: socket.AddressFamily, address: bytes) -> bytes:
    try:
        return socket.inet_pton(family, address.decode())
    except OSError as error:
        raise NoHeader("an address is not valid") from error


def _read_binary(data: bytes) -> ProxyHeader:
    if len(data) < _FIXED_BYTES:
        raise IncompleteHeader(_FIXED_BYTES)
    command, family = data[12], data[13]
    size = int.from_bytes(data[14:_FIXED_BYTES])
    if command not in {_LOCAL, _PROXY}:
        raise NoHeader("the version or the command is not known")
    if _FIXED_BYTES + size > MAX_HEADER_BYTES:
        raise NoHeader("the header is too large")
    if command == _PROXY and (family not in _ADDRESS_BYTES or size < _ADDRESS_BYTES[family]):
        raise NoHeader("the kind of addresses is not known, or they are not complete")
    if len(data) < _FIXED_BYTES + size:
        raise IncompleteHeader(_FIXED_BYTES + size)
    address = ""
    if command == _PROXY and family == _TCP_4:
        address = _address_text(data[_FIXED_BYTES : _FIXED_BYTES + 4])
    elif command == _PROXY and family == _TCP_6:
        address = _address_text(data[_FIXED_BYTES : _FIXED_BYTES + 16])
    return ProxyHeader(_FIXED_BYTES + size, address)


def _address_text(packed: bytes) -> str:
    if len(packed) == 4:
        return str(IPv4Address(packed))
    address = IPv6Address(packed)
    return str(address.ipv4_mapped or address)
