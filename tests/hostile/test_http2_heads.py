"""Requests of HTTP/2 that would become other requests of HTTP/1 at an instance, and broken frames."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.gateway.routers.http2_caller import (
    CONTINUATION,
    DATA,
    END_STREAM,
    HEADERS,
    PING,
    PREFACE,
    PRIORITY,
    PROTOCOL_ERROR,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Fields,
    Http2Caller,
    caller_of,
    frame,
    head_of,
    make_http2_town,
)
from tests.gateway.routers.town import SHOP, Instance, Town, until
from windlass.routers.builtin import http2_heads
from windlass.routers.builtin.hpack import encode_field
from windlass.routers.builtin.http2_connection import _WORK_PER_TURN, Http2Connection
from windlass.routers.builtin.http2_frames import MAX_FRAME_BYTES, Http2Frame
from windlass.routers.builtin.http2_limits import work_of

SECOND = f"\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: {SHOP}\r\n\r\n"


@pytest.fixture
async def town() -> AsyncIterator[Town]:
    async with make_http2_town() as made:
        yield made


@pytest.fixture
async def shop(town: Town) -> Instance:
    instance = await town.instance()
    await town.shop(instance)
    return instance


def with_field(name: str, value: str) -> Fields:
    return head_of("/", "GET", SHOP, (name, value))


def pseudo(**changed: str | None) -> Fields:
    values = {"method": "GET", "scheme": "https", "authority": SHOP, "path": "/"} | changed
    return [(f":{name}", value) for name, value in values.items() if value is not None]


HEADS: dict[str, Fields] = {
    "a line break in a value": with_field("x", "a\r\nx-admin: yes"),
    "a second request in a value": with_field("x", f"a{SECOND}"),
    "a line feed in a value": with_field("x", "a\nx-admin: yes"),
    "a carriage return in a value": with_field("x", "a\rb"),
    "NUL in a value": with_field("x", "a\0b"),
    "a space before a value": with_field("x", " a"),
    "a tab after a value": with_field("x", "a\t"),
    "a line break in a name": with_field("x\r\nx-admin", "yes"),
    "a colon in a name": with_field("x-admin:yes", "a"),
    "a space in a name": with_field("x admin", "a"),
    "an empty name": with_field("", "a"),
    "an upper-case name": with_field("X-Admin", "a"),
    "a name beyond ASCII": with_field("x-é", "a"),
    "Connection": with_field("connection", "x-forwarded-for"),
    "Transfer-Encoding": with_field("transfer-encoding", "chunked"),
    "Keep-Alive": with_field("keep-alive", "1"),
    "Proxy-Connection": with_field("proxy-connection", "close"),
    "Upgrade": with_field("upgrade", "websocket"),
    "HTTP2-Settings": with_field("http2-settings", "AAMAAABkAARAAAAA"),
    "TE other than trailers": with_field("te", "chunked"),
    "a body that is announced and missing": with_field("content-length", "5"),
    "a length that is no number": with_field("content-length", "+0"),
    "two lengths": head_of("/", "GET", SHOP, ("content-length", "0"), ("content-length", "0")),
    "two hosts": head_of("/", "GET", SHOP, ("host", SHOP), ("host", SHOP)),
    "another host": with_field("host", "other.localhost"),
    "a repeated method": [(":method", "GET"), *pseudo()],
    "a repeated path": [*pseudo(), (":path", "/other")],
    "a repeated authority": [*pseudo(), (":authority", "other.localhost")],
    "a pseudo-header field after a field": [*pseudo(path=None), ("x", "a"), (":path", "/")],
    "an unknown pseudo-header field": [*pseudo(), (":protocol", "websocket")],
    "the status of an answer": [*pseudo(), (":status", "200")],
    "no method": pseudo(method=None),
    "no scheme": pseudo(scheme=None),
    "no path": pseudo(path=None),
    "another scheme": pseudo(scheme="ftp"),
    "an empty path": pseudo(path=""),
    "a path without a slash": pseudo(path="admin"),
    "an absolute path": pseudo(path=f"https://{SHOP}/"),
    "a path of another host": pseudo(path="http://other.localhost/"),
    "a space in the path": pseudo(path="/ HTTP/1.1"),
    "a line break in the path": pseudo(path=f"/ HTTP/1.1{SECOND}"),
    "a fragment in the path": pseudo(path="/#a"),
    "an asterisk as path": pseudo(path="*"),
    "a space in the method": pseudo(method="GET /admin"),
    "a line break in the method": pseudo(method=f"GET / HTTP/1.1{SECOND}GET"),
    "a long method": pseudo(method="X" * 65),
    "a line break in the authority": pseudo(authority=f"{SHOP}\r\nx-admin: yes"),
    "CONNECT with a path": pseudo(method="CONNECT"),
    "CONNECT without an authority": pseudo(method="CONNECT", scheme=None, path=None, authority=None),
}
ANSWERED: dict[str, tuple[int, Fields]] = {
    "a space in the authority": (400, pseudo(authority="a b")),
    "a user in the authority": (400, pseudo(authority=f"admin@{SHOP}")),
    "a path in the authority": (400, pseudo(authority=f"{SHOP}/admin")),
    "no authority": (400, pseudo(authority=None)),
    "CONNECT": (405, pseudo(method="CONNECT", scheme=None, path=None, authority=f"{SHOP}:443")),
    "too many fields": (431, head_of("/", "GET", SHOP, *((f"x-{number}", "a") for number in range(200)))),
    "a long target": (414, pseudo(path="/" + "a" * 20_000)),
    "a host without a certificate": (421, pseudo(authority="other.localhost")),
}


async def test_a_malformed_head_resets_its_stream_and_reaches_no_instance(town: Town, shop: Instance) -> None:
    async with caller_of(town) as caller:
        for number, (title, fields) in enumerate(HEADS.items()):
            stream = 2 * number + 1
            await caller.send(caller.head(stream, fields))
            assert (await caller.said(stream)).reset == PROTOCOL_ERROR, title
        assert shop.raw == []
        assert (await caller.ask(999)).status == 200, "the connection goes on"


async def test_what_http1_refuses_is_answered_with_the_same_status(town: Town, shop: Instance) -> None:
    async with caller_of(town) as caller:
        for number, (title, (status, fields)) in enumerate(ANSWERED.items()):
            stream = 2 * number + 1
            assert (await caller.ask(stream, fields)).status == status, title
        assert shop.raw == []
        assert (await caller.ask(999)).status == 200, "the connection goes on"


async def test_without_the_check_of_fields_a_second_request_is_smuggled(
    town: Town, shop: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the tests above would show nothing."""
    monkeypatch.setattr(http2_heads, "check_field", lambda name, value: None)
    async with caller_of(town) as caller:
        assert (await caller.ask(1, HEADS["a second request in a value"])).status == 200
        await until(lambda: len(shop.heard) == 2)
    assert [heard.target for heard in shop.heard] == ["/", "/smuggled"]
    async with caller_of(town) as caller:
        assert (await caller.ask(1, HEADS["a line break in a value"])).status == 200
    assert shop.heard[-1].fields["x-admin"] == "yes"


