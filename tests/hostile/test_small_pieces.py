"""Bodies and answers that consist of very many small pieces: other clients have their turns meanwhile."""

from __future__ import annotations

import re
import sys
import time
from contextlib import asynccontextmanager

import pytest

from tests.gateway.routers.town import SHOP, make_town, reply, request
from tests.turns import counted_turns
from windlass.base.http_in.bounds import Bounds
from windlass.base.http_in.chunks import Chunks
from windlass.base.http_in.wire import without_fields
from windlass.routers.builtin import client_requests, upstream
from windlass.routers.builtin.requests import check_headers

CHUNKS = 100_000
BODY = b"1\r\nx\r\n" * CHUNKS + b"0\r\n\r\n"
CHUNKED = "Transfer-Encoding: chunked"
MANY = 1000


@asynccontextmanager
async def counted_town(monkeypatch, at_once):
    """A town, and counts of the chunks that it parses. `at_once`: instead of the usual number."""
    if at_once:
        for module in (upstream, client_requests):
            monkeypatch.setattr(module, "CHUNKS_AT_ONCE", at_once)
    feed = Chunks.feed

    def counting(chunks, data):
        passed, after = feed(chunks, data)
        counts.add(passed.count(b"\r\n") // 2)
        return passed, after

    monkeypatch.setattr(Chunks, "feed", counting)
    async with make_town() as town, counted_turns() as counts:
        shop = await town.instance()
        await town.shop(shop)
        yield town, shop, counts


@pytest.mark.parametrize("at_once", [0, sys.maxsize], ids=["yielding", "without yielding"])
async def test_forwarding_an_answer_in_tiny_chunks_yields_to_other_clients(monkeypatch, at_once):
    async def answer(heard):
        heard.out.write(f"HTTP/1.1 200 OK\r\n{CHUNKED}\r\n\r\n".encode() + BODY)

    async with counted_town(monkeypatch, at_once) as (town, shop, counts):
        shop.answer = answer
        said = await (await town.caller()).ask(request())
    assert said.body == b"x" * CHUNKS
    assert counts.most > 5000 if at_once else counts.most < 600


@pytest.mark.parametrize("at_once", [0, sys.maxsize], ids=["yielding", "without yielding"])
async def test_forwarding_a_body_in_tiny_chunks_yields_to_other_clients(monkeypatch, at_once):
    async with counted_town(monkeypatch, at_once) as (town, shop, counts):
        head = request("/", "POST", SHOP, CHUNKED)
        said = await (await town.caller()).ask(head + BODY)
        assert (said.status, shop.heard[-1].body) == (200, b"x" * CHUNKS)
    assert counts.most > 5000 if at_once else counts.most < 600


@pytest.fixture
async def town():
    async with make_town() as town:
        yield town


async def test_a_pipelined_request_after_a_body_in_tiny_chunks_is_answered(town):
    shop = await town.instance()
    await town.shop(shop)
    caller = await town.caller()
    await caller.send(request("/first", "POST", SHOP, CHUNKED) + BODY + request("/second"))
    assert [(await caller.said()).status for _ in range(2)] == [200, 200]
    assert [heard.target for heard in shop.heard] == ["/first", "/second"]


async def test_a_client_that_leaves_amid_an_answer_in_tiny_chunks_leaves_nothing_behind(town):
    async def answer(heard):
        heard.out.write(f"HTTP/1.1 200 OK\r\n{CHUNKED}\r\n\r\n".encode() + BODY * 20)

    shop = await town.instance()
    await town.shop(shop)
    shop.answer = answer
    caller = await town.caller()
    await caller.send(request())
    await caller.reader.readexactly(1000)
    await caller.close()
    shop.answer = shop.say_name
    assert (await (await town.caller()).ask(request())).status == 200


@pytest.mark.parametrize(("interim", "status"), [(50, 200), (200, 502)])
async def test_an_answer_with_too_many_interim_responses_is_refused(town, interim, status):
    async def answer(heard):
        heard.out.write(b"HTTP/1.1 102 Processing\r\n\r\n" * interim + reply(b"done"))

    shop = await town.instance()
    await town.shop(shop)
    shop.answer = answer
    caller = await town.caller()
    assert (await caller.ask(request())).status == status


def test_a_field_connection_with_very_many_names_is_read_in_one_pass():
    """Anyone may send one to the gateway, without a service or a token."""
    names = [b"a%x" % number for number in range(MANY)]
    block = b"\r\nHost: shop\r\nA1: x\r\nB: y\r\nConnection: " + b",".join(names)
    began = time.perf_counter()
    fields = check_headers(block + b"\r\n\r\n", False, b"192.0.2.1", Bounds())
    took = time.perf_counter() - began
    assert b"\r\nB: y" in fields.passed
    assert b"A1: x" not in fields.passed
    began = time.perf_counter()
    rest = block
    for name in names:  # the control: once for each name
        rest = re.sub(rb"\r\n" + re.escape(name) + rb":[^\r]*", b"", rest, flags=re.IGNORECASE)
    assert rest == without_fields(block, names)
    assert took * 5 < time.perf_counter() - began
