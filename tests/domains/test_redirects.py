"""Domains whose visitors are redirected to another domain of the service."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.contract import is_refused
from tests.domains.served import SHOP, add, hosts, prove, published
from tests.fakes.name_server import NameServer
from tests.world import World
from windlass.store import ROUTE_PREFIX

WWW = "www.example.com"


async def moves(world: World, app: str) -> dict[str, str]:
    """The host names that the gateway redirects, each with the one to which."""
    await hosts(world, app)
    return {
        host: route.moves_to for route in world.router.routes[app] for host in route.hosts if route.moves_to
    }


async def two_domains(world: World, **fields: Any) -> tuple[str, Any, Any]:
    """An application with a domain, and one that redirects there."""
    app = await published(world)
    shop = await add(world, app)
    return app, shop, await add(world, app, WWW, redirect_to="Shop.example.com", **fields)


async def test_visitors_are_redirected_once_both_domains_are_proved(world: World, dns: NameServer):
    app, shop, www = await two_domains(world)
    await prove(world, dns, www)
    assert await moves(world, app) == {}, "nobody may be sent to a name that is not served"
    assert WWW in await hosts(world, app)
    check = f"/application/{app}/customDomain/{www['id']}/check"
    finding = {
        "good": False,
        "message": f"Prove {SHOP} first: until then, the service answers here instead of redirecting.",
    }
    assert finding in (await world.get(check))["findings"]
    await prove(world, dns, shop)
    assert await moves(world, app) == {WWW: SHOP}
    finding = {"good": True, "message": f"Its visitors are redirected to {SHOP}."}
    assert finding in (await world.get(check))["findings"]


async def test_a_change_of_the_redirect_reaches_the_gateway_by_itself(world: World, dns: NameServer):
    app, shop, www = await two_domains(world)
    await prove(world, dns, www)
    await prove(world, dns, shop)
    routes = world.installation.routes
    world.installation.ctx.store.listen(
        lambda topic: routes.note([topic.removeprefix(ROUTE_PREFIX)]), ROUTE_PREFIX.rstrip(":")
    )
    at = f"/application/{app}/customDomain/{www['id']}"
    for target, expected in (("", {}), (SHOP, {WWW: SHOP})):
        body = {"domain": WWW, "generate_certificate": False, "redirect_to": target}
        assert (await world.call("PUT", at, body))["redirect_to"] == target
        await world.settle()
        await routes.catch_up(10)
        found = {
            host: route.moves_to
            for route in world.router.routes[app]
            for host in route.hosts
            if route.moves_to
        }
        assert found == expected


async def test_a_deleted_target_ends_the_redirect_and_other_changes_stay_possible(
    world: World, dns: NameServer
):
    app, shop, www = await two_domains(world)
    await prove(world, dns, www)
    await prove(world, dns, shop)
    assert (await world.delete(f"/application/{app}/customDomain/{shop['id']}")).status == 204
    assert await moves(world, app) == {}
    assert WWW in await hosts(world, app)
    at = f"/application/{app}/customDomain/{www['id']}"
    assert (await world.call("PATCH", at, {"use_cdn": True})).status == 200
    is_refused(await world.call("PATCH", at, {"redirect_to": "other.example.com"}), 409)


async def test_the_first_link_is_no_redirected_domain(world: World, dns: NameServer):
    app, shop, www = await two_domains(world)
    a = await add(world, app, "a.example.com", redirect_to=SHOP)
    for each in (a, www, shop):
        await prove(world, dns, each)
    links = (await world.get(f"/application/{app}/link"))["results"]
    assert [link["url"].partition("//")[2].partition(":")[0] for link in links][:3] == [
        SHOP,
        "a.example.com",
        WWW,
    ]


async def test_a_redirect_has_one_step(world: World):
    app, _, www = await two_domains(world)
    for domain, target, says in (
        ("a.example.com", WWW, f"choose {SHOP}"),
        ("a.example.com", "nowhere.example.com", "add nowhere.example.com to this service first"),
    ):
        body = {"domain": domain, "generate_certificate": False, "redirect_to": target}
        refused = await world.post(f"/application/{app}/customDomain", body)
        is_refused(refused, 409)
        assert f"redirect_to: {says}" in refused.message
    other = await world.application(name="other")
    body = {"domain": "a.example.com", "generate_certificate": False, "redirect_to": SHOP}
    is_refused(await world.post(f"/application/{other}/customDomain", body), 409)
    shop = (await world.get(f"/application/{app}/customDomain"))["results"][0]
    await add(world, app, "b.example.com")
    at = f"/application/{app}/customDomain/{shop['id']}"
    refused = await world.call("PATCH", at, {"redirect_to": "b.example.com"})
    is_refused(refused, 409)
    assert f"change that of {WWW} first" in refused.message
    assert www["redirect_to"] == "Shop.example.com", "it is answered as it was written"


@pytest.mark.parametrize(
    "target", [WWW, "WWW.Example.com", "*.example.com", "https://shop.example.com", "1.2.3.4"]
)
async def test_a_redirect_to_itself_or_to_no_name_is_refused(world: World, target: str):
    app = await published(world)
    body = {"domain": WWW, "generate_certificate": False, "redirect_to": target}
    answer = await world.post(f"/application/{app}/customDomain", body)
    is_refused(answer, 400)
    assert "redirect_to" in answer.message
