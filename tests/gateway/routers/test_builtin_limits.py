"""Slow, large and numerous requests are bounded, and nothing piles up."""

from __future__ import annotations

import asyncio
import socket

import pytest

from tests.gateway.routers.exchanges import BOUND, MUCH, standstill
from tests.gateway.routers.town import SHOP, make_town, reply, request, until


@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\nHost: shop"])
async def test_an_incomplete_request_head_times_out(begun):
    async with make_town(head_seconds=0.05) as town:
        caller = await town.caller()
        await caller.send(begun)
        assert (await caller.rest()).startswith(b"HTTP/1.1 408 " if begun else b"")


async def test_a_request_head_that_arrives_byte_by_byte_times_out():
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


async def test_a_request_body_that_stalls_is_answered_with_408_and_the_connection_closed():
    async with make_town(stall_seconds=0.05) as town:
        shop = await town.instance()
        await town.shop(shop)
        caller = await town.caller()
        said = await caller.ask(request("/", "POST", SHOP, "Content-Length: 10") + b"x")
        assert said.status == 408
        await until(lambda: not shop.open and town.active() == 0)


async def test_a_connection_over_the_limit_gets_503_while_all_others_are_busy():
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


async def test_completed_and_active_requests_are_counted_per_service(town):
    await town.shop(await town.instance())
    caller = await town.caller()
    for _ in range(3):
        await caller.ask(request())
    traffic = town.router.traffic()["shop"]
    assert (traffic.requests, traffic.active) == (3, 0)


async def test_an_answer_waits_for_a_slow_reader_and_arrives_whole(town):
    written = 0

    async def much(heard):
        nonlocal written
        heard.out.write(f"HTTP/1.1 200 OK\r\nContent-Length: {MUCH}\r\n\r\n".encode())
        for _ in range(MUCH // 65_536):
            heard.out.write(b"x" * 65_536)
            await heard.out.drain()
            written += 65_536

    await town.shop(await town.instance(answer=much))
    caller = await town.caller()
    await caller.send(request())
    await standstill(lambda: written)
    assert 0 < written < BOUND
    assert len((await caller.said()).body) == MUCH


async def test_a_body_waits_for_a_slow_instance_and_arrives_whole(town):
    go = asyncio.Event()
    sent = 0
    shop = await town.instance(reads_bodies=False)

    async def late(heard):
        await go.wait()
        heard.out.write(reply(b"%d" % len(await heard.reader.readexactly(MUCH))))

    shop.answer = late
    await town.shop(shop)
    caller = await town.caller()

    async def upload():
        nonlocal sent
        caller.out.write(request("/", "POST", SHOP, f"Content-Length: {MUCH}"))
        for _ in range(MUCH // 65_536):
            caller.out.write(b"x" * 65_536)
            await caller.out.drain()
            sent += 65_536

    uploading = asyncio.create_task(upload())
    await standstill(lambda: sent)
    assert 0 < sent < BOUND
    go.set()
    assert (await caller.said()).body == b"%d" % MUCH
    await uploading


async def test_the_router_stops_reading_from_a_client_that_does_not_read_its_answers(town):
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
    assert sent * 500 * len(request(host="nobody.localhost")) < BOUND


async def test_tcp_nodelay_is_set_on_client_and_instance_connections(town):
    """Nagle's algorithm would add 40 ms to a small answer after a small answer."""
    await town.shop(await town.instance())
    caller = await town.caller()
    await caller.ask(request())
    (client,) = town.router._shared.connections.members
    upstream = town.router._shared.peers[next(iter(town.router._shared.peers))].idle[0]
    for transport in (client.transport, upstream.transport):
        assert transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
