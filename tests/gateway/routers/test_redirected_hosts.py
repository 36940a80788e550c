"""Hosts whose requests are redirected to another host."""

from __future__ import annotations

import pytest

from tests.gateway.routers.issuing import issue
from tests.gateway.routers.secure_town import ask_securely, https_port, make_secure_town
from tests.gateway.routers.town import SHOP, Said, Town, make_town, request, route
from windlass.routers.router import Challenge

OLD = "old.localhost"


async def both(town: Town) -> None:
    """The service of `SHOP`, to which visitors of `OLD` are redirected."""
    shop = await town.instance()
    here = [shop.endpoint]
    routes = [route(here), route(here, hosts=(OLD,), moves_to=SHOP)]
    await town.router.set("shop", routes)


def location(said: Said) -> str:
    assert said.status == 308, said
    return said.fields["location"]


@pytest.mark.parametrize(("host", "port"), [(OLD, ""), (f"{OLD}:8081", ":8081"), (OLD.upper(), "")])
async def test_by_http_path_query_and_port_stay(host: str, port: str) -> None:
    async with make_town() as town:
        await both(town)
        said = await town.ask(request("/a%20b//c?d=https://e.example", "POST", host, body=b"x"))
        assert location(said) == f"//{SHOP}{port}/a%20b//c?d=https://e.example"
        assert location(await town.ask(request("*", "OPTIONS", host))) == f"//{SHOP}{port}/"
        assert (await town.ask(request())).body == b"one"


async def test_by_https_the_redirect_leads_to_https() -> None:
    async with make_secure_town() as town:
        await both(town)
        await town.router.put_certificate("old", issue(OLD))
        port = https_port(town)
        said = await ask_securely(port, request("/x?y", host=OLD), OLD)
        assert location(said) == f"https://{SHOP}:{port}/x?y"


async def test_a_visitor_by_http_is_redirected_to_https_of_the_other_host_if_it_has_a_certificate() -> None:
    async with make_secure_town() as town:
        await both(town)
        assert location(await town.ask(request("/x", host=OLD))) == f"https://{SHOP}:{https_port(town)}/x"


async def test_no_visitor_by_https_is_sent_to_a_host_without_a_certificate() -> None:
    async with make_secure_town() as town:
        await both(town)
        await town.router.put_certificate("old", issue(OLD))
        await town.router.drop_certificate("shop")
        assert (await ask_securely(https_port(town), request(host=OLD), OLD)).body == b"one"


async def test_behind_a_trusted_proxy_the_scheme_of_the_visitor_stays() -> None:
    """The proxy has the certificates, and only it knows the scheme."""
    async with make_secure_town(trusts=lambda network: network == "127.0.0.1") as town:
        await both(town)
        assert location(await town.ask(request("/x", host=OLD))) == f"//{SHOP}/x"


async def test_challenges_of_a_redirected_host_are_answered() -> None:
    async with make_town() as town:
        await both(town)
        await town.router.put_challenge("c", Challenge(OLD, "/.well-known/acme-challenge/a", b"proof"))
        for word, body in (("a", b"proof"), ("other", b"one")):
            assert (await town.ask(request(f"/.well-known/acme-challenge/{word}", host=OLD))).body == body
