"""The memory that the gateway holds for slow clients and slow instances is limited in total."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from tests.free_ports import free_port
from tests.gateway.routers.test_organization_shares import UPGRADE, answer_nothing
from tests.gateway.routers.town import SHOP, Caller, Heard, Town, make_town, request, route, until
from windlass.base.http_in.bounds import Bounds
from windlass.base.http_in.connections import ConnectionTable
from windlass.routers.builtin.client_socket import GatewaySocket
from windlass.routers.builtin.memory_shares import MAX_LARGE_HEADS_BYTES, MAX_WAITING_BYTES
from windlass.routers.builtin.pipes import Pipe
from windlass.routers.builtin.requests import _known_tokens, check_headers
from windlass.routers.builtin.retries import MAX_KEPT_BYTES
from windlass.routers.builtin.route_rules import client_address
from windlass.routers.router import Absence, Endpoint, Listen

CLIENTS = 20
LIMIT = 512 * 1024
LARGE = request("/", "GET", SHOP, *(f"X-{number}: {'v' * 1000}" for number in range(40)))
OTHER = "other.localhost"


async def switch_and_flood(heard: Heard) -> None:
    heard.out.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
    while True:
        heard.out.write(b"x" * 65_536)
        await heard.out.drain()


WAYS = {
    "unread websockets": (switch_and_flood, request("/", "GET", SHOP, *UPGRADE)),
    "requests behind a hanging one": (answer_nothing, request() + b"x" * 200_000),
}


@contextlib.asynccontextmanager
async def town_with_slow_clients(way: str) -> AsyncIterator[Town]:
    answer, sent = WAYS[way]
    async with make_town(unsent_bytes=LIMIT) as town:
        await town.shop(await town.instance(answer=answer))
        for _ in range(CLIENTS):
            made = socket.socket()
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            made.setblocking(False)
            await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", town.router.port))
            caller = Caller(*await asyncio.open_connection(sock=made, limit=4096))
            town._stack.push_async_callback(caller.close)
            caller.out.write(sent)
        yield town


@pytest.mark.parametrize("way", WAYS)
async def test_clients_that_take_most_memory_for_longest_are_closed(way: str) -> None:
    async with town_with_slow_clients(way) as town:
        table = town.router._shared.connections
        await until(lambda: len(table.members) < CLIENTS)
        await until(lambda: table._unsent_bytes <= LIMIT)
        assert table.members


@pytest.mark.parametrize("way", WAYS)
async def test_without_the_count_all_of_them_stay(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the test above would show nothing."""
    monkeypatch.setattr(Pipe, "note_buffers", lambda self: None)
    monkeypatch.setattr(GatewaySocket, "_note_buffers", lambda self: None)
    async with town_with_slow_clients(way) as town:
        await until(lambda: town.active() == CLIENTS)
        await asyncio.sleep(0.3)
        assert len(town.router._shared.connections.members) == CLIENTS


async def test_large_heads_of_unanswered_requests_are_limited_in_total(town: Town) -> None:
    heads = town.router._shared.large_heads
    heads._left = 5 * len(LARGE)
    hanging = await town.instance(answer=answer_nothing)
    await town.shop(hanging, org="shops")
    callers = [await town.caller() for _ in range(3)]
    for number, caller in enumerate(callers):
        await caller.send(LARGE)
        await until_active(town, number + 1)
    assert (await town.ask(LARGE)).status == 503
    assert (await town.ask(request(host="nobody.localhost"))).status == 404
    other = await town.instance()
    await town.router.set("other", [route([other.endpoint], "other", (OTHER,), org="others")])
    large = LARGE.replace(SHOP.encode(), OTHER.encode())
    assert (await town.ask(large)).status == 200
    for caller in callers:
        await caller.close()
    await until(lambda: heads._left > 4.9 * len(LARGE))
    await town.shop(other, org="shops")
    assert (await town.ask(LARGE)).status == 200


async def until_active(town: Town, requests: int) -> None:
    await until(lambda: town.active() == requests)


async def test_a_large_head_is_forgotten_after_its_answer(town: Town) -> None:
    await town.shop(await town.instance())
    caller = await town.caller()
    for _ in range(3):
        assert (await caller.ask(LARGE)).status == 200
        (member,) = town.router._shared.connections.members
        assert len(cast(Any, member)._fields.raw) < 100
    assert town.router._shared.large_heads._left == MAX_LARGE_HEADS_BYTES
    assert (await caller.ask(request())).status == 200
    assert len(cast(Any, member)._fields.raw) > 10, "small ones are kept"


BODY = b"x" * 40_000
"""It comes together with its head, in one piece."""


def client_of(town: Town) -> Any:
    (client,) = town.router._shared.connections.members
    return client


