"""Rules of a route decide about requests before an instance gets them, and add headers to answers."""

from __future__ import annotations

import asyncio
import base64
import gc
import hashlib
import tracemalloc

import pytest

from tests.gateway.routers.town import (
    Heard,
    Instance,
    Town,
    make_town,
    notice_leaving_clients,
    reply,
    request,
    until,
)
from windlass.routers.builtin.client import ClientConnection
from windlass.routers.rules import Login, RouteCors, RouteRules, digest_of

ADA = Login("ada", "salt", digest_of("salt", b"engine"))
SHA = Login("bob", "", base64.b64encode(hashlib.sha1(b"clerk", usedforsecurity=False).digest()).decode())
CORS = RouteCors(("https://shop.example",), "GET, POST", "Content-Type")


async def shop(town: Town, instance: Instance | None = None, **rules: object) -> Instance:
    instance = instance or await town.instance()
    await town.shop(instance, rules=RouteRules(**rules))  # type: ignore[arg-type]
    return instance


def signed(user: str, password: str) -> str:
    return "Authorization: Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


async def get(
    town: Town, *fields: str, method: str = "GET", **more: bytes
) -> tuple[int, dict[str, str], bytes]:
    return await town.ask(request("/", method, "shop.localhost", *fields, **more))


@pytest.mark.parametrize(
    ("rules", "status"),
    [
        ({"allowed": ("127.0.0.0/8",)}, 200),
        ({"allowed": ("10.0.0.0/8", "2001:db8::/32")}, 403),
        ({"denied": ("127.0.0.1/32",)}, 403),
        ({"denied": ("10.0.0.0/8",)}, 200),
        ({"allowed": ("127.0.0.0/8",), "denied": ("127.0.0.1/32",)}, 403),
    ],
)
async def test_only_clients_of_allowed_networks_reach_a_service(town: Town, rules, status) -> None:
    instance = await shop(town, **rules)
    assert (await get(town))[0] == status
    assert len(instance.heard) == (status == 200)


@pytest.mark.parametrize(
    ("forwarded", "status"),
    [("10.1.2.3", 200), ("192.0.2.7", 403), ("10.1.2.3, 192.0.2.7", 403), ("nonsense", 403)],
)
async def test_behind_a_trusted_proxy_the_address_of_its_client_counts(forwarded: str, status: int) -> None:
    async with make_town(trusts=lambda address: address == "127.0.0.1") as town:
        await shop(town, allowed=("10.0.0.0/8",))
        assert (await get(town, f"X-Forwarded-For: {forwarded}"))[0] == status


async def test_a_client_cannot_forge_its_address(town: Town) -> None:
    await shop(town, allowed=("10.0.0.0/8",))
    assert (await get(town, "X-Forwarded-For: 10.1.2.3"))[0] == 403


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ([], 401),
        ([signed("ada", "engine")], 200),
        ([signed("bob", "clerk")], 200),
        ([signed("ada", "clerk")], 401),
        ([signed("eve", "engine")], 401),
        (["Authorization: Basic ?"], 401),
        (["Authorization: Bearer engine"], 401),
    ],
)
async def test_a_request_needs_the_name_and_password_of_a_login(town: Town, fields, status) -> None:
    await shop(town, needs_login=True, logins=(ADA, SHA))
    answer = await get(town, *fields)
    assert answer[0] == status
    assert answer[1].get("www-authenticate", "").startswith("Basic") is (status == 401)


@pytest.mark.parametrize(("size", "status"), [(700, 200), (1024, 401)])
async def test_a_header_above_1_kib_is_no_login(town: Town, size: int, status: int) -> None:
    password = "x" * (size - len("eve:"))
    await shop(town, needs_login=True, logins=(Login("eve", "salt", digest_of("salt", password.encode())),))
    assert (await get(town, signed("eve", password)))[0] == status


async def test_the_gateway_remembers_no_headers_of_strangers(town: Town) -> None:
    await shop(town, needs_login=True, logins=(ADA,))
    await get(town)
    gc.collect()
    tracemalloc.start()
    try:
        for n in range(50):
            assert (await get(town, signed("eve", f"{n}" + "x" * 10_000)))[0] == 401
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 400_000
    finally:
        tracemalloc.stop()


async def test_an_overlong_address_in_x_forwarded_for_is_refused() -> None:
    async with make_town(trusts=lambda address: address == "127.0.0.1") as town:
        await shop(town, denied=("10.0.0.0/8",))
        assert (await get(town, "X-Forwarded-For: fe80::1%1"))[0] == 200
        assert (await get(town, "X-Forwarded-For: fe80::1%" + "1" * 1000))[0] == 403


async def test_without_any_login_nobody_gets_in(town: Town) -> None:
    await shop(town, needs_login=True)
    assert (await get(town, signed("", "")))[0] == 401


@pytest.mark.parametrize(("size", "status"), [(100, 200), (101, 413)])
async def test_a_larger_body_than_allowed_is_refused(town: Town, size: int, status: int) -> None:
    instance = await shop(town, body_bytes=100)
    assert (await get(town, method="POST", body=b"x" * size))[0] == status
    assert len(instance.heard) == (status == 200)


