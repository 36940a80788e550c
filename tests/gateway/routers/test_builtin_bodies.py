"""Bodies and answers pass unchanged, however they are framed."""

from __future__ import annotations

import asyncio

import pytest

from tests.gateway.routers.town import SHOP, make_town, reply, request, route, until


@pytest.mark.parametrize("size", [1, 70_000, 3_000_000])
async def test_the_gateway_does_not_change_request_and_answer_bodies(town, size):
    async def echo(heard):
        heard.out.write(reply(heard.body))

    shop = await town.instance(answer=echo)
    await town.shop(shop)
    caller = await town.caller()
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    for _ in range(2):
        assert (await caller.ask(request(method="POST", body=body))).body == body
    assert town.active() == 0


async def test_chunked_bodies_and_trailers_are_forwarded_unchanged(town):
    async def chunked(heard):
        heard.out.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n")
        heard.out.write(b"3;why=not\r\nabc\r\n2\r\nde\r\n0\r\nX-Sum: 5\r\n\r\n")

    shop = await town.instance(answer=chunked)
    await town.shop(shop)
    caller = await town.caller()
    sent = b"2\r\nab\r\n5;a=b\r\ncdefg\r\n0\r\nX-Check: 1\r\n\r\n"
    for _ in range(2):
        said = await caller.ask(request("/", "POST", SHOP, "Transfer-Encoding: chunked") + sent)
        assert said.body == b"abcde"
    assert shop.raw[0].count(sent) == 2
    assert [each.body for each in shop.heard] == [b"abcdefg"] * 2


async def test_pipelined_requests_are_answered_in_order(town):
    async def say_target(heard):
        await asyncio.sleep(0.002 if heard.target.endswith("0") else 0)
        heard.out.write(reply(heard.target.encode() + heard.body))

    await town.shop(await town.instance(answer=say_target))
    caller = await town.caller()
    wanted = []
    for number in range(40):
        host = "nobody.localhost" if number % 7 == 3 else SHOP
        await caller.send(request(f"/{number}", "POST", host, body=b"x" * (number % 3)))
        wanted.append(b"No service" if number % 7 == 3 else f"/{number}".encode() + b"x" * (number % 3))
    for each in wanted:
        assert (await caller.said()).body.startswith(each)


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
async def test_an_answer_without_a_body_ends_with_its_head(town, status):
    async def answer(heard):
        heard.out.write(f"HTTP/1.1 {status}\r\nETag: x\r\n\r\n".encode())

    await town.shop(await town.instance(answer=answer))
    caller = await town.caller()
    assert [(await caller.ask(request())).status for _ in range(2)] == [int(status[:3])] * 2


async def test_the_answer_to_head_has_a_content_length_and_no_body(town):
    async def answer(heard):
        heard.out.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n")

    await town.shop(await town.instance(answer=answer))
    caller = await town.caller()
    for _ in range(2):
        assert (await caller.ask(request(method="HEAD"), head_only=True)).fields["content-length"] == "1234"
    said = await caller.ask(request(method="HEAD", host="nobody.localhost"), head_only=True)
    assert said.status == 404
    assert (await caller.ask(request(method="HEAD"), head_only=True)).status == 200


async def test_an_answer_delimited_by_connection_close_closes_the_clients_connection(town):
    async def answer(heard):
        heard.out.write(b"HTTP/1.1 200 OK\r\n\r\nall of ")
        await heard.out.drain()
        await asyncio.sleep(0.01)
        heard.out.write(b"it")
        heard.out.close()

    await town.shop(await town.instance(answer=answer))
    said = await town.ask(request())
    assert said == (200, {"connection": "close"}, b"all of it")


async def test_an_answer_that_breaks_off_is_not_passed_on_as_complete(town):
    async def answer(heard):
        heard.out.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        await heard.out.drain()
        heard.out.close()

    await town.shop(await town.instance(answer=answer))
    caller = await town.caller()
    await caller.send(request())
    assert (await caller.rest()).endswith(b"\r\n\r\nhalf")
    assert town.active() == 0


async def test_bytes_that_an_instance_sends_after_its_complete_answer_are_dropped(town):
    async def answer(heard):
        heard.out.write(reply(b"right") + reply(b"wrong"))

    shop = await town.instance(answer=answer)
    await town.shop(shop)
    caller = await town.caller()
    assert [(await caller.ask(request())).body for _ in range(3)] == [b"right"] * 3
    assert len(shop.raw) == 3


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nA: b\r\n folded\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
        b"hello\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: " + b"x" * 70_000,
        b"",
    ],
)
async def test_an_answer_that_is_not_http_becomes_a_502_and_affects_no_other_request(town, answer):
    async def say(heard):
        if heard.target == "/bad":
            heard.out.write(answer)
            await heard.out.drain()
            heard.out.close()
        else:
            heard.out.write(reply(b"good"))

    await town.shop(await town.instance(answer=say))
    caller = await town.caller()
    said = await caller.ask(request("/bad", "POST"))
    assert said.status == 502
    assert b"Shop gave no valid answer" in said.body
    assert (await caller.ask(request())).body == b"good"