async def test_a_request_that_cannot_be_repeated_is_forgotten_once_it_is_sent(town: Town) -> None:
    hanging = await town.instance(answer=answer_nothing)
    await town.shop(hanging)
    caller = await town.caller()
    await caller.send(request("/", "POST", body=BODY))
    await until(lambda: hanging.heard)
    assert client_of(town)._sent == b""


async def test_large_requests_that_can_be_repeated_are_kept_only_while_there_is_room(town: Town) -> None:
    kept = town.router._shared.kept_requests
    hanging = await town.instance(answer=answer_nothing)
    await town.shop(hanging)
    for room, is_kept in ((MAX_KEPT_BYTES, True), (30_000, False)):
        kept._left = room
        hanging.heard.clear()
        caller = await town.caller()
        await caller.send(request("/", "PUT", body=BODY))
        await until(lambda: hanging.heard)
        size = len(client_of(town)._sent)
        assert size > len(BODY) if is_kept else size == 0
        assert kept._left == room - size
        await caller.close()
        await until(lambda: town.active() == 0)
        assert kept._left == room


async def test_large_requests_to_a_sleeping_service_are_held_only_while_there_is_room(town: Town) -> None:
    """One organization leaves half of the room to others."""
    shared = town.router._shared
    town.router.wake_with(lambda service: True)
    shared.waiting_requests._left = 5 * len(BODY)
    await town.shop(absence=Absence.SLEEPING)
    callers = [await town.caller() for _ in range(2)]
    for number, caller in enumerate(callers):
        await caller.send(request("/", "POST", body=BODY))
        await until_active(town, number + 1)
    assert (await town.ask(request("/", "POST", body=BODY))).status == 503
    small = await town.caller()
    await small.send(request())
    await until_active(town, 3)
    await town.shop(await town.instance())
    for caller in (small, *callers):
        assert (await caller.said()).status == 200
    assert shared.waiting_requests._left == 5 * len(BODY)
    assert not shared.held._numbers


async def test_large_requests_that_wait_for_a_connection_are_limited_in_total(
    town: Town, deaf: Endpoint
) -> None:
    waiting = town.router._shared.waiting_requests
    await town.router.set("shop", [route([deaf])])
    caller = await town.caller()
    await caller.send(request("/", "POST", body=BODY))
    await until_active(town, 1)
    assert waiting._left < MAX_WAITING_BYTES - len(BODY)
    waiting._left = len(BODY)
    assert (await town.ask(request("/", "POST", body=BODY))).status == 503
    await until_active(town, 1)


async def test_data_for_a_sleeping_tcp_service_is_held_only_while_there_is_room(town: Town) -> None:
    waiting = town.router._shared.waiting_requests
    waiting._left = room = 3 * len(BODY)
    town.router.wake_with(lambda service: True)
    port = free_port()
    await town.router.reserve("shop", [Listen(port, local=True)])
    tcp: dict[str, Any] = {"hosts": (), "kind": "tcp", "external": port}
    await town.router.set("shop", [route(absence=Absence.SLEEPING, **tcp)])
    first, second = await town.caller(port), await town.caller(port)
    await first.send(BODY)
    await until(lambda: waiting._left == room - len(BODY))
    await second.send(BODY + BODY)
    assert await second.rest() == b""
    shop = await town.instance()
    await town.router.set("shop", [route([shop.endpoint], **tcp)])
    await until(lambda: waiting._left == room)
    await first.close()
    await until(lambda: town.active() == 0)
    assert waiting._left == room


def test_long_lists_of_tokens_are_not_remembered() -> None:
    """Each of 64 KiB takes a megabyte."""

    def read(name: bytes, tokens: bytes) -> None:
        check_headers(b"\r\nHost: shop\r\n%b: %b\r\n\r\n" % (name, tokens), False, b"1.2.3.4", Bounds())

    _known_tokens.cache_clear()
    for name in (b"TE", b"Connection"):
        read(name, b"trailers")
        read(name, b",".join(b"%x" % number for number in range(9000)))
    assert _known_tokens.cache_info().currsize == 1


def test_long_addresses_that_a_proxy_names_are_not_looked_up() -> None:
    """What is looked up is remembered."""
    asked: list[str] = []

    def trusts(address: str) -> bool:
        asked.append(address)
        return True

    fields = b"\r\nX-Forwarded-For: 1.1.1.1, %b, 2.2.2.2" % (b"x" * 1000)
    assert client_address(fields, "10.0.0.1", trusts) == "x" * 1000
    assert asked == ["10.0.0.1", "2.2.2.2"]


async def test_buffers_of_a_connection_that_was_just_closed_are_not_counted() -> None:
    """They would count for ever."""

    class Closed:
        network = "127.0.0.1"

    table = ConnectionTable("gateway", Bounds(unsent_bytes=10))
    table.unsent(cast(Any, Closed()), 100)
    assert not table._unsent_bytes
