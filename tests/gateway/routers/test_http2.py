"""HTTP/2: requests, answers, bodies in both directions, and the end of connections."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.gateway.routers.http2_caller import (
    DATA,
    END_STREAM,
    GOAWAY,
    HEADERS,
    INTERNAL_ERROR,
    NO_ERROR,
    PROTOCOL_ERROR,
    Http2Caller,
    caller_of,
    frame,
    head_of,
    http2_caller,
    make_http2_town,
)
from tests.gateway.routers.issuing import issuing_authority
from tests.gateway.routers.secure_town import (
    NO_APPLICATION_PROTOCOL,
    alert,
    hello_of,
    https_port,
    make_secure_town,
    said_to,
)
from tests.gateway.routers.sites import made
from tests.gateway.routers.town import SHOP, Heard, Town, reply, until
from windlass.routers.router import Absence
from windlass.routers.rules import RouteRules


@pytest.fixture
async def town() -> AsyncIterator[Town]:
    async with make_http2_town() as made_town:
        yield made_town


@pytest.fixture
async def caller(town: Town) -> AsyncIterator[Http2Caller]:
    async with caller_of(town) as opened:
        yield opened


async def test_a_request_by_http2_reaches_the_service(town: Town, caller: Http2Caller) -> None:
    shop = await town.instance()
    await town.shop(shop)
    for number in range(3):
        said = await caller.ask(2 * number + 1, head_of(f"/{number}", "GET", SHOP, ("x-mine", "yes")))
        assert (said.status, said.body, said.reset) == (200, b"one", None)
    assert [heard.target for heard in shop.heard] == ["/0", "/1", "/2"]
    fields = shop.heard[2].fields
    assert (fields["host"], fields["x-mine"]) == (SHOP, "yes")
    assert (fields["x-forwarded-proto"], fields["x-forwarded-for"]) == ("https", "127.0.0.1")
    assert town.router.traffic()["shop"].requests == 3
    assert len(shop.raw) == 1, "the connection to the instance is kept"


async def test_streams_are_answered_as_their_instances_answer(town: Town, caller: Http2Caller) -> None:
    held = asyncio.Event()

    async def answer(heard: Heard) -> None:
        if heard.target == "/slow":
            await held.wait()
        heard.out.write(reply(heard.target.encode()))

    await town.shop(await town.instance(answer=answer))
    await caller.send(caller.head(1, head_of("/slow")) + caller.head(3, head_of("/fast")))
    assert (await caller.said(3)).body == b"/fast"
    assert not caller.is_done(1)
    held.set()
    assert (await caller.said(1)).body == b"/slow"


async def test_http2_is_not_offered_unless_it_is_switched_on() -> None:
    async with make_secure_town() as town:
        await town.shop(await town.instance())
        refused = await said_to(https_port(town), hello_of(SHOP, ("h2",)))
        assert refused == alert(NO_APPLICATION_PROTOCOL)
        context = issuing_authority().client(("h2", "http/1.1"))
        for is_on, chosen in ((False, "http/1.1"), (True, "h2"), (False, "http/1.1")):
            town.router.offer_http2(is_on)
            _, out = await asyncio.open_connection(
                "127.0.0.1", https_port(town), ssl=context, server_hostname=SHOP
            )
            assert out.get_extra_info("ssl_object").selected_alpn_protocol() == chosen
            out.transport.abort()


async def test_clients_of_http1_are_served_beside_those_of_http2(town: Town) -> None:
    await town.shop(await town.instance())
    context = issuing_authority().client(("http/1.1",))
    reader, out = await asyncio.open_connection(
        "127.0.0.1", https_port(town), ssl=context, server_hostname=SHOP
    )
    out.write(f"GET / HTTP/1.1\r\nHost: {SHOP}\r\nConnection: close\r\n\r\n".encode())
    assert (await reader.read()).endswith(b"one")
    out.transport.abort()


# Bodies of requests


async def test_a_body_arrives_with_its_length_or_in_chunks(town: Town, caller: Http2Caller) -> None:
    shop = await town.instance()
    await town.shop(shop)
    large = bytes(range(256)) * 4000
    length = ("content-length", str(len(large)))
    assert (await caller.ask(1, head_of("/", "POST", SHOP, length), large)).status == 200
    assert (await caller.ask(3, head_of("/", "POST"), large)).status == 200
    assert (await caller.ask(5, head_of("/", "POST"), b"small")).status == 200
    assert [heard.body for heard in shop.heard] == [large, large, b"small"]
    assert shop.heard[0].fields["content-length"] == str(len(large))
    assert shop.heard[1].fields["transfer-encoding"] == "chunked"
    assert shop.heard[2].fields["content-length"] == "5", "whole bodies need no chunks"


async def test_an_empty_last_frame_ends_a_body(town: Town, caller: Http2Caller) -> None:
    shop = await town.instance()
    await town.shop(shop)
    await caller.send(caller.head(1, head_of("/", "POST"), ends=False) + frame(DATA, 0, 1, b"a"))
    await until(lambda: shop.raw and b"\r\na\r\n" in shop.raw[0])
    await caller.send(frame(DATA, 0, 1, b"b"))
    await caller.send(frame(DATA, END_STREAM, 1))
    assert (await caller.said(1)).status == 200
    assert shop.heard[0].body == b"ab"


async def test_a_client_may_send_no_more_of_a_body_than_the_instance_takes(
    town: Town, caller: Http2Caller
) -> None:
    released = asyncio.Event()

    async def wait_and_read(heard: Heard) -> None:
        heard.reader._limit = 1  # type: ignore[attr-defined]
        await released.wait()
        await heard.reader.readexactly(8_000_000)
        heard.out.write(reply(b"all"))

    await town.shop(await town.instance(answer=wait_and_read, reads_bodies=False))
    length = ("content-length", "8000000")
    await caller.send(caller.head(1, head_of("/", "POST", SHOP, length), ends=False))
    rest, before = b"x" * 8_000_000, b""
    while len(rest) != len(before):
        before, rest = rest, await caller.send_body(1, rest)
        await asyncio.sleep(0.1)
    assert rest, "kernels and windows together take less"
    assert sum(town.router._shared.connections._unsent.values()) < 500_000
    released.set()
    while rest:
        rest = await caller.send_body(1, rest)
        await asyncio.sleep(0.002)
    assert (await caller.said(1)).body == b"all"


async def test_an_answer_before_the_end_of_the_body_stops_the_client(town: Town, caller: Http2Caller) -> None:
    async def answer_early(heard: Heard) -> None:
        heard.out.write(reply(b"enough", "200 OK"))

    await town.shop(await town.instance(answer=answer_early, reads_bodies=False))
    await caller.send(caller.head(1, head_of("/", "POST"), ends=False) + frame(DATA, 0, 1, b"x"))
    said = await caller.said(1)
    assert (said.status, said.body) == (200, b"enough")
    await caller.until(lambda: caller.so_far(1).reset is not None)
    assert caller.so_far(1).reset == NO_ERROR
    await caller.send(frame(DATA, 0, 1, b"on its way"))
    assert (await caller.ask(3)).status == 200


# Answers


async def test_a_client_that_takes_nothing_holds_back_the_instance(town: Town) -> None:
    written = 0

    async def pour(heard: Heard) -> None:
        nonlocal written
        heard.out.write(b"HTTP/1.1 200 OK\r\nContent-Length: 20000000\r\n\r\n")
        for _ in range(200):
            heard.out.write(b"x" * 100_000)
            await heard.out.drain()
            written += 100_000

    await town.shop(await town.instance(answer=pour))
    async with caller_of(town, takes=False) as caller:
        await caller.send(caller.head(1, head_of()))
        await caller.until(lambda: len(caller.so_far(1).body) == 65_535)
        before = -1
        while written != before:
            before = written
            await asyncio.sleep(0.1)
        assert written < 20_000_000, "kernels and the router together hold less"
        assert sum(town.router._shared.connections._unsent.values()) < 1_000_000
        await caller.grant(0, 20_000_000)
        await caller.grant(1, 20_000_000)
        assert len((await caller.said(1)).body) == 20_000_000


async def test_large_answers_share_a_connection(town: Town, caller: Http2Caller) -> None:
    async def much(heard: Heard) -> None:
        heard.out.write(reply(heard.target.encode()[-1:] * 1_000_000))

    await town.shop(await town.instance(answer=much))
    await caller.send(b"".join(caller.head(stream, head_of(f"/{stream}")) for stream in (1, 3, 5)))
    for stream in (1, 3, 5):
        assert (await caller.said(stream)).body == str(stream).encode() * 1_000_000


async def test_answers_without_a_body_end_with_their_head(town: Town, caller: Http2Caller) -> None:
    async def answer(heard: Heard) -> None:
        status = heard.target[1:]
        heard.out.write(f'HTTP/1.1 {status} X\r\nETag: "a"\r\n\r\n'.encode())

    await town.shop(await town.instance(answer=answer))
    for stream, status in ((1, 204), (3, 304)):
        said = await caller.ask(stream, head_of(f"/{status}"))
        assert (said.status, said.body, said.reset) == (status, b"", None)
        assert said.fields["etag"] == '"a"'


async def test_the_answer_to_head_has_the_length_of_the_body(town: Town, caller: Http2Caller) -> None:
    async def answer(heard: Heard) -> None:
        heard.out.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n")

    await town.shop(await town.instance(answer=answer))
    said = await caller.ask(1, head_of("/", "HEAD"))
    assert (said.status, said.fields["content-length"], said.body) == (200, "5000", b"")


async def test_chunks_until_close_and_trailers_become_frames(town: Town, caller: Http2Caller) -> None:
    async def answer(heard: Heard) -> None:
        if heard.target == "/chunks":
            heard.out.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nKeep-Alive: 5\r\n\r\n")
            heard.out.write(b"3\r\nabc\r\n2\r\nde\r\n0\r\nGrpc-Status: 0\r\n\r\n")
        else:
            heard.out.write(b"HTTP/1.1 200 OK\r\n\r\nuntil close")
            heard.out.close()

    await town.shop(await town.instance(answer=answer))
    said = await caller.ask(1, head_of("/chunks", "GET", SHOP, ("te", "trailers")))
    assert (said.body, said.trailers, said.reset) == (b"abcde", {"grpc-status": "0"}, None)
    assert not {"transfer-encoding", "keep-alive", "connection"} & said.fields.keys()
    said = await caller.ask(3, head_of("/close"))
    assert (said.body, said.reset) == (b"until close", None)
    assert (await caller.ask(5, head_of("/chunks"))).body == b"abcde", "only the instance has closed"


async def test_events_arrive_as_they_are_written(town: Town, caller: Http2Caller) -> None:
    more = asyncio.Event()

    async def stream_events(heard: Heard) -> None:
        heard.out.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
        await more.wait()
        heard.out.write(b"6\r\nsecond\r\n0\r\n\r\n")

    await town.shop(await town.instance(answer=stream_events))
    await caller.send(caller.head(1, head_of()))
    await caller.until(lambda: caller.so_far(1).body == b"first")
    more.set()
    assert (await caller.said(1)).body == b"firstsecond"


@pytest.mark.parametrize("head", [b"Content-Length: 100", b"Transfer-Encoding: chunked"])
async def test_an_incomplete_answer_resets_its_stream(town: Town, caller: Http2Caller, head: bytes) -> None:
    async def break_off(heard: Heard) -> None:
        heard.out.write(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n" + b"2\r\nab\r\n")
        await heard.out.drain()
        heard.out.close()

    await town.shop(await town.instance(answer=break_off))
    said = await caller.ask(1)
    assert (said.status, said.reset) == (200, INTERNAL_ERROR)
    assert said.body in {b"ab", b"2\r\nab\r\n"}, "all that came is passed on"


async def test_an_instance_may_ask_for_the_body(town: Town, caller: Http2Caller) -> None:
    async def continue_first(heard: Heard) -> None:
        heard.out.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        assert await heard.reader.readexactly(4) == b"body"
        heard.out.write(reply(b"got it"))

    await town.shop(await town.instance(answer=continue_first, reads_bodies=False))
    fields = (("expect", "100-continue"), ("content-length", "4"))
    await caller.send(caller.head(1, head_of("/", "POST", SHOP, *fields), ends=False))
    await caller.until(lambda: caller.statuses(1))
    await caller.send(frame(DATA, END_STREAM, 1, b"body"))
    assert (await caller.said(1)).body == b"got it"
    assert caller.statuses(1) == ["100", "200"]


# What routes do


async def test_the_rules_of_a_route_hold_on_http2(town: Town, caller: Http2Caller) -> None:
    async def text(heard: Heard) -> None:
        heard.out.write(reply(b"text " * 1000, "200 OK", "Content-Type: text/plain"))

    rules = RouteRules(headers=(("X-Added", "by a rule"),), body_bytes=10, sticky="secret", compresses=True)
    await town.shop(await town.instance(answer=text), rules=rules)
    said = await caller.ask(1, head_of("/", "GET", SHOP, ("accept-encoding", "gzip")))
    assert said.fields["x-added"] == "by a rule"
    assert (said.fields["content-encoding"], len(said.body) < 1000) == ("gzip", True)
    assert "Secure" in said.fields["set-cookie"]
    assert (await caller.ask(3, head_of("/", "POST"), b"x" * 11)).status == 413
    length = ("content-length", "11")
    await caller.send(caller.head(5, head_of("/", "POST", SHOP, length), ends=False))
    assert (await caller.said(5)).status == 413


async def test_networks_and_rates_hold_on_http2(town: Town, caller: Http2Caller) -> None:
    shop = await town.instance()
    await town.shop(shop, rules=RouteRules(denied=("127.0.0.0/8",)))
    assert (await caller.ask(1)).status == 403
    await town.shop(shop)
    assert (await caller.ask(3)).status == 200


async def test_pages_of_the_router_are_answered_on_http2(town: Town, caller: Http2Caller) -> None:
    assert (await caller.ask(1)).status == 404
    await town.shop()
    said = await caller.ask(3, head_of("/", "GET", SHOP, ("accept", "text/html")))
    assert (said.status, b"<!doctype html>" in said.body) == (503, True)
    assert "connection" not in said.fields
    said = await caller.ask(5, head_of("/", "GET", "other.localhost"))
    assert said.status == 421, "the certificate of the connection is not valid for it"
    await town.shop(await town.instance())
    assert (await caller.ask(7)).status == 200


async def test_streams_wait_for_a_sleeping_service(town: Town, caller: Http2Caller) -> None:
    town.router.wake_with(lambda service: True)
    await town.shop(absence=Absence.SLEEPING)
    await caller.send(b"".join(caller.head(stream, head_of()) for stream in (1, 3, 5)))
    await until(lambda: town.active() == 3)
    await caller.reset(1)
    await until(lambda: town.active() == 2)
    await town.shop(await town.instance())
    for stream in (3, 5):
        assert (await caller.said(stream)).body == b"one"


async def test_a_static_site_is_served_on_http2(town: Town, caller: Http2Caller, tmp_path: Path) -> None:
    folder, _ = made(tmp_path, {"index.html": b"<h1>home</h1>", "large.bin": b"z" * 3_000_000})
    await town.shop(site=str(folder))
    assert (await caller.ask(1)).body == b"<h1>home</h1>"
    assert (await caller.ask(3)).body == b"<h1>home</h1>", "now from memory"
    assert (await caller.ask(5, head_of("/large.bin"))).body == b"z" * 3_000_000


async def test_the_access_log_says_the_protocol(tmp_path: Path) -> None:
    async with make_http2_town() as town:
        await town.router.log_to(str(tmp_path / "log"))
        await town.shop(await town.instance())
        async with caller_of(town) as caller:
            await caller.ask(1, head_of("/cart?secret=1"))
        await town.router.log_to("")
        (line,) = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
        assert (line["protocol"], line["path"], line["status"]) == ("HTTP/2.0", "/cart", 200)
        assert line["port"] == https_port(town)


# The end


async def test_a_reset_stream_ends_the_request_at_its_instance(town: Town, caller: Http2Caller) -> None:
    async def never(heard: Heard) -> None:
        await heard.reader.read()
        raise ConnectionError

    shop = await town.instance(answer=never)
    await town.shop(shop)
    await caller.send(caller.head(1, head_of()))
    await until(lambda: shop.heard)
    await caller.reset(1)
    await until(lambda: not shop.open)
    assert town.active() == 0


async def test_a_lost_connection_ends_all_of_its_requests(town: Town) -> None:
    async def never(heard: Heard) -> None:
        await heard.reader.read()
        raise ConnectionError

    shop = await town.instance(answer=never)
    await town.shop(shop)
    async with caller_of(town) as caller:
        await caller.send(b"".join(caller.head(stream, head_of()) for stream in (1, 3, 5)))
        await until(lambda: len(shop.heard) == 3)
        assert town.router.connections == 4
    await until(lambda: not shop.open)
    await until(lambda: town.router.connections == 0)
    assert town.active() == 0


async def test_a_client_that_says_goodbye_gets_the_answers_that_it_waits_for(
    town: Town, caller: Http2Caller
) -> None:
    held = asyncio.Event()

    async def answer(heard: Heard) -> None:
        await held.wait()
        heard.out.write(reply(b"late"))

    shop = await town.instance(answer=answer)
    await town.shop(shop)
    await caller.send(caller.head(1, head_of()) + frame(GOAWAY, content=bytes(8)))
    await until(lambda: shop.heard)
    held.set()
    assert (await caller.said(1)).body == b"late"
    await caller.end()


async def test_a_leaving_router_answers_what_is_on_its_way_and_closes(town: Town) -> None:
    """In a handover, clients are told to connect again, to the successor."""
    held = asyncio.Event()

    async def answer(heard: Heard) -> None:
        if heard.target == "/held":
            await held.wait()
        heard.out.write(reply(b"answered"))

    await town.shop(await town.instance(answer=answer))
    async with caller_of(town) as caller, caller_of(town) as idle:
        assert (await idle.ask(1)).status == 200
        await caller.send(caller.head(1, head_of("/held")))
        await until(lambda: town.active() == 1)
        town.router.leave(lambda *_: None)
        await caller.until(lambda: caller.goaways)
        assert caller.goaways[0] == (2**31 - 1, NO_ERROR)
        assert (await caller.ask(3)).body == b"answered", "it may not know yet"
        assert await idle.end() == NO_ERROR
        await caller.until(lambda: len(caller.goaways) == 2)
        assert caller.goaways[1] == (3, NO_ERROR)
        await caller.send(caller.head(5, head_of()))
        held.set()
        assert (await caller.said(1)).body == b"answered"
        await caller.end()
        assert not caller.is_done(5), "it is not answered, so the client sends it again"


async def test_a_retired_router_lets_requests_end(town: Town) -> None:
    held = asyncio.Event()

    async def answer(heard: Heard) -> None:
        await held.wait()
        heard.out.write(reply(b"answered"))

    await town.shop(await town.instance(answer=answer))
    async with caller_of(town) as caller:
        await caller.send(caller.head(1, head_of()))
        await until(lambda: town.active() == 1)
        retiring = asyncio.ensure_future(town.router.retire(5))
        await caller.until(lambda: caller.goaways)
        held.set()
        assert (await caller.said(1)).body == b"answered"
        await retiring
        await caller.end()


async def test_logins_are_asked_for_on_http2(town: Town, caller: Http2Caller) -> None:
    await town.shop(await town.instance(), rules=RouteRules(needs_login=True))
    said = await caller.ask(1)
    assert (said.status, said.fields["www-authenticate"].startswith("Basic")) == (401, True)


async def test_an_idle_connection_is_closed(town: Town) -> None:
    del town
    async with make_http2_town(idle_seconds=0.3, head_seconds=5) as quick:
        await quick.shop(await quick.instance())
        async with caller_of(quick) as caller:
            assert (await caller.ask(1)).status == 200
            assert await caller.end() == NO_ERROR


@pytest.mark.parametrize("sent", ["nothing", "a part of a frame", "a part of a block"])
async def test_a_connection_that_does_not_complete_its_request_is_closed(sent: str) -> None:
    async with (
        make_http2_town(head_seconds=0.3, idle_seconds=60) as quick,
        caller_of(quick, begins=sent != "nothing") as caller,
    ):
        whole = caller.head(1, head_of())
        if sent == "a part of a frame":
            await caller.send(whole[:12])
        elif sent == "a part of a block":
            await caller.send(frame(HEADERS, 0, 1, whole[9:]))
        assert await caller.end() in {NO_ERROR, PROTOCOL_ERROR}


async def test_a_client_that_takes_nothing_of_an_answer_is_given_up() -> None:
    """Also of one that is small: the router would have to keep it."""
    async with make_http2_town(stall_seconds=0.3) as quick:

        async def answer(heard: Heard) -> None:
            heard.out.write(reply(b"x" * int(heard.target[1:])))

        await quick.shop(await quick.instance(answer=answer))
        async with caller_of(quick, settings={4: 0}) as caller:
            for stream, size in ((1, 10), (3, 5_000_000)):
                said = await caller.ask(stream, head_of(f"/{size}"))
                assert (said.status, said.body, said.reset) == (200, b"", INTERNAL_ERROR)
            assert (await caller.ask(5, head_of("/0"))).status == 200


async def test_streams_count_as_connections() -> None:
    async with make_http2_town(connections=8) as small:

        async def never(heard: Heard) -> None:
            await heard.reader.read()
            raise ConnectionError

        await small.shop(await small.instance(answer=never))
        async with http2_caller(https_port(small)) as caller:
            await caller.send(b"".join(caller.head(stream, head_of()) for stream in range(1, 21, 2)))
            said = await caller.said(19)
            assert said.status == 503 or said.reset is not None
            assert small.router.connections <= 8
