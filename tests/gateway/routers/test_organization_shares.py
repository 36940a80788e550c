"""Requests that instances of one organization do not answer leave connections to visitors of others."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from tests.free_ports import free_port
from tests.gateway.routers.town import SHOP, Caller, Heard, Town, make_town, request, route, until
from windlass.base.http_in.connections import trust_check
from windlass.routers.router import Listen

OTHER, QUICK = "other.localhost", "quick.localhost"
CONNECTIONS = 32
MOST = CONNECTIONS - CONNECTIONS // 16
UPGRADE = ("Connection: Upgrade", "Upgrade: websocket")


async def answer_nothing(heard: Heard) -> None:
    await heard.reader.read()


async def switch_and_stay(heard: Heard) -> None:
    heard.out.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
    await heard.reader.read()


WAYS = {
    "requests": (answer_nothing, request(host=OTHER)),
    "websockets": (switch_and_stay, request("/", "GET", OTHER, *UPGRADE)),
}


@contextlib.asynccontextmanager
async def crowded_town(way: str, *, trusted: tuple[str, ...] = ()) -> AsyncIterator[Town]:
    """Clients of another organization have filled the gateway with requests that are not answered."""
    answer, sent = WAYS[way]
    async with make_town(connections=CONNECTIONS, trusts=trust_check(trusted)) as town:
        await town.shop(await town.instance(), org="shops")
        hanging = await town.instance("hanging", answer)
        routes = [route([hanging.endpoint], "other", (OTHER,), org="others")]
        await town.router.set("other", routes)
        await fill(town, sent, trusted or ("127.0.0.2", "127.0.0.3", "127.0.0.4"))
        yield town


async def fill(town: Town, sent: bytes, addresses: tuple[str, ...]) -> None:
    for number in range(CONNECTIONS + 8):
        caller = await caller_from(town, addresses[number % len(addresses)])
        with contextlib.suppress(ConnectionError):
            await caller.send(sent)
        await asyncio.sleep(0)
    await asyncio.sleep(0.3)


async def caller_from(town: Town, address: str) -> Caller:
    opened = asyncio.open_connection("127.0.0.1", town.router.port, local_addr=(address, 0))
    caller = Caller(*await opened)
    town._stack.push_async_callback(caller.close)
    return caller


async def statuses(town: Town, host: str = SHOP) -> list[int]:
    """The answers to several visitors."""
    return [(await town.ask(request(host=host))).status for _ in range(5)]


async def until_active(town: Town, requests: int) -> None:
    await until(lambda: town.active() == requests)


@pytest.mark.parametrize("way", WAYS)
async def test_visitors_of_other_organizations_are_served(way: str) -> None:
    async with crowded_town(way) as town:
        assert await statuses(town) == [200] * 5


async def test_visitors_are_served_if_a_trusted_proxy_has_passed_on_all_of_the_requests() -> None:
    async with crowded_town("requests", trusted=("127.0.0.2",)) as town:
        assert await statuses(town) == [200] * 5


async def status_from(town: Town, address: str, host: str) -> int:
    caller = await caller_from(town, address)
    return (await caller.ask(request(host=host))).status


async def test_the_client_with_most_requests_gets_503_and_keeps_those_in_progress() -> None:
    async with crowded_town("requests") as town:
        assert town.active("other") == MOST
        addresses = ("127.0.0.2", "127.0.0.3", "127.0.0.4")
        assert [await status_from(town, address, OTHER) for address in addresses] == [503] * 3
        assert town.active("other") == MOST


@pytest.mark.parametrize("trusted", [(), ("127.0.0.2",)], ids=["clients", "a trusted proxy"])
async def test_other_clients_of_the_same_organization_take_places_of_the_client_with_most(
    trusted: tuple[str, ...],
) -> None:
    """A trusted proxy has many clients, and keeps its requests."""
    async with crowded_town("requests", trusted=trusted) as town:
        quick = await town.instance("quick")
        await town.router.set("quick", [route([quick.endpoint], "quick", (QUICK,), org="others")])
        assert [await status_from(town, f"127.0.0.{9 + number}", QUICK) for number in range(5)] == (
            [503] * 5 if trusted else [200] * 5
        )
        assert town.active("other") == (MOST if trusted else MOST - 5)


async def test_long_requests_of_a_smaller_organization_take_places_of_the_largest() -> None:
    async with crowded_town("requests") as town:
        slow = await town.instance("slow", answer_nothing)
        await town.shop(slow, org="shops")
        for number in range(8):
            caller = await caller_from(town, f"127.0.0.{9 + number}")
            await caller.send(request())
            await until_active(town, number + 1)
        await until(lambda: town.active("other") <= MOST - 8)
        assert town.active("other") == MOST - 8


async def test_without_shares_visitors_of_others_get_503(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the tests above would show nothing."""
    shares = "windlass.routers.builtin.organization_shares.OrganizationShares.admit"
    monkeypatch.setattr(shares, lambda self, organization, network: True)
    async with crowded_town("requests") as town:
        assert 503 in await statuses(town)


async def test_connections_to_tcp_ports_count() -> None:
    async with make_town(connections=CONNECTIONS) as town:
        await town.shop(await town.instance(), org="shops")
        hanging, port = await town.instance("hanging", answer_nothing), free_port()
        await town.router.reserve("other", [Listen(port)])
        tcp = route([hanging.endpoint], "other", (), org="others", kind="tcp", external=port)
        await town.router.set("other", [tcp])
        for number in range(CONNECTIONS + 8):
            opened = asyncio.open_connection("127.0.0.1", port, local_addr=(f"127.0.0.{2 + number % 3}", 0))
            caller = Caller(*await opened)
            town._stack.push_async_callback(caller.close)
        await until(lambda: town.active("other") >= MOST)
        assert await statuses(town) == [200] * 5
