"""Proxies tell the addresses of their clients by the PROXY protocol."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.gateway.routers.proxy_headers import TEXT, binary, caller_behind
from tests.gateway.routers.secure_town import hello_of, https_port, make_secure_town, raw_caller, said_to
from tests.gateway.routers.town import SHOP, Caller, Said, Town, request, until
from windlass.base.http_in.connections import trust_check
from windlass.routers.builtin import Bounds
from windlass.routers.router import Listen
from windlass.routers.rules import RouteRules

CLIENT = "203.0.113.7"


@contextlib.asynccontextmanager
async def town_behind(*proxies: str, **options: Any) -> AsyncIterator[Town]:
    async with make_secure_town(**options) as town:
        town.router.await_headers(trust_check(proxies))
        yield town


async def ask_behind(town: Town, header: bytes, data: bytes, *, secure: bool) -> Said:
    async with caller_behind(port_of(town, secure), header, secure=secure) as caller:
        return await caller.ask(data)


def port_of(town: Town, secure: bool) -> int:
    return https_port(town) if secure else town.router.port


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("header", [TEXT, binary(CLIENT), binary(CLIENT, more=b"\x20" + bytes(300))])
async def test_services_see_the_address_that_the_proxy_tells(header: bytes, secure: bool) -> None:
    async with town_behind("127.0.0.1") as town:
        shop = await town.instance()
        await town.shop(shop, redirect=False)
        for number in range(2):
            assert (await ask_behind(town, header, request(f"/{number}"), secure=secure)).status == 200
        fields = shop.heard[1].fields
        assert (fields["x-forwarded-for"], fields["x-forwarded-proto"]) == (
            CLIENT,
            "https" if secure else "http",
        )


@pytest.mark.parametrize("secure", [False, True])
async def test_denied_networks_mean_the_client_and_not_its_proxy(secure: bool) -> None:
    async with town_behind("127.0.0.1") as town:
        denied = RouteRules(denied=("203.0.113.0/24",))
        await town.shop(await town.instance(), rules=denied, redirect=False)
        for client, status in ((CLIENT, 403), ("198.51.100.1", 200)):
            said = await ask_behind(town, binary(client), request(), secure=secure)
            assert said.status == status


@pytest.mark.parametrize("secure", [False, True])
async def test_the_limit_of_an_address_counts_clients_and_not_their_proxy(secure: bool) -> None:
    async with town_behind("127.0.0.1", limits=Bounds(connections=4)) as town:
        await town.shop(await town.instance(), redirect=False)
        async with contextlib.AsyncExitStack() as stack:
            callers = []
            for client in (CLIENT, CLIENT, CLIENT, "198.51.100.1"):
                opening = caller_behind(port_of(town, secure), binary(client), secure=secure)
                callers.append(await stack.enter_async_context(opening))
                assert (await callers[-1].ask(request())).status == 200
            served = [await is_served(caller) for caller in callers]
            assert sum(served) == 3, "the third of one client took the place of another one"
            assert served[2:] == [True, True]


async def is_served(caller: Caller) -> bool:
    try:
        return (await caller.ask(request())).status == 200
    except (ConnectionError, asyncio.IncompleteReadError):
        return False


@pytest.mark.parametrize("header", [binary(command=0x20, family=0), b"PROXY UNKNOWN\r\n"])
@pytest.mark.parametrize("secure", [False, True])
async def test_a_proxy_that_asks_for_itself_has_its_own_address(header: bytes, secure: bool) -> None:
    async with town_behind("127.0.0.1") as town:
        shop = await town.instance()
        await town.shop(shop, redirect=False)
        assert (await ask_behind(town, header, request(), secure=secure)).status == 200
        assert shop.heard[0].fields["x-forwarded-for"] == "127.0.0.1"


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\nHost: shop.localhost\r\n\r\n", binary(command=0x22)])
async def test_a_connection_without_a_valid_header_is_closed_unanswered(data: bytes) -> None:
    async with town_behind("127.0.0.1") as town:
        shop = await town.instance()
        await town.shop(shop)
        for port in (town.router.port, https_port(town)):
            assert await said_to(port, data) == b""
        assert await said_to(https_port(town), hello_of(SHOP)) == b""
        assert not shop.heard
        await until(lambda: not town.router.connections)


async def test_a_header_from_another_address_is_no_valid_request() -> None:
    async with town_behind("192.0.2.99") as town:
        shop = await town.instance()
        await town.shop(shop)
        for header in (TEXT, binary(CLIENT)):
            assert not (await said_to(town.router.port, header + request())).startswith(b"HTTP/1.1 2")
            assert not (await said_to(https_port(town), header + hello_of(SHOP))).startswith(b"\x16")
        assert not shop.heard
        assert (await town.ask(request())).status == 308, "without a header, it is served"


@pytest.mark.parametrize("header", [TEXT, binary(CLIENT)])
async def test_a_header_that_arrives_in_pieces_is_read(header: bytes) -> None:
    async with town_behind("127.0.0.1") as town:
        shop = await town.instance()
        await town.shop(shop)
        async with raw_caller(town.router.port) as caller:
            for piece in (
                header[:3],
                header[3:14],
                header[14:-1],
                header[-1:] + request()[:9],
                request()[9:],
            ):
                await caller.send(piece)
                await asyncio.sleep(0.01)
            assert (await caller.said()).status == 308
        async with raw_caller(https_port(town)) as caller:
            hello = hello_of(SHOP)
            for piece in (header[:3], header[3:14], header[14:-1], header[-1:] + hello[:9], hello[9:]):
                await caller.send(piece)
                await asyncio.sleep(0.01)
            assert (await caller.reader.readexactly(1)) == b"\x16"


async def test_a_proxy_that_sends_no_header_is_closed_in_time() -> None:
    async with town_behind("127.0.0.1", limits=Bounds(head_seconds=0.05, handshake_seconds=0.05)) as town:
        for port in (town.router.port, https_port(town)):
            assert await said_to(port, TEXT[:20]) == b""


async def test_a_port_of_a_service_takes_no_header() -> None:
    async with town_behind("127.0.0.1") as town:
        port = https_port(town) + 1
        shop = await town.instance()
        await town.router.reserve("shop", [Listen(port)])
        await town.shop(shop, external=port)
        async with raw_caller(port) as caller:
            assert (await caller.ask(request())).status == 200
