"""HTTP by host name: what reaches whom, what comes back, and what is said where nobody is."""

import asyncio
import json
import socket

import pytest

from tests.routers.town import SHOP, make_town, reply, request, route, until
from windlass.routers.router import Endpoint, Listen

EMPTY_PORT = Endpoint("127.0.0.1", 1)  # nobody listens there


# Whom a request is for


async def test_a_request_reaches_the_service_of_its_host_name(town):
    shop, blog = await town.instance("shop"), await town.instance("blog")
    await town.shop(shop)
    await town.router.set("blog", [route([blog.endpoint], "blog", ["blog.localhost"])])
    assert (await town.ask(request(host="SHOP.localhost:8081"))).body == b"shop"
    assert (await town.ask(request(host="blog.localhost."))).body == b"blog"


async def test_each_request_of_a_connection_is_judged_by_its_own_host(town):
    shop, blog = await town.instance("shop"), await town.instance("blog")
    await town.shop(shop)
    await town.router.set("blog", [route([blog.endpoint], "blog", ["blog.localhost"])])
    caller = await town.caller()
    hosts = [SHOP, "blog.localhost", SHOP, "nobody.localhost", "blog.localhost"]
    said = [(await caller.ask(request(host=host))).body[:4] for host in hosts]
    assert said == [b"shop", b"blog", b"shop", b"No s", b"blog"]


async def test_the_longest_path_of_a_host_wins(town):
    names = {"/": "all", "/api": "api", "/api/v2/": "v2"}
    instances = {path: await town.instance(name) for path, name in names.items()}
    await town.router.set("shop", [route([each.endpoint], path=path) for path, each in instances.items()])
    caller = await town.caller()
    asked = ["/", "/api", "/api/x", "/api?x=/api/v2", "/apix", "/api/v2", "/api/v2/x", "/api/v2x"]
    said = [(await caller.ask(request(target))).body.decode() for target in asked]
    assert said == ["all", "api", "api", "api", "all", "v2", "v2", "api"]


@pytest.mark.parametrize(
    ("path", "rewrite", "asked", "heard"),
    [
        ("/api", None, "/api/x?y=/api", "/api/x?y=/api"),
        ("/api", "/", "/api/x?y=/api", "/x?y=/api"),
        ("/api", "/", "/api", "/"),
        ("/api", "/", "/api?y", "/?y"),
        ("/api", "/v2/", "/api/x", "/v2/x"),
        ("/", "/in/side", "/x", "/in/side/x"),
    ],
)
async def test_a_path_is_rewritten_as_its_route_says(town, path, rewrite, asked, heard):
    shop = await town.instance()
    await town.shop(shop, path=path, rewrite=rewrite)
    await town.ask(request(asked))
    assert [each.target for each in shop.heard] == [heard]


async def test_a_wildcard_stands_for_every_name_one_label_longer(town):
    wild, exact = await town.instance("wild"), await town.instance("exact")
    await town.router.set("wild", [route([wild.endpoint], "wild", ["*.shop.example"])])
    await town.router.set("exact", [route([exact.endpoint], "exact", ["a.shop.example"])])
    caller = await town.caller()
    hosts = ["a.shop.example", "b.shop.example", "shop.example", "a.b.shop.example"]
    found = [await caller.ask(request(host=host)) for host in hosts]
    assert [each.status for each in found] == [200, 200, 404, 404]
    assert [each.body for each in found[:2]] == [b"exact", b"wild"]


async def test_a_host_name_belongs_to_its_first_service_until_released(town):
    first, second = await town.instance("first"), await town.instance("second")
    await town.router.set("first", [route([first.endpoint], "first")])
    await town.router.set("second", [route([second.endpoint], "second")])
    caller = await town.caller()
    assert (await caller.ask(request())).body == b"first"
    await town.router.forget("first")
    assert (await caller.ask(request())).body == b"second"


async def test_a_change_of_routes_holds_for_the_next_request_of_an_open_connection(town):
    old, new = await town.instance("old"), await town.instance("new")
    await town.shop(old)
    caller = await town.caller()
    assert (await caller.ask(request())).body == b"old"
    await town.shop(new)
    assert (await caller.ask(request())).body == b"new"
    await town.shop()
    assert (await caller.ask(request())).status == 503


