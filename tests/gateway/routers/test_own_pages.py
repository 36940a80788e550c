"""A service may have error and maintenance pages of its own, which browsers see."""

from __future__ import annotations

import pytest

from tests.gateway.routers.exchanges import EMPTY_PORT
from tests.gateway.routers.town import SHOP, Heard, Said, Town, make_town, reply, request, route
from windlass.routers.rules import RouteMaintenance, RouteRules

HTML = "Accept: text/html,*/*"
PAGE = RouteRules(error_page="<h1>Sorry {status}</h1>{title}: {message}")


async def ask(town: Town, *fields: str, method: str = "GET") -> Said:
    return await town.ask(request("/", method, SHOP, *(fields or [HTML])))


async def test_browsers_get_the_error_page_of_the_service(town: Town) -> None:
    await town.router.set("shop", [route([EMPTY_PORT], title="<Shop>", rules=PAGE)])
    said = await ask(town)
    assert (said.status, said.fields["content-type"]) == (503, "text/html; charset=utf-8")
    assert said.body.startswith(b"<h1>Sorry 503</h1>&lt;Shop&gt; does not answer: It runs, but")
    assert "retry-after" in said.fields
    assert "content-security-policy" not in said.fields


async def test_a_page_grows_by_a_limited_number_of_placeholders(town: Town) -> None:
    rules = RouteRules(error_page="{title}" * 2000)
    await town.router.set("shop", [route([EMPTY_PORT], title="{message}" * 20, rules=rules)])
    said = await ask(town)
    assert said.body.startswith(b"{message}" * 20)  # a title is a text, and not a part of the page
    assert said.body.endswith(b"{title}")
    assert len(said.body) < 40_000


@pytest.mark.parametrize("accept", ["Accept: application/json", "Accept: */*"])
async def test_programs_get_the_answer_of_the_gateway(town: Town, accept: str) -> None:
    await town.router.set("shop", [route([EMPTY_PORT], rules=PAGE)])
    assert b"Sorry" not in (await ask(town, accept)).body


async def test_errors_of_the_service_itself_and_of_the_request_stay_as_they_are(town: Town) -> None:
    async def fail(heard: Heard) -> None:
        heard.out.write(reply(b"own words", "500 Internal Server Error"))

    rules = RouteRules(error_page="Sorry", body_bytes=1)
    await town.shop(await town.instance(answer=fail), rules=rules)
    assert (await ask(town)).body == b"own words"
    refused = await town.ask(request("/", "POST", SHOP, HTML, body=b"12"))
    assert (refused.status, b"Sorry" in refused.body) == (413, False)


@pytest.mark.parametrize("page", ["", "<h1>Back at noon</h1>"])
async def test_during_maintenance_no_request_reaches_the_service(town: Town, page: str) -> None:
    instance = await town.instance()
    await town.shop(instance, rules=RouteRules(maintenance=RouteMaintenance(page)))
    said = await ask(town)
    assert (said.status, said.fields["retry-after"], instance.heard) == (503, "60", [])
    assert (page or "under maintenance").encode() in said.body
    await town.shop(instance)
    assert (await ask(town)).status == 200


async def test_chosen_networks_reach_the_service_during_maintenance() -> None:
    async with make_town(trusts=lambda address: address == "127.0.0.1") as town:
        rules = RouteRules(maintenance=RouteMaintenance(let_in=("10.0.0.0/8",)))
        await town.shop(await town.instance(), rules=rules)
        found = [
            (await ask(town, f"X-Forwarded-For: {address}")).status
            for address in ("10.1.2.3", "192.0.2.1", "nonsense", "1" * 1000)
        ]
        assert found == [200, 503, 503, 503]