@pytest.mark.parametrize("sent", [b"", b"1234", b"123456"])
async def test_a_body_of_another_length_is_refused(town: Town, shop: Instance, sent: bytes) -> None:
    """An instance that reads five bytes would take the rest for the next request."""
    async with caller_of(town) as caller:
        fields = head_of("/", "POST", SHOP, ("content-length", "5"))
        await caller.send(caller.head(1, fields, ends=False) + frame(DATA, END_STREAM, 1, sent))
        assert (await caller.said(1)).reset == PROTOCOL_ERROR
        assert (await caller.ask(3)).status == 200
    assert [heard.method for heard in shop.heard] == ["GET"]


async def test_trailers_cannot_become_fields_of_the_router(town: Town, shop: Instance) -> None:
    async with caller_of(town) as caller:
        for number, name in enumerate(
            ["content-length", "host", "x-forwarded-for", "forwarded", "x_forwarded_for"]
        ):
            stream = 2 * number + 1
            await caller.send(caller.head(stream, head_of("/", "POST"), ends=False))
            await caller.send(frame(DATA, 0, stream, b"body"))
            await caller.send(caller.head(stream, [(name, "1")]))
            assert (await caller.said(stream)).status in {0, 400, 502}, name
        stream = 99
        await caller.send(
            caller.head(stream, head_of("/", "POST"), ends=False) + frame(DATA, 0, stream, b"body")
        )
        await caller.send(caller.head(stream, [(":path", "/other")]))
        assert (await caller.said(stream)).reset == PROTOCOL_ERROR
    assert [heard.body for heard in shop.heard] == []


