"""Requests that mean one thing to one server and another to the next.

Each is judged by what an instance saw, read in all the ways in which servers are known to read. None may ever
find two requests where the client sent one.
"""

import asyncio
import re

import pytest

from tests.routers.town import SHOP, Instance, make_town, request

HOST = f"Host: {SHOP}\r\n".encode()
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
_CHUNKED = b"0\r\n\r\n" + SMUGGLED


def post(fields: bytes, body: bytes = b"") -> bytes:
    return b"POST / HTTP/1.1\r\n" + HOST + fields + b"\r\n" + body


def with_length(fields: bytes, body: bytes) -> bytes:
    return post(fields + b"Content-Length: %d\r\n" % len(body), body)


REFUSED = {
    "both lengths": with_length(b"Transfer-Encoding: chunked\r\n", _CHUNKED),
    "both lengths, the other way round": post(
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", _CHUNKED
    ),
    "two lengths that differ": post(b"Content-Length: 0\r\nContent-Length: 36\r\n", SMUGGLED),
    "two lengths that agree": post(b"Content-Length: 36\r\nContent-Length: 36\r\n", SMUGGLED),
    "a list of lengths": post(b"Content-Length: 0, 36\r\n", SMUGGLED),
    "a length with a sign": post(b"Content-Length: +36\r\n", SMUGGLED),
    "a length below zero": post(b"Content-Length: -1\r\n", SMUGGLED),
    "a length in hexadecimal": post(b"Content-Length: 0x24\r\n", SMUGGLED),
    "a length with an underscore": post(b"Content-Length: 3_6\r\n", SMUGGLED),
    "a length with a blank in it": post(b"Content-Length: 3 6\r\n", SMUGGLED),
    "a length that is a fraction": post(b"Content-Length: 36.0\r\n", SMUGGLED),
    "a length that is empty": post(b"Content-Length:\r\n", SMUGGLED),
    "a length beyond all numbers": post(b"Content-Length: 18446744073709551652\r\n", SMUGGLED),
    "a length in foreign digits": post("Content-Length: ٣٦\r\n".encode(), SMUGGLED),
    "a blank before the colon": post(b"Content-Length : 36\r\n", SMUGGLED),
    "a tab before the colon": post(b"Transfer-Encoding\t: chunked\r\n", _CHUNKED),
    "a blank before the name": post(b" Content-Length: 36\r\n", SMUGGLED),
    "a folded field": post(b"X: y\r\n Content-Length: 36\r\n", SMUGGLED),
    "a folded coding": post(b"Transfer-Encoding:\r\n chunked\r\n", _CHUNKED),
    "a folded first field": b"POST / HTTP/1.1\r\n X: y\r\n" + HOST + b"\r\n" + SMUGGLED,
    "a lone line feed in the head": post(b"X: y\nContent-Length: 36\r\n", SMUGGLED),
    "only line feeds": b"GET / HTTP/1.1\nHost: shop.localhost\n\n" + SMUGGLED,
    "a lone line feed at the end of the head": b"GET / HTTP/1.1\r\nHost: shop.localhost\r\n\n" + SMUGGLED,
    "a lone carriage return in the head": post(b"X: y\rContent-Length: 36\r\n", SMUGGLED),
    "a zero byte in a field": post(b"X: y\0\r\n"),
    "a zero byte in a name": post(b"Content-Length\0: 36\r\n", SMUGGLED),
    "a control character in a field": post(b"Transfer-Encoding: \x0bchunked\r\n", _CHUNKED),
    "a field without a colon": post(b"Content-Length 36\r\n", SMUGGLED),
    "a field without a name": post(b": 36\r\n", SMUGGLED),
    "another coding": post(b"Transfer-Encoding: gzip, chunked\r\n", _CHUNKED),
    "a coding twice": post(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", _CHUNKED),
    "a coding and another one": post(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n", _CHUNKED),
    "a coding in quotes": post(b'Transfer-Encoding: "chunked"\r\n', _CHUNKED),
    "a coding that is empty": post(b"Transfer-Encoding:\r\n", SMUGGLED),
    "identity": with_length(b"Transfer-Encoding: identity\r\n", SMUGGLED),
    "a coding with a parameter": post(b"Transfer-Encoding: chunked;q=1\r\n", _CHUNKED),
    "a coding in HTTP/1.0": b"POST / HTTP/1.0\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n" + _CHUNKED,
    "the length only for the next hop": with_length(b"Connection: Content-Length\r\n", SMUGGLED),
    "the coding only for the next hop": post(
        b"Connection: close, Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n", _CHUNKED
    ),
    "the host only for the next hop": post(b"Connection: Host\r\n"),
    "a chunk size that is not one": post(
        b"Transfer-Encoding: chunked\r\n\r\n"[:-2], b"xyz\r\n\r\n" + SMUGGLED
    ),
    "a chunk size with a sign": post(b"Transfer-Encoding: chunked\r\n", b"+0\r\n\r\n" + SMUGGLED),
    "a chunk size with 0x": post(b"Transfer-Encoding: chunked\r\n", b"0x0\r\n\r\n" + SMUGGLED),
    "a chunk size with a blank": post(b"Transfer-Encoding: chunked\r\n", b"0 \r\n\r\n" + SMUGGLED),
    "a chunk size that overflows": post(
        b"Transfer-Encoding: chunked\r\n", b"10000000000000000\r\n\r\n" + SMUGGLED
    ),
    "a chunk size before a lone line feed": post(b"Transfer-Encoding: chunked\r\n", b"0\n\n" + SMUGGLED),
    "an extension with a lone line feed": post(
        b"Transfer-Encoding: chunked\r\n", b"2;\nxx\r\n24\r\n0\r\n\r\n" + SMUGGLED
    ),
    "an extension with a lone return": post(b"Transfer-Encoding: chunked\r\n", b"0;a\rb\r\n\r\n" + SMUGGLED),
    "a chunk longer than it says": post(
        b"Transfer-Encoding: chunked\r\n", b"1\r\nab\r\n0\r\n\r\n" + SMUGGLED
    ),
    "a chunk that ends with a lone line feed": post(b"Transfer-Encoding: chunked\r\n", b"1\r\na\n0\r\n\r\n"),
    "a length among the trailers": post(
        b"Transfer-Encoding: chunked\r\n", b"0\r\nContent-Length: 36\r\n\r\n" + SMUGGLED
    ),
    "a lone line feed among the trailers": post(
        b"Transfer-Encoding: chunked\r\n", b"0\r\nA: b\nC: d\r\n\r\n"
    ),
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\n" + HOST + HOST + b"\r\n",
    "an empty host": b"GET / HTTP/1.1\r\nHost:\r\n\r\n",
    "a host with a path": b"GET / HTTP/1.1\r\nHost: shop.localhost/x\r\n\r\n",
    "a host with a user": b"GET / HTTP/1.1\r\nHost: x@shop.localhost\r\n\r\n",
    "a host with a blank": b"GET / HTTP/1.1\r\nHost: shop.localhost x\r\n\r\n",
    "a host with a port that is none": b"GET / HTTP/1.1\r\nHost: shop.localhost:80x\r\n\r\n",
    "another host in the target": b"GET http://other.localhost/ HTTP/1.1\r\n" + HOST + b"\r\n",
    "a target without a slash": b"GET index.html HTTP/1.1\r\n" + HOST + b"\r\n",
    "a target with a blank": b"GET / /x HTTP/1.1\r\n" + HOST + b"\r\n",
    "a target with a tab": b"GET /\tx HTTP/1.1\r\n" + HOST + b"\r\n",
    "a target with a fragment": b"GET /#x HTTP/1.1\r\n" + HOST + b"\r\n",
    "two blanks in the first line": b"GET  / HTTP/1.1\r\n" + HOST + b"\r\n",
    "a blank at the end of the first line": b"GET / HTTP/1.1 \r\n" + HOST + b"\r\n",
    "no version": b"GET /\r\n" + HOST + b"\r\n" + SMUGGLED,
    "another version": b"GET / HTTP/2.0\r\n" + HOST + b"\r\n",
    "a version that does not exist": b"GET / HTTP/1.10\r\n" + HOST + b"\r\n",
    "the beginning of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a method that is none": b"GE(T / HTTP/1.1\r\n" + HOST + b"\r\n",
    "a tunnel": b"CONNECT shop.localhost:22 HTTP/1.1\r\n" + HOST + b"\r\n",
    "a tunnel to a path": b"GET shop.localhost:22 HTTP/1.1\r\n" + HOST + b"\r\n",
    "the beginning of TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "a head without an end": b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 12_000,
}

TAKEN = {
    "a request within a body": with_length(b"", SMUGGLED),
    "a request within a chunk": post(
        b"Transfer-Encoding: chunked\r\n", b"%x\r\n%b\r\n0\r\n\r\n" % (len(SMUGGLED), SMUGGLED)
    ),
    "a length with an underscore for a hyphen": post(b"Content_Length: 36\r\n"),
    "a coding with an underscore for a hyphen": with_length(b"Transfer_Encoding: chunked\r\n", _CHUNKED),
    "a coding in capitals": post(b"TRANSFER-ENCODING:\tCHUNKED\t\r\n", b"0\r\n\r\n"),
    "a body of GET": b"GET / HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % len(SMUGGLED) + SMUGGLED,
    "a body of HEAD": b"HEAD / HTTP/1.1\r\n"
    + HOST
    + b"Content-Length: %d\r\n\r\n" % len(SMUGGLED)
    + SMUGGLED,
    "an upgrade with a body": with_length(b"Connection: Upgrade\r\nUpgrade: websocket\r\n", SMUGGLED),
    "an upgrade to HTTP/2": post(
        b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n"
    ),
    "a request encoded in the target": b"GET /%0d%0aGET%20/smuggled HTTP/1.1\r\n" + HOST + b"\r\n",
    "an id with a request in it": post(b"X-Request-Id: a b GET / HTTP/1.1\r\n"),
    "an absolute target": b"GET http://shop.localhost:99/x HTTP/1.1\r\n" + HOST + b"\r\n",
    "empty lines before it": b"\r\n\r\n" + post(b""),
    "a long extension of a chunk": post(
        b"Transfer-Encoding: chunked\r\n", b"1;" + b"a" * 4000 + b"\r\nx\r\n0\r\n\r\n"
    ),
}


@pytest.mark.parametrize("title", REFUSED)
async def test_what_is_doubtful_is_refused(town, title):
    shop = await town.instance()
    await town.shop(shop)
    caller = await town.caller()
    await caller.send(REFUSED[title])
    answers = await caller.rest()
    assert answers.startswith((b"HTTP/1.1 4", b"HTTP/1.1 5"))
    assert len(re.findall(rb"HTTP/1\.1 [0-9]", answers)) == 1, "nothing after it is answered either"
    assert b"Connection: close" in answers
    assert not [each for each in shop.heard if each.target == "/smuggled"]
    assert max(readings(shop)) <= 1


@pytest.mark.parametrize("title", TAKEN)
async def test_what_is_taken_means_one_request_to_every_reader(town, title):
    shop = await town.instance()
    await town.shop(shop)
    caller = await town.caller()
    said = await caller.ask(TAKEN[title], head_only=TAKEN[title].startswith(b"HEAD"))
    assert said.status == 200
    assert (await caller.ask(request("/next"))).status == 200
    assert [each.target for each in shop.heard][-1] == "/next"
    assert readings(shop) == [2] * len(READERS)


@pytest.mark.parametrize("size", [1, 7])
async def test_a_doubtful_request_is_refused_however_it_is_cut(size):
    async def story(title):
        caller = await town.caller()
        data = REFUSED[title]
        for at in range(0, len(data), size):
            if caller.out.is_closing() or caller.reader.at_eof():
                break
            caller.out.write(data[at : at + size])
            await asyncio.sleep(0)
        assert (await caller.rest()).startswith((b"HTTP/1.1 4", b"HTTP/1.1 5")), title

    async with make_town() as town:
        shop = await town.instance()
        await town.shop(shop)
        await asyncio.gather(*(story(title) for title in REFUSED if len(REFUSED[title]) < 1000))
        for raw in shop.raw:
            assert max(count(bytes(raw), read) for read in READERS) <= 1


def test_the_judge_finds_two_requests_where_nobody_stands_guard():
    """Otherwise the tests above would show nothing."""
    found = [title for title, data in REFUSED.items() if max(count(data, read) for read in READERS) > 1]
    assert len(found) >= 30


# How servers are known to read


def _coding_first(fields):
    return not any("chunked" in value.lower() for name, value in fields if name == "transfer-encoding")


def _length_first(fields):
    return any(name == "content-length" for name, value in fields) or _coding_first(fields)


READERS = [
    (length, pick, separator)
    for length in (_coding_first, _length_first)
    for pick in (0, -1)
    for separator in (re.compile(rb"\r\n\r\n"), re.compile(rb"\r?\n\r?\n"))
]


def readings(instance: Instance) -> list[int]:
    """How many requests each reader finds in what all connections of an instance brought."""
    return [sum(count(bytes(raw), read) for raw in instance.raw) for read in READERS]


def count(data: bytes, reader) -> int:
    by_length, pick, separator = reader
    found = 0
    while True:
        data = data.lstrip(b"\r\n")
        end = separator.search(data)
        if not end or not re.match(rb"[A-Z]+ ", data):
            return found
        found += 1
        fields = _fields(data[: end.start()])
        rest = data[end.end() :]
        lengths = [value for name, value in fields if name == "content-length"]
        if by_length(fields):
            digits = re.findall(r"\d+", lengths[pick]) if lengths else ["0"]
            data = rest[int(digits[pick]) if digits else 0 :]
        else:
            data = _after_chunks(rest)


def _fields(head: bytes) -> list[tuple[str, str]]:
    text = re.sub(r"\r?\n[ \t]+", " ", head.decode("latin-1")).replace("\0", "")
    pairs = [line.partition(":") for line in re.split(r"\r?\n|\r", text)[1:]]
    return [(name.strip().lower().replace("_", "-"), value.strip()) for name, _, value in pairs]


def _after_chunks(data: bytes) -> bytes:
    while size := re.match(rb"\s*(?:0x|\+)?([0-9A-Fa-f]+)[^\n]*\n", data):
        length = int(size[1], 16)
        data = data[size.end() + length :]
        if not length:
            while (line := re.match(rb"[^\n]*\n", data)) and line[0].strip() and b":" in line[0]:
                data = data[line.end() :]
            return data
    return b""