async def test_a_request_under_way_goes_on_where_it_is(town):
    go = asyncio.Event()

    async def slowly(heard):
        await go.wait()
        heard.out.write(reply(b"old"))

    old, new = await town.instance(answer=slowly), await town.instance("new")
    await town.shop(old)
    caller = await town.caller()
    await caller.send(request())
    await until(lambda: old.heard)
    await town.shop(new)
    go.set()
    assert (await caller.said()).body == b"old"


async def test_an_http_route_with_an_external_port_is_reached_under_any_name(town):
    shop = await town.instance("shop")
    port = free_port()
    await town.router.reserve("shop", [Listen(port)])
    await town.shop(shop, external=port)
    caller = await town.caller(port)
    assert (await caller.ask(request(host="what.ever"))).body == b"shop"
    assert (await caller.ask(b"GET / HTTP/1.0\r\n\r\n")).body == b"shop"


# What an instance is told


async def test_forwarding_headers_of_a_client_are_replaced(town):
    shop = await town.instance()
    await town.shop(shop)
    lies = [
        "X-Forwarded-For: 9.9.9.9",
        "X-Forwarded-Proto: https",
        "x_forwarded_for: 9.9.9.9",
        "Forwarded: for=9",
    ]
    lies += ["X-Real-IP: 9.9.9.9", "X-Forwarded-Host: evil", "X-Forwarded-Anything: evil", "X-Kept: yes"]
    await town.ask(request("/", "GET", f"{SHOP}:8081", *lies))
    fields = shop.heard[0].fields
    assert fields.pop("x-request-id")
    assert fields == {
        "host": f"{SHOP}:8081",
        "x-kept": "yes",
        "x-forwarded-for": "127.0.0.1",
        "x-forwarded-proto": "http",
        "x-forwarded-host": f"{SHOP}:8081",
        "forwarded": f'for=127.0.0.1;host="{SHOP}:8081";proto=http',
    }


async def test_a_request_keeps_its_id_or_gets_one_of_its_own(town):
    shop = await town.instance()
    await town.shop(shop)
    caller = await town.caller()
    for fields in (["X-Request-Id: abc-1"], [], [], ["X-Request-Id: a b"]):
        await caller.ask(request("/", "GET", SHOP, *fields))
    ids = [each.fields["x-request-id"] for each in shop.heard]
    assert ids[0] == "abc-1"
    assert len(set(ids)) == 4
    assert "a b" not in ids


async def test_hop_by_hop_headers_are_not_forwarded(town):
    async def answer(heard):
        heard.out.write(
            reply(b"x", "200 OK", "Connection: keep-alive, X-Mine", "Keep-Alive: timeout=5", "X-Mine: 1")
        )

    shop = await town.instance(answer=answer)
    await town.shop(shop)
    fields = ["Connection: X-Secret, keep-alive", "X-Secret: 1", "Keep-Alive: 5", "TE: gzip", "Upgrade: x"]
    said = await town.ask(request("/", "GET", SHOP, *fields))
    assert said.fields == {"content-length": "1"}
    assert not shop.heard[0].fields.keys() & {"connection", "x-secret", "keep-alive", "te", "upgrade"}


# Bodies and answers


@pytest.mark.parametrize("size", [1, 70_000, 3_000_000])
async def test_bodies_pass_unchanged_both_ways(town, size):
    async def echo(heard):
        heard.out.write(reply(heard.body))

    shop = await town.instance(answer=echo)
    await town.shop(shop)
    caller = await town.caller()
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    for _ in range(2):
        assert (await caller.ask(request(method="POST", body=body))).body == body
    assert town.active() == 0


async def test_chunks_pass_unchanged_both_ways(town):
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


async def test_the_answer_to_head_has_a_length_and_no_body(town):
    async def answer(heard):
        heard.out.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n")

    await town.shop(await town.instance(answer=answer))
    caller = await town.caller()
    for _ in range(2):
        assert (await caller.ask(request(method="HEAD"), head_only=True)).fields["content-length"] == "1234"
    said = await caller.ask(request(method="HEAD", host="nobody.localhost"), head_only=True)
    assert said.status == 404
    assert (await caller.ask(request(method="HEAD"), head_only=True)).status == 200


async def test_an_answer_until_the_end_of_the_connection_ends_that_of_the_client(town):
    async def answer(heard):
        heard.out.write(b"HTTP/1.1 200 OK\r\n\r\nall of ")
        await heard.out.drain()
        await asyncio.sleep(0.01)
        heard.out.write(b"it")
        heard.out.close()

    await town.shop(await town.instance(answer=answer))
    said = await town.ask(request())
    assert said == (200, {"connection": "close"}, b"all of it")