async def test_a_server_sent_event_passes_at_once(town):
    go = asyncio.Event()

    async def events(heard):
        heard.out.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        for _ in range(3):
            heard.out.write(b"7\r\ndata: 1\r\n")
            await heard.out.drain()
            await go.wait()
            go.clear()
        heard.out.write(b"0\r\n\r\n")

    await town.shop(await town.instance(answer=events))
    caller = await town.caller()
    await caller.send(request())
    await caller.reader.readuntil(b"\r\n\r\n")
    for _ in range(3):  # the next one is only sent when this one has been seen
        assert await caller.reader.readexactly(12) == b"7\r\ndata: 1\r\n"
        go.set()
    assert await caller.reader.readexactly(5) == b"0\r\n\r\n"


async def test_a_100_continue_of_the_instance_is_forwarded_to_the_client(town):
    async def answer(heard):
        heard.out.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        heard.out.write(reply(b"thanks"))

    shop = await town.instance(answer=answer, reads_bodies=False)
    await town.shop(shop)
    caller = await town.caller()
    head = request("/", "POST", SHOP, "Expect: 100-continue", "Content-Length: 4")
    assert (await caller.ask(head)).status == 100
    assert (await caller.said()).body == b"thanks"


@pytest.mark.parametrize("interim", ["100 Continue", "102 Processing", "103 Early Hints", "199 X"])
@pytest.mark.parametrize("method", ["HEAD", "GET", "POST"])
async def test_an_interim_answer_that_a_client_does_not_wait_for_is_not_passed_on(town, interim, method):
    """A proxy in front that takes it for the final answer would give the final one to another client."""

    async def answer(heard):
        heard.out.write(f"HTTP/1.1 {interim}\r\nLink: </a>\r\n\r\n".encode() * 2)
        heard.out.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    await town.shop(await town.instance(answer=answer))
    await town.router.set(
        "other", [route([(await town.instance("other")).endpoint], "other", ["other.localhost"])]
    )
    caller = await town.caller()
    fields = ("Expect: 100-continue",) if method == "HEAD" else ("X-Expect: 100-continue",)
    body = b"1234" if method == "POST" else b""
    first = await caller.ask(request("/", method, SHOP, *fields, body=body), head_only=method == "HEAD")
    assert first.status == 200
    assert (await caller.ask(request("/", host="other.localhost"))).body == b"other"


async def test_a_client_that_waits_gets_one_status_100_without_headers_of_the_instance(town):
    async def answer(heard):
        heard.out.write(b"HTTP/1.1 102 Processing\r\n\r\n" + b"HTTP/1.1 100 Continue\r\nX-Own: 1\r\n\r\n" * 3)
        heard.out.write(reply(b"thanks"))

    await town.shop(await town.instance(answer=answer, reads_bodies=False))
    caller = await town.caller()
    head = request("/", "POST", SHOP, "Expect: 100-Continue", "Content-Length: 4")
    waited = await caller.ask(head)
    assert (waited.status, waited.fields) == (100, {})
    assert (await caller.said()).body == b"thanks"


async def test_an_answer_before_the_end_of_the_body_ends_the_connection(town):
    async def answer(heard):
        heard.out.write(reply(b"too much", "413 Content Too Large"))

    shop = await town.instance(answer=answer, reads_bodies=False)
    await town.shop(shop)
    caller = await town.caller()
    said = await caller.ask(request("/", "POST", SHOP, "Content-Length: 1000000") + b"x" * 1000)
    assert (said.status, said.body) == (413, b"too much")
    assert await caller.rest() == b""
    assert len(shop.heard) == 1


async def test_an_http_1_0_client_gets_an_unchunked_answer_without_keep_alive(town):
    async def chunked(heard):
        if heard.target == "/continue":
            heard.out.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        heard.out.write(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
        )

    await town.shop(await town.instance(answer=chunked))
    for target in ("/", "/continue"):
        caller = await town.caller()
        await caller.send(f"GET {target} HTTP/1.0\r\nHost: {SHOP}\r\nConnection: keep-alive\r\n\r\n".encode())
        assert await caller.rest() == b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabcde"


async def test_a_client_that_asks_to_close_gets_connection_close(town):
    await town.shop(await town.instance("one"))
    caller = await town.caller()
    said = await caller.ask(request("/", "GET", SHOP, "Connection: close"))
    assert (said.fields["connection"], said.body) == ("close", b"one")
    assert await caller.rest() == b""


async def test_a_client_that_only_stops_sending_gets_its_answer(town):
    async def slowly(heard):
        await asyncio.sleep(0.01)
        heard.out.write(reply(b"late"))

    await town.shop(await town.instance(answer=slowly))
    caller = await town.caller()
    await caller.send(request())
    caller.out.write_eof()
    assert (await caller.rest()).endswith(b"late")


async def test_the_connection_to_an_instance_is_closed_when_its_client_disconnects():
    hung_up = asyncio.Event()

    async def for_ever(heard):
        assert await heard.reader.read() == b""
        hung_up.set()

    async with make_town(leaving_seconds=0.05) as town:
        shop = await town.instance(answer=for_ever)
        await town.shop(shop)
        caller = await town.caller()
        await caller.send(request())
        await until(lambda: shop.heard)
        await caller.close()
        await hung_up.wait()
        assert town.active() == 0
