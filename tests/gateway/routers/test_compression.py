"""With compression, texts reach clients in gzip, and all else as the service has sent it."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from typing import Any

import pytest

from tests.gateway.routers.town import (
    SHOP,
    Caller,
    Heard,
    Said,
    Town,
    notice_leaving_clients,
    reply,
    request,
    until,
)
from windlass.routers.rules import RouteRules

TEXT = b"a line of text that repeats\n" * 100
PACKED = RouteRules(compresses=True)
GZIP = "Accept-Encoding: br, gzip"


async def shop(town: Town, *pieces: bytes, rules: RouteRules = PACKED) -> None:
    async def answer(heard: Heard) -> None:
        for piece in pieces:
            heard.out.write(piece)
            await heard.out.drain()
            await asyncio.sleep(0.01)

    await town.shop(await town.instance(answer=answer), rules=rules)


async def ask(town: Town, *fields: str, method: str = "GET") -> Said:
    caller = await town.caller()
    return await caller.ask(request("/", method, SHOP, *(fields or [GZIP])), head_only=method == "HEAD")


def is_packed(said: Said) -> bool:
    return said.fields.get("content-encoding") == "gzip"


def of_type(kind: str, *fields: str, body: bytes = TEXT, status: str = "200 OK") -> bytes:
    return reply(body, status, *([f"Content-Type: {kind}"] if kind else []), *fields)


async def test_a_text_is_compressed_and_says_so(town: Town) -> None:
    await shop(town, of_type("text/html; charset=utf-8", 'ETag: "1"', "Accept-Ranges: bytes"))
    said = await ask(town)
    assert is_packed(said)
    assert gzip.decompress(said.body) == TEXT
    assert len(said.body) < len(TEXT) / 5
    assert (said.fields["vary"], said.fields["etag"]) == ("Accept-Encoding", 'W/"1"')
    assert "accept-ranges" not in said.fields


async def test_without_the_setting_nothing_is_compressed(town: Town) -> None:
    await shop(town, of_type("text/html"), rules=RouteRules())
    assert (await ask(town)).body == TEXT


@pytest.mark.parametrize("fields", [["Accept: */*"], ["Accept-Encoding: br"], ["Accept-Encoding: gzip;q=0"]])
async def test_a_client_that_does_not_take_gzip_gets_the_text(town: Town, fields: list[str]) -> None:
    await shop(town, of_type("text/html"))
    said = await ask(town, *fields)
    assert (is_packed(said), said.body, said.fields["vary"]) == (False, TEXT, "Accept-Encoding")


@pytest.mark.parametrize(
    ("kind", "fields", "packed"),
    [
        ("application/json", (), True),
        ("application/problem+json", (), True),
        ("image/svg+xml", (), True),
        ("text/javascript", ("Vary: Origin",), True),
        ("image/png", (), False),
        ("application/octet-stream", (), False),
        ("", (), False),
        ("text/event-stream", (), False),
        ("text/plain", ("Content-Encoding: br",), False),
        ("text/plain", ("Cache-Control: public, no-transform",), False),
    ],
)
async def test_only_texts_are_compressed_and_only_once(
    town: Town, kind: str, fields: tuple[str, ...], packed: bool
) -> None:
    await shop(town, of_type(kind, *fields))
    said = await ask(town)
    assert is_packed(said) is packed
    assert (gzip.decompress(said.body) if packed else said.body) == TEXT


@pytest.mark.parametrize(
    ("data", "method"),
    [
        (of_type("text/plain", body=b"x" * 1024), "GET"),
        (of_type("text/plain", "Content-Range: bytes 0-2799/9999", status="206 Partial Content"), "GET"),
        (of_type("text/plain", body=b"", status="200 OK").replace(b"Length: 0", b"Length: 5000"), "HEAD"),
    ],
    ids=["small", "range", "head"],
)
async def test_small_and_partial_answers_stay_as_they_are(town: Town, data: bytes, method: str) -> None:
    await shop(town, data)
    assert not is_packed(await ask(town, method=method))


PLAIN = reply(TEXT, "200 OK", "Content-Type: text/plain")


@pytest.mark.parametrize(
    "pieces",
    [
        [PLAIN[n : n + 700] for n in range(0, 4000, 700)],
        [
            b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"%x\r\n%b\r\n5\r\n" % (len(TEXT) - 5, TEXT[:-5]),
            TEXT[-5:] + b"\r\n0\r\n",
            b"\r\n",
        ],
    ],
    ids=["length", "chunks"],
)
async def test_an_answer_in_pieces_is_compressed_to_its_end(town: Town, pieces: list[bytes]) -> None:
    await shop(town, *pieces)
    caller = await town.caller()
    for _ in range(2):
        said = await caller.ask(request("/", "GET", SHOP, GZIP))
        assert is_packed(said)
        assert gzip.decompress(said.body) == TEXT
    assert town.router._shared.compressors.count == 0


async def test_each_piece_arrives_before_the_next_one_is_sent(town: Town) -> None:
    go_on = asyncio.Event()

    async def answer(heard: Heard) -> None:
        heard.out.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
        heard.out.write(b"6\r\nfirst \r\n")
        await heard.out.drain()
        await go_on.wait()
        heard.out.write(b"6\r\nsecond\r\n0\r\n\r\n")

    await town.shop(await town.instance(answer=answer), rules=PACKED)
    caller = await town.caller()
    await caller.send(request("/", "GET", SHOP, GZIP))
    await caller.reader.readuntil(b"\r\n\r\n")
    unpack = zlib.decompressobj(31)
    size = int(await caller.reader.readuntil(b"\r\n"), 16)
    assert unpack.decompress(await caller.reader.readexactly(size)) == b"first "
    go_on.set()
    assert (await caller.reader.readuntil(b"0\r\n\r\n")).endswith(b"0\r\n\r\n")


async def test_above_the_limit_answers_in_pieces_are_passed_on_as_they_are(town: Town, monkeypatch) -> None:
    notice_leaving_clients(town)
    monkeypatch.setattr("windlass.routers.builtin.compression.MAX_CONCURRENT_COMPRESSIONS", 1)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % len(TEXT)

    async def answer(heard: Heard) -> None:
        heard.out.write(head)
        await asyncio.sleep(300)

    async def is_begun_packed() -> bool:
        callers.append(await town.caller())
        await callers[-1].send(request("/", "GET", SHOP, GZIP))
        return b"Content-Encoding: gzip" in await callers[-1].reader.readuntil(b"\r\n\r\n")

    await town.shop(await town.instance(answer=answer), rules=PACKED)
    callers: list[Caller] = []
    assert [await is_begun_packed() for _ in range(2)] == [True, False]
    await callers[0].close()  # a client that leaves makes room
    await until(lambda: town.router._shared.compressors.count == 0)
    assert await is_begun_packed()


async def test_a_broken_answer_does_not_look_complete(town: Town) -> None:
    async def answer(heard: Heard) -> None:
        heard.out.write(reply(TEXT, "200 OK", "Content-Type: text/plain")[:1500])
        await heard.out.drain()
        await asyncio.sleep(0.05)
        heard.out.transport.abort()

    await town.shop(await town.instance(answer=answer), rules=PACKED)
    caller = await town.caller()
    await caller.send(request("/", "GET", SHOP, GZIP))
    rest: Any = await caller.rest()
    assert b"Transfer-Encoding: chunked" in rest
    assert not rest.endswith(b"0\r\n\r\n")