async def test_an_answer_that_breaks_off_is_not_taken_for_a_whole_one(town):
    async def answer(heard):
        heard.out.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        await heard.out.drain()
        heard.out.close()

    await town.shop(await town.instance(answer=answer))
    caller = await town.caller()
    await caller.send(request())
    assert (await caller.rest()).endswith(b"\r\n\r\nhalf")
    assert town.active() == 0


async def test_bytes_after_an_answer_are_dropped(town):
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
async def test_an_answer_that_is_not_http_is_a_bad_gateway_and_harms_no_other(town, answer):
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


async def test_a_client_that_expects_to_be_told_to_continue_is_told_so(town):
    async def answer(heard):
        heard.out.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        heard.out.write(reply(b"thanks"))

    shop = await town.instance(answer=answer, reads_bodies=False)
    await town.shop(shop)
    caller = await town.caller()
    head = request("/", "POST", SHOP, "Expect: 100-continue", "Content-Length: 4")
    assert (await caller.ask(head)).status == 100
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


async def test_an_old_client_gets_an_answer_that_it_can_read(town):
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


async def test_a_client_that_wants_to_close_is_told_so(town):
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


async def test_an_instance_learns_that_its_client_has_gone():
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


# Tunnels


async def test_a_websocket_becomes_a_pipe_of_bytes(town):
    async def tunnel(heard):
        heard.out.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello"
        )
        heard.out.write(b"GET / HTTP/1.1\r\n\r\n")

    shop = await town.instance(answer=tunnel)
    await town.shop(shop)
    caller = await town.caller()
    said = await caller.ask(upgrade("websocket"))
    assert (said.status, said.fields) == (101, {"connection": "Upgrade", "upgrade": "websocket"})
    assert await caller.reader.readexactly(23) == b"helloGET / HTTP/1.1\r\n\r\n"
    assert shop.heard[0].fields["upgrade"] == "websocket"
    await caller.send(b"POST /inside HTTP/1.1\r\n\r\n")
    await until(lambda: len(shop.heard) == 2)
    assert shop.heard[1].target == "/inside"
    assert town.active() == 1
    await caller.close()
    await until(lambda: town.active() == 0)


async def test_no_connection_is_tunnelled_to_an_instance_over_http2(town):
    shop = await town.instance()
    await town.shop(shop)
    assert (await town.ask(upgrade("h2c, websocket"))).status == 200
    assert "upgrade" not in shop.heard[0].fields


async def test_a_refused_upgrade_is_an_ordinary_answer(town):
    shop = await town.instance("no")
    await town.shop(shop)
    caller = await town.caller()
    await caller.send(upgrade("websocket") + request("/next"))
    assert [(await caller.said()).body for _ in range(2)] == [b"no", b"no"]
    assert [each.target for each in shop.heard] == ["/", "/next"]


# Connections to instances


async def test_connections_to_instances_are_used_again(town):
    shop = await town.instance()
    await town.shop(shop)
    for _ in range(10):
        assert (await town.ask(request(method="POST", body=b"x"))).status == 200
    assert len(shop.raw) == 1


async def test_an_idle_connection_to_an_instance_is_closed_after_a_while():
    async with make_town(pooled_seconds=0.05) as town:
        shop = await town.instance()
        await town.shop(shop)
        await town.ask(request())
        assert shop.open == 1
        await until(lambda: not shop.open)


async def test_a_connection_that_died_in_waiting_costs_a_harmless_request_nothing(town):
    async def once(heard):
        if len(shop.heard) % 2 == 0:
            heard.out.transport.abort()  # as a server that just then had enough of waiting
        else:
            heard.out.write(reply(b"well"))

    shop = await town.instance(answer=once)
    await town.shop(shop)
    caller = await town.caller()
    for method in ("GET", "GET", "PUT", "DELETE", "OPTIONS"):
        assert (await caller.ask(request(method=method, body=b"x"))).body == b"well"
    assert len(shop.heard) == 9


async def test_a_request_with_possible_effects_is_not_retried(town):
    async def never(heard):
        heard.out.transport.abort()

    shop = await town.instance(answer=never)
    await town.shop(shop)
    assert (await town.ask(request(method="POST", body=b"pay"))).status == 502
    assert len(shop.heard) == 1
    assert (await town.ask(request())).status == 502
    assert len(shop.heard) == 3