def test_fields_beyond_their_limit_are_not_read() -> None:
    """1,000 of them fit into 1,000 bytes. The head is refused for those that are there."""
    fields = [(b":method", b"GET"), (b":scheme", b"https"), (b":path", b"/"), (b":authority", b"shop")]
    many = [*fields, *[(b"a", b"")] * 1000]
    for most, lines in ((100, 102), (10_000, 1001)):
        assert http2_heads.request_head(many, has_body=False, most=most).text.count(b"\r\n") == lines


@pytest.mark.parametrize("kind", [HEADERS, CONTINUATION])
def test_a_large_header_block_takes_the_rest_of_a_turn(kind: int) -> None:
    """In the Huffman code, 16 KiB take two milliseconds."""
    assert work_of(Http2Frame(kind, 0, 1, bytes(MAX_FRAME_BYTES))) >= _WORK_PER_TURN
    assert work_of(Http2Frame(DATA, 0, 1, bytes(MAX_FRAME_BYTES))) == 1


async def test_cookies_arrive_as_one_field_and_forged_fields_not_at_all(town: Town, shop: Instance) -> None:
    cookies = (("cookie", "a=1"), ("cookie", "b=2"), ("x-forwarded-for", "6.6.6.6"), ("x_real_ip", "6.6.6.6"))
    odd = (("transfer_encoding", "chunked"), ("content_length", "7"), ("x-request-id", "mine"))
    async with caller_of(town) as caller:
        assert (await caller.ask(1, head_of("/", "GET", SHOP, *cookies, *odd))).status == 200
    fields = shop.heard[0].fields
    assert fields["cookie"] == "a=1; b=2"
    assert fields["x-forwarded-for"] == "127.0.0.1"
    assert fields["x-request-id"] == "mine"
    assert not {"x_real_ip", "transfer_encoding", "content_length", "connection"} & fields.keys()


class Sink:
    """A transport that takes everything."""

    def __init__(self) -> None:
        self.sent = bytearray()
        self.is_closed = False

    def write(self, data: bytes) -> None:
        self.sent += data

    def close(self) -> None:
        self.is_closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.is_closed

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def get_extra_info(self, name: str) -> Any:
        return None


async def test_no_sequence_of_broken_frames_breaks_the_router(town: Town) -> None:
    """Whole frames, with bytes and orders changed at random. Whatever they do, the connection ends by itself,
    and nothing is left of it."""
    shared, randomness = town.router._shared, random.Random(7)
    async with caller_of(town) as caller:
        await caller.ask(1)
        whole = [
            frame(SETTINGS, content=b"\0\x04\0\0\xff\xff"),
            caller.head(3, head_of("/", "POST"), ends=False),
            frame(DATA, 0, 3, b"body"),
            frame(DATA, END_STREAM, 3, b"rest"),
            caller.head(5, head_of()),
            frame(PING, content=bytes(8)),
            frame(PRIORITY, 0, 5, b"\0\0\0\x03\x10"),
            frame(WINDOW_UPDATE, 0, 5, b"\0\0\1\0"),
            frame(RST_STREAM, 0, 5, b"\0\0\0\x08"),
            frame(HEADERS, 0, 7, caller.block(head_of())),
            frame(9, 4, 7),
        ]
    for _ in range(3000):
        connection = Http2Connection(shared, town.router._table.host, 443, (SHOP,), "127.0.0.1")
        sink = Sink()
        connection.connection_made(sink)
        frames = [whole[0], *randomness.choices(whole, k=randomness.randint(0, 12))]
        sent = bytearray(b"".join(frames))
        for _ in range(randomness.randint(0, 4)):
            sent[randomness.randrange(len(sent))] = randomness.randrange(256)
        data = PREFACE + bytes(sent)
        at = 0
        while at < len(data) and not sink.is_closed:
            step = randomness.choice((1, 7, 100, 1000))
            connection.data_received(data[at : at + step])
            at += step
        connection.connection_lost(None)
        assert not connection._streams
    assert not any(isinstance(member, Http2Connection) for member in shared.connections.members)


def test_the_caller_is_another_implementation() -> None:
    assert Http2Caller.__module__.startswith("tests.")


def test_long_names_of_fields_are_not_remembered() -> None:
    """Anyone can make up thousands of names of 60,000 bytes: clients in requests, instances in answers."""
    tracemalloc.start()
    try:
        for number in range(100):
            name = b"%d" % number + b"x" * 60_000
            http2_heads.check_field(name, b"value")
            assert encode_field(name, b"value").endswith(name + b"\x05value")
        assert tracemalloc.get_traced_memory()[0] < 1_000_000, "of six megabytes"
    finally:
        tracemalloc.stop()
