"""With sticky sessions, the requests of one browser go to one instance while there is one."""

from __future__ import annotations

import re

import pytest

from tests.gateway.routers.exchanges import EMPTY_PORT, upgrade
from tests.gateway.routers.secure_town import ask_securely, https_port, make_secure_town
from tests.gateway.routers.town import Heard, Instance, Said, Town, reply, request, route
from windlass.routers.rules import RouteRules

KEY = "a secret of the shop"
STICKY = RouteRules(sticky=KEY)


async def instances(town: Town, *names: str) -> list[Instance]:
    return [await town.instance(name) for name in names]


def cookie_of(said: Said) -> str:
    return said.fields["set-cookie"].partition(";")[0]


async def visit(town: Town, cookie: str = "", path: str = "/") -> Said:
    return await town.ask(request(path, "GET", "shop.localhost", *([f"Cookie: {cookie}"] if cookie else [])))


async def test_requests_with_the_cookie_go_to_the_same_instance(town: Town) -> None:
    await town.shop(*await instances(town, "a", "b", "c"), rules=STICKY)
    first = await visit(town)
    again = [await visit(town, f"x=1; {cookie_of(first)}; y=2") for _ in range(6)]
    assert {said.body for said in again} == {first.body}
    assert not any("set-cookie" in said.fields for said in again)


async def test_without_the_setting_requests_are_shared_among_all(town: Town) -> None:
    await town.shop(*await instances(town, "a", "b", "c"))
    answers = [await visit(town) for _ in range(6)]
    assert {said.body for said in answers} == {b"a", b"b", b"c"}
    assert not any("set-cookie" in said.fields for said in answers)


async def test_the_cookie_is_for_this_site_alone_and_names_no_address(town: Town) -> None:
    (one,) = await instances(town, "a")
    await town.shop(one, rules=STICKY, path="/api")
    line = (await visit(town, path="/api")).fields["set-cookie"]
    assert re.fullmatch(r"windlass-[0-9a-f]{10}=[0-9a-f]{32}; Path=/api; HttpOnly; SameSite=Lax", line)
    assert str(one.port) not in line
    other = route([one.endpoint], path="/api", rules=RouteRules(sticky="a secret of another service"))
    await town.router.set("shop", [other])
    assert (await visit(town, path="/api")).fields["set-cookie"] != line


async def test_a_session_moves_when_its_instance_ends(town: Town) -> None:
    a, b = await instances(town, "a", "b")
    await town.shop(a, b, rules=STICKY)
    first = await visit(town)
    left = b if first.body == b"a" else a
    await town.shop(left, rules=STICKY)
    moved = await visit(town, cookie_of(first))
    assert moved.body == left.name.encode()
    await town.shop(a, b, rules=STICKY)
    assert (await visit(town, cookie_of(moved))).body == left.name.encode()


async def test_a_session_moves_when_its_instance_takes_no_connections(town: Town) -> None:
    a, b = await instances(town, "a", "b")
    await town.shop(a, b, rules=STICKY)
    first = await visit(town)
    gone, left = (a, b) if first.body == b"a" else (b, a)
    await gone.stop()
    moved = [await visit(town, cookie_of(first)) for _ in range(3)]
    assert {said.body for said in moved} == {left.name.encode()}
    assert cookie_of(moved[0]) != cookie_of(first)


@pytest.mark.parametrize("value", ["", "0" * 32, "1", "x" * 5000])
async def test_a_made_up_cookie_chooses_no_instance(town: Town, value: str) -> None:
    await town.shop(*await instances(town, "a", "b"), rules=STICKY)
    name = cookie_of(await visit(town)).partition("=")[0]
    answers = [await visit(town, f"{name}={value}") for _ in range(4)]
    assert {said.body for said in answers} == {b"a", b"b"}
    assert all("set-cookie" in said.fields for said in answers)


async def test_cookies_of_the_service_stay_and_pages_of_the_gateway_set_none(town: Town) -> None:
    async def say(heard: Heard) -> None:
        heard.out.write(reply(b"hello", "200 OK", "Set-Cookie: own=1"))

    await town.shop(await town.instance("a", say), rules=STICKY)
    caller = await town.caller()
    await caller.send(request())
    head = await caller.reader.readuntil(b"\r\n\r\n")
    assert head.count(b"Set-Cookie: ") == 2
    await town.router.set("shop", [route([EMPTY_PORT], rules=STICKY)])
    refused = await visit(town)
    assert (refused.status, "set-cookie" in refused.fields) == (503, False)


async def test_a_websocket_belongs_to_the_session_too(town: Town) -> None:
    async def switch(heard: Heard) -> None:
        heard.out.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")

    await town.shop(await town.instance("a", switch), rules=STICKY)
    caller = await town.caller()
    said = await caller.ask(upgrade("echo"))
    assert (said.status, "set-cookie" in said.fields) == (101, True)


async def test_the_cookie_is_secure_on_https() -> None:
    async with make_secure_town() as town:
        await town.shop(await town.instance(), rules=STICKY)
        said = await ask_securely(https_port(town), request())
        assert said.fields["set-cookie"].endswith("; HttpOnly; SameSite=Lax; Secure")