async def test_an_endpoint_that_refuses_is_passed_over_at_once(town):
    shop = await town.instance("there")
    await town.router.set("shop", [route([EMPTY_PORT, shop.endpoint])])
    for _ in range(6):
        assert (await town.ask(request(method="POST", body=b"x"))).body == b"there"


async def test_an_endpoint_that_refused_is_tried_again():
    async with make_town(pause_seconds=0.05) as town:
        first, second = await town.instance("first"), await town.instance("second")
        port = second.port
        await second.stop()
        await town.router.set("shop", [route([first.endpoint, Endpoint("127.0.0.1", port)])])
        assert {(await town.ask(request())).body for _ in range(4)} == {b"first"}
        await second.start(port)
        found = b"first"
        while found != b"second":
            found = (await town.ask(request())).body


async def test_requests_go_where_the_least_is_under_way(town):
    async def never(heard):
        await asyncio.Event().wait()

    busy, free = await town.instance("busy"), await town.instance("free")
    await town.shop(busy, free)
    assert [(await town.ask(request())).body for _ in range(4)] == [b"busy", b"free", b"busy", b"free"]
    busy.answer = never
    caller = await town.caller()
    await caller.send(request())
    await until(lambda: len(busy.heard) == 3)
    assert [(await town.ask(request())).body for _ in range(5)] == [b"free"] * 5


# Where nobody is


async def test_a_name_that_no_service_has_is_said_by_name(town):
    said = await town.ask(request("/", "GET", "shpo.localhost", "Accept: text/html,*/*"))
    assert said.status == 404
    assert b"No service is called shpo.localhost" in said.body
    assert said.fields["content-type"] == "text/html; charset=utf-8"


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("text/html", "text/html; charset=utf-8"),
        ("application/json", "application/json"),
        ("*/*", "text/plain"),
    ],
)
async def test_a_service_that_does_not_run_is_named_in_a_way_the_client_reads(town, accept, kind):
    await town.shop(title="Tom & Jerry's <shop>")
    said = await town.ask(request("/", "GET", SHOP, f"Accept: {accept}"))
    assert said.status == 503
    assert said.fields["content-type"].startswith(kind)
    assert int(said.fields["retry-after"]) > 0
    text = said.body.decode()
    if kind == "application/json":
        assert json.loads(text)["status"] == 503
    assert ("<shop>" in text) is not kind.startswith("text/html")
    assert "is not running" in text


async def test_a_service_that_takes_no_connection_is_named(town):
    await town.router.set("shop", [route([EMPTY_PORT])])
    said = await town.ask(request())
    assert said.status == 503
    assert b"Shop does not answer" in said.body
    assert town.active() == 0


async def test_a_service_that_is_forgotten_is_unknown(town):
    await town.shop(await town.instance())
    await town.router.forget("shop")
    await town.router.forget("shop")
    assert (await town.ask(request())).status == 404
    assert "shop" not in town.router.traffic()


# Limits


@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\nHost: shop"])
async def test_a_head_that_does_not_come_ends_the_connection(begun):
    async with make_town(head_seconds=0.05) as town:
        caller = await town.caller()
        await caller.send(begun)
        assert (await caller.rest()).startswith(b"HTTP/1.1 408 " if begun else b"")


async def test_a_head_that_comes_drop_by_drop_has_no_more_time_than_another():
    async with make_town(head_seconds=0.1) as town:
        caller = await town.caller()
        ending = asyncio.create_task(caller.rest())
        while not ending.done():
            caller.out.write(b"G")
            await asyncio.sleep(0.01)
        assert (await ending).startswith(b"HTTP/1.1 408 ")


async def test_a_connection_without_requests_is_closed_after_a_while():
    async with make_town(idle_seconds=0.05) as town:
        await town.shop(await town.instance())
        caller = await town.caller()
        await caller.ask(request())
        assert await caller.rest() == b""


async def test_a_body_that_does_not_come_ends_the_connection():
    async with make_town(stall_seconds=0.05) as town:
        shop = await town.instance()
        await town.shop(shop)
        caller = await town.caller()
        said = await caller.ask(request("/", "POST", SHOP, "Content-Length: 10") + b"x")
        assert said.status == 408
        await until(lambda: not shop.open and town.active() == 0)


