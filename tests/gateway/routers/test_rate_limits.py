"""A rate limit refuses the requests of one address, and of no other."""

from __future__ import annotations

from tests.gateway.routers.town import Town, make_town, request, route
from windlass.routers.builtin.rate_limits import MAX_ADDRESSES, RequestRates
from windlass.routers.rules import RouteRate, RouteRules

TEN = RouteRate(60, 10)
"""One in a second, and ten at once."""


async def test_requests_above_the_limit_get_429_and_do_not_reach_the_service(town: Town) -> None:
    instance = await town.instance()
    rules = RouteRules(rate=RouteRate(1, 1))
    await town.shop(instance, rules=rules)
    assert (await town.ask(request())).status == 200
    await town.router.set("shop", [route([instance.endpoint], rules=rules)])  # which does not forget it
    refused = await town.ask(request())
    assert (refused.status, len(instance.heard)) == (429, 1)
    assert 50 < int(refused.fields["retry-after"]) <= 60


async def test_without_a_limit_all_requests_are_passed_on(town: Town) -> None:
    await town.shop(await town.instance())
    assert {(await town.ask(request())).status for _ in range(3)} == {200}


async def test_behind_a_trusted_proxy_each_of_its_clients_has_the_limit() -> None:
    async with make_town(trusts=lambda address: address == "127.0.0.1") as town:
        await town.shop(await town.instance(), rules=RouteRules(rate=RouteRate(1, 1)))

        async def ask(client: str) -> int:
            field = f"X-Forwarded-For: {client}"
            return (await town.ask(request("/", "GET", "shop.localhost", field))).status

        assert [await ask(f"192.0.2.{n}") for n in (1, 2, 1)] == [200, 200, 429]


def test_the_allowance_comes_back_with_time() -> None:
    rates = RequestRates()
    assert [rates.take("192.0.2.1", TEN, 5.0) for _ in range(10)] == [0.0] * 10
    assert round(rates.take("192.0.2.1", TEN, 5.0), 6) == 1.0
    assert rates.take("192.0.2.2", TEN, 5.0) == 0.0
    assert rates.take("192.0.2.1", TEN, 6.0) == 0.0
    assert rates.take("192.0.2.1", TEN, 6.0) > 0
    assert [rates.take("192.0.2.1", TEN, 100.0) for _ in range(10)] == [0.0] * 10


def test_one_who_never_stops_gets_the_rate_and_no_more() -> None:
    rates = RequestRates()
    passed = sum(rates.take("192.0.2.1", TEN, n / 100) == 0 for n in range(6000))
    assert passed in {69, 70}


def test_addresses_of_one_network_of_ipv6_are_one_client() -> None:
    rates, once = RequestRates(), RouteRate(1, 1)
    assert rates.take("2001:db8::1", once, 0.0) == 0
    assert rates.take("2001:db8::2", once, 0.0) > 0
    assert rates.take("2001:db8:0:1::1", once, 0.0) == 0


def test_a_flood_of_addresses_is_kept_up_to_a_limit() -> None:
    rates = RequestRates()
    for number in range(MAX_ADDRESSES + 100):
        rates.take(f"forged {number} {'x' * 1000}", TEN, 0.0)
    assert len(rates) == MAX_ADDRESSES
