"""What is read of the first message of a TLS client."""

from __future__ import annotations

import random

import pytest

from tests.gateway.routers.secure_town import hello_of
from windlass.routers.builtin.client_hello import ClientHello, Incomplete, NotTls, read_hello

DATA = hello_of("Shop.Example.com", ["h2", "http/1.1"])


def in_records(message: bytes, size: int) -> bytes:
    """The same message in records of this size."""
    pieces = [message[at : at + size] for at in range(0, len(message), size)]
    return b"".join(b"\x16\x03\x01" + len(piece).to_bytes(2) + piece for piece in pieces)


def extension(kind: int, content: bytes) -> bytes:
    return kind.to_bytes(2) + len(content).to_bytes(2) + content


def hello_with(*extensions: bytes) -> bytes:
    body = b"\x03\x03" + bytes(32) + b"\0" + b"\0\x02\x13\x01" + b"\x01\0"
    joined = b"".join(extensions)
    body += len(joined).to_bytes(2) + joined
    return in_records(b"\x01" + len(body).to_bytes(3) + body, 16_000)


def server_name(name: bytes, kind: int = 0) -> bytes:
    entry = bytes((kind,)) + len(name).to_bytes(2) + name
    return extension(0, len(entry).to_bytes(2) + entry)


def key_share(*groups: int) -> bytes:
    shares = b"".join(group.to_bytes(2) + b"\0\x01x" for group in groups)
    return extension(51, len(shares).to_bytes(2) + shares)


def groups(*numbers: int) -> bytes:
    listed = b"".join(number.to_bytes(2) for number in numbers)
    return extension(10, len(listed).to_bytes(2) + listed)


def test_the_name_and_the_protocols_are_read() -> None:
    assert read_hello(DATA) == ClientHello("shop.example.com", (b"h2", b"http/1.1"), False)
    assert read_hello(DATA + b"more") == read_hello(DATA)
    assert read_hello(hello_of("", [])) == ClientHello("", (), False)


@pytest.mark.parametrize("size", [2, 3, 4, 100, 400])
def test_a_message_in_several_records_is_read(size: int) -> None:
    data = hello_with(server_name(b"shop.example.com")) if size < 100 else DATA
    assert read_hello(in_records(data[5:], size)) == read_hello(data)


def test_a_message_in_very_many_records_is_refused_before_it_is_complete() -> None:
    """Otherwise each record that arrives by itself is a reason to read all former ones again."""
    with pytest.raises(NotTls, match="too many records"):
        read_hello(in_records(DATA[5:], 1)[: 65 * 6])
    with pytest.raises(Incomplete):
        read_hello(in_records(DATA[5:], 1)[: 64 * 6])


def test_an_incomplete_message_says_how_many_bytes_it_needs() -> None:
    for data in (DATA, in_records(DATA[5:], 100)):
        for size in range(len(data)):
            with pytest.raises(Incomplete) as raised:
                read_hello(data[:size])
            assert size < raised.value.size <= len(data)


@pytest.mark.parametrize(
    "name",
    [
        b"192.0.2.1:443",
        b"shop.example.com.",
        b"-shop.example.com",
        b"shop example",
        b"\xff",
        b"a" * 254,
        b"../x",
        b"",
        b"a\0b",
    ],
)
def test_an_invalid_name_counts_as_none(name: bytes) -> None:
    assert read_hello(hello_with(server_name(name))).name == ""
    assert read_hello(hello_with(server_name(b"shop.example.com", kind=1))).name == ""


def test_a_costly_key_exchange_is_recognized() -> None:
    assert read_hello(hello_with(key_share(0x0104, 29))).is_costly, "the server takes the first that it knows"
    assert read_hello(hello_with(key_share(0x11EC, 0x0104))).is_costly
    assert not read_hello(hello_with(key_share(29, 0x0104))).is_costly
    assert not read_hello(hello_with(key_share(29, 23, 0x11EC))).is_costly
    assert read_hello(hello_with(groups(0x0104), key_share())).is_costly, "the server would ask for it"
    assert not read_hello(hello_with(groups(29, 0x0104), key_share(29))).is_costly
    assert not read_hello(hello_with()).is_costly
    assert read_hello(hello_with(groups(25, 30, 0x0104), key_share(25))).is_costly
    assert not read_hello(hello_with(groups(25, 24), key_share(25))).is_costly


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n",
        b"\x80\x2e\x01\x00\x02",  # SSL 2
        b"\x16\x02\x00\x00\x05hello",
        b"\x16\x03\x01\x00\x00",  # an empty record
        b"\x16\x03\x01\xff\xff",
        b"\x15\x03\x01\x00\x02\x02\x28",
        in_records(b"\x02" + DATA[6:], 16_000),
        in_records(b"\x01\x01\x00\x00" + bytes(100), 16_000),  # longer than the limit
        in_records(b"\x01\x00\x00\x05hello", 16_000),
        hello_with(server_name(b"a"), server_name(b"b")),
        hello_with(extension(0, b"\0\x09x")),
        hello_with(b"\0\0\0\x09x"),
    ],
)
def test_other_bytes_are_not_tls(data: bytes) -> None:
    with pytest.raises(NotTls):
        read_hello(data)


def test_arbitrary_bytes_raise_nothing_else() -> None:
    chance = random.Random(7)
    read = 0
    for _ in range(20_000):
        data = bytearray(DATA)
        for _ in range(chance.randint(1, 6)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            read_hello(bytes(data[: chance.randint(0, len(data))] if chance.random() < 0.3 else data))
            read += 1
        except (Incomplete, NotTls):
            pass
    assert 0 < read < 20_000
