"""What is read of a header of the PROXY protocol."""

from __future__ import annotations

import socket
from contextlib import suppress
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gateway.routers.proxy_headers import TEXT, binary
from windlass.routers.builtin.proxy_header import (
    MAX_HEADER_BYTES,
    IncompleteHeader,
    NoHeader,
    ProxyHeader,
    read_proxy_header,
)

IPV4, IPV6 = "203.0.113.7", "2001:db8::7"
SIX = TEXT.replace(b"TCP4", b"TCP6")


@pytest.mark.parametrize(
    ("data", "address"),
    [
        (TEXT, IPV4),
        (SIX.replace(b"203.0.113.7", b"2001:DB8:0::7").replace(b"192.0.2.1", b"::1"), IPV6),
        (SIX.replace(b"203.0.113.7", b"::ffff:203.0.113.7").replace(b"192.0.2.1", b"::1"), IPV4),
        (b"PROXY UNKNOWN\r\n", ""),
        (b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", ""),
        (binary(IPV4), IPV4),
        (binary(IPV6), IPV6),
        (binary(f"::ffff:{IPV4}"), IPV4),
        (binary(IPV4, more=b"\x20\0\x05hello"), IPV4),
        (binary(IPV4, command=0x20), ""),
        (binary(family=0x00), ""),
        (binary(family=0x31, addresses=bytes(216)), ""),
        (binary(family=0xFF, command=0x20), ""),
    ],
)
def test_a_header_tells_the_address_of_the_client(data: bytes, address: str) -> None:
    assert read_proxy_header(data) == ProxyHeader(len(data), address)
    assert read_proxy_header(data + b"GET / HTTP/1.1") == ProxyHeader(len(data), address)
    for size in range(len(data)):
        with pytest.raises(IncompleteHeader) as needed:
            read_proxy_header(data[:size])
        assert size < needed.value.size <= len(data)


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n",
        b"\x16\x03\x01",
        TEXT.replace(b"\r\n", b"\n"),
        TEXT.replace(b"TCP4", b"UDP4"),
        TEXT.replace(b"203.0.113.7", b"203.0.113.777"),
        TEXT.replace(b"203.0.113.7", b"203.0.113.07"),
        TEXT.replace(b"203.0.113.7", b"2001:db8::7"),
        TEXT.replace(b"203.0.113.7", b"fe80::1%eth0"),
        TEXT.replace(b" 50000", b" 65536"),
        TEXT.replace(b" 50000", b" 050"),
        TEXT.replace(b" 50000", b""),
        TEXT.replace(b" 50000", b"  50000"),
        b"PROXY " + b"x" * 101,
        b"PROXY UNKNOWN" + b" " * 100 + b"\r\n",
        binary(IPV4, command=0x11),
        binary(IPV4, command=0x22),
        binary(family=0x12, addresses=bytes(12)),
        binary(family=0x11, addresses=bytes(11)),
        binary(family=0x21, addresses=bytes(12)),
        binary(IPV4, more=bytes(MAX_HEADER_BYTES)),
    ],
)
def test_other_bytes_are_no_header(data: bytes) -> None:
    with pytest.raises(NoHeader):
        read_proxy_header(data)


BYTES = st.binary(max_size=300)
NEARLY = st.one_of(
    BYTES,
    BYTES.map(lambda data: b"PROXY TCP4 " + data),
    BYTES.map(lambda data: binary()[:12] + data),
    st.builds(
        lambda data, at, byte: data[: at % len(data)] + bytes((byte,)) + data[at % len(data) + 1 :],
        st.sampled_from([TEXT, binary(IPV4), binary(IPV6, more=b"\x04\0\x01x")]),
        st.integers(0, 1000),
        st.integers(0, 255),
    ),
)


@given(NEARLY)
def test_any_bytes_are_a_header_or_incomplete_or_refused(data: bytes) -> None:
    with suppress(NoHeader, IncompleteHeader):
        header = read_proxy_header(data)
        assert 0 < header.size <= len(data)
        assert header.address == "" or str(ip_address(header.address)) == header.address
        assert read_proxy_header(data[: header.size]) == header


@given(st.ip_addresses(), st.integers(0, 65_535), st.binary(max_size=200))
def test_each_address_is_read_as_it_was_written(address: object, port: int, rest: bytes) -> None:
    text = str(address)
    four = ":" not in text
    line = f"PROXY TCP{4 if four else 6} {text} {'192.0.2.1' if four else '::1'} {port} 443\r\n".encode()
    family = socket.AF_INET if four else socket.AF_INET6
    for header in (line, binary(text)):
        read = read_proxy_header(header + rest)
        packed = ip_address(read.address)
        mapped = getattr(ip_address(text), "ipv4_mapped", None)
        assert packed.packed == (mapped.packed if mapped else socket.inet_pton(family, text))
        assert (header + rest)[read.size :] == rest