async def test_a_connection_is_told_to_come_back_while_all_others_are_being_served():
    served = asyncio.Event()

    async def when_told(heard):
        await served.wait()
        heard.out.write(reply(b"one"))

    async with make_town(connections=4) as town:  # two of them for one address
        shop = await town.instance(answer=when_told)
        await town.shop(shop)
        callers = [await town.caller() for _ in range(2)]
        for caller in callers:
            await caller.send(request())
        await until(lambda: len(shop.heard) == 2)
        crowded = await town.caller()
        said = await crowded.ask(request())
        assert (said.status, said.fields["connection"]) == (503, "close")
        assert b"Too many connections" in said.body
        assert await crowded.rest() == b""
        await crowded.close()
        served.set()
        for caller in callers:
            assert (await caller.said()).status == 200
            await caller.close()
        await until(lambda: town.router.connections == 0)
        assert (await town.ask(request())).status == 200


async def test_a_head_that_is_too_large_is_refused(town):
    said = await town.ask(request("/", "GET", SHOP, "A: " + "x" * 66_000))
    assert said.status == 431


async def test_requests_and_those_under_way_are_counted_by_service(town):
    await town.shop(await town.instance())
    caller = await town.caller()
    for _ in range(3):
        await caller.ask(request())
    traffic = town.router.traffic()["shop"]
    assert (traffic.requests, traffic.active) == (3, 0)


# Back-pressure

_MUCH = 64 * 1024 * 1024
_BOUND = 24 * 1024 * 1024  # what the sockets of both sides may hold, which the system decides


async def test_an_answer_waits_for_a_slow_reader_and_arrives_whole(town):
    written = 0

    async def much(heard):
        nonlocal written
        heard.out.write(f"HTTP/1.1 200 OK\r\nContent-Length: {_MUCH}\r\n\r\n".encode())
        for _ in range(_MUCH // 65_536):
            heard.out.write(b"x" * 65_536)
            await heard.out.drain()
            written += 65_536

    await town.shop(await town.instance(answer=much))
    caller = await town.caller()
    await caller.send(request())
    await standstill(lambda: written)
    assert 0 < written < _BOUND
    assert len((await caller.said()).body) == _MUCH


async def test_a_body_waits_for_a_slow_instance_and_arrives_whole(town):
    go = asyncio.Event()
    sent = 0
    shop = await town.instance(reads_bodies=False)

    async def late(heard):
        await go.wait()
        heard.out.write(reply(b"%d" % len(await heard.reader.readexactly(_MUCH))))

    shop.answer = late
    await town.shop(shop)
    caller = await town.caller()

    async def upload():
        nonlocal sent
        caller.out.write(request("/", "POST", SHOP, f"Content-Length: {_MUCH}"))
        for _ in range(_MUCH // 65_536):
            caller.out.write(b"x" * 65_536)
            await caller.out.drain()
            sent += 65_536

    uploading = asyncio.create_task(upload())
    await standstill(lambda: sent)
    assert 0 < sent < _BOUND
    go.set()
    assert (await caller.said()).body == b"%d" % _MUCH
    await uploading


async def test_a_client_that_reads_no_answers_is_not_read_either(town):
    caller = await town.caller()
    sent = 0

    async def flood():
        nonlocal sent
        while True:
            caller.out.write(request(host="nobody.localhost") * 500)
            await caller.out.drain()
            sent += 1

    flooding = asyncio.create_task(flood())
    await standstill(lambda: sent)
    flooding.cancel()
    await asyncio.gather(flooding, return_exceptions=True)
    assert sent * 500 * len(request(host="nobody.localhost")) < _BOUND


async def test_head_and_body_leave_without_waiting_for_more(town):
    """Nagle's algorithm would add 40 ms to a small answer after a small answer."""
    await town.shop(await town.instance())
    caller = await town.caller()
    await caller.ask(request())
    (client,) = town.router._shared.connections.members
    upstream = town.router._shared.peers[next(iter(town.router._shared.peers))].idle[0]
    for transport in (client.transport, upstream.transport):
        assert transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def standstill(measure):
    """Returns when a number has stopped to grow."""
    last = -1
    while measure() != last or last <= 0:
        last = measure()
        await asyncio.sleep(0.1)


def upgrade(protocol):
    return request("/", "GET", SHOP, "Connection: keep-alive, Upgrade", f"Upgrade: {protocol}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