@pytest.mark.parametrize(("pieces", "status"), [(1, 200), (40, 413)])
async def test_a_chunked_body_is_refused_where_it_becomes_too_large(town: Town, pieces, status) -> None:
    await shop(town, body_bytes=2000)
    caller = await town.caller()
    await caller.send(request("/", "POST", "shop.localhost", "Transfer-Encoding: chunked"))
    for _ in range(pieces):
        await caller.send(b"64\r\n" + b"x" * 100 + b"\r\n")
        await asyncio.sleep(0.001)
    await caller.send(b"0\r\n\r\n")
    assert (await caller.said()).status == status


async def test_an_instance_that_does_not_begin_its_answer_in_time_is_given_up(town: Town) -> None:
    async def wait(heard: Heard) -> None:
        if heard.target == "/slow":
            await asyncio.sleep(30)
        heard.out.write(reply(b"quick"))

    await shop(town, await town.instance("slow", wait), answer_seconds=1)
    caller = await town.caller()
    assert (await caller.ask(request("/slow"))).status == 504
    assert (await caller.ask(request("/"))).body == b"quick"
    await asyncio.sleep(1.2)
    assert (await caller.ask(request("/"))).status == 200


async def test_no_time_limit_keeps_a_client_that_has_hung_up(town: Town) -> None:
    notice_leaving_clients(town)

    async def wait(heard: Heard) -> None:
        await asyncio.sleep(30)

    instance = await shop(town, await town.instance("slow", wait), answer_seconds=86_400)
    shared = town.router._shared
    caller = await town.caller()
    await caller.send(request("/"))
    await until(lambda: instance.heard)
    await caller.close()
    await until(lambda: not shared.connections.members)
    await asyncio.sleep(0)
    gc.collect()
    clients = (each for each in gc.get_objects() if isinstance(each, ClientConnection))
    assert not [each for each in clients if each._shared is shared]


async def test_headers_of_a_route_are_on_every_answer_in_place_of_those_of_the_instance(town: Town) -> None:
    async def say(heard: Heard) -> None:
        heard.out.write(reply(b"hello", "200 OK", "X-Frame-Options: SAMEORIGIN", "X-Own: yes"))

    await shop(town, await town.instance("one", say), headers=(("X-Frame-Options", "DENY"),), body_bytes=1)
    caller = await town.caller()
    for _ in range(3):
        status, fields, body = await caller.ask(request("/"))
        assert (status, fields["x-frame-options"], fields["x-own"], body) == (200, "DENY", "yes", b"hello")
    refused = await caller.ask(request("/", "POST", "shop.localhost", body=b"12"))
    assert (refused.status, refused.fields["x-frame-options"]) == (413, "DENY")


async def test_bodies_of_several_pieces_behind_an_interim_answer_stay_whole(town: Town) -> None:
    async def say(heard: Heard) -> None:
        heard.out.write(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
        heard.out.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(3):
            await heard.out.drain()
            await asyncio.sleep(0.01)
            heard.out.write(b"3\r\nabc\r\n")
        heard.out.write(b"0\r\n\r\n")

    await shop(town, await town.instance("one", say), headers=(("X-A", "1"),))
    caller = await town.caller()
    said = await caller.ask(request("/"))
    assert (said.status, said.fields["x-a"], said.body) == (200, "1", b"abcabcabc")


async def test_a_switched_protocol_goes_on_without_rules(town: Town) -> None:
    async def switch(heard: Heard) -> None:
        heard.out.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
        heard.out.write(await heard.reader.readexactly(4))

    await shop(town, await town.instance("one", switch), headers=(("X-A", "1"),), answer_seconds=1)
    caller = await town.caller()
    await caller.send(request("/", "GET", "shop.localhost", "Connection: Upgrade", "Upgrade: echo"))
    assert (await caller.said()).status == 101
    await asyncio.sleep(1.1)
    await caller.send(b"ping")
    assert await caller.reader.readexactly(4) == b"ping"


@pytest.mark.parametrize(
    ("origin", "allowed"), [("https://shop.example", "https://shop.example"), ("https://evil.example", None)]
)
async def test_other_sites_are_answered_as_cors_says(town: Town, origin: str, allowed: str | None) -> None:
    instance = await shop(town, cors=CORS, needs_login=True, logins=(ADA,))
    asked = await get(town, f"Origin: {origin}", "Access-Control-Request-Method: POST", method="OPTIONS")
    assert (asked[0], asked[1].get("access-control-allow-origin")) == (204, allowed)
    assert asked[1].get("access-control-allow-methods") == ("GET, POST" if allowed else None)
    assert instance.heard == []
    said = await get(town, f"Origin: {origin}", signed("ada", "engine"))
    assert (said[0], said[1].get("access-control-allow-origin")) == (200, allowed)


async def test_a_route_without_rules_is_not_special(town: Town) -> None:
    await town.shop(await town.instance())
    found = town.router._table.host(b"shop.localhost")
    assert found is not None
    assert found.only is not None
    assert not found.only.is_special
