"""Connections to instances become tunnels, are used again, and are missing where no service runs."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.gateway.routers.exchanges import EMPTY_PORT, upgrade
from tests.gateway.routers.town import SHOP, make_town, reply, request, route, until
from windlass.routers.router import Absence, Endpoint, ServedElsewhere


async def test_a_websocket_upgrade_becomes_a_bidirectional_byte_tunnel(town):
    async def tunnel(heard):
        heard.out.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello"
        )
        heard.out.write(b"GET / HTTP/1.1\r\n\r\n")

    shop = await town.instance(answer=tunnel)
    await town.shop(shop)
    caller = await town.caller()
    said = await caller.ask(upgrade("websocket"))
    assert (said.status, said.fields) == (101, {"connection": "Upgrade", "upgrade": "websocket"})
    assert await caller.reader.readexactly(23) == b"helloGET / HTTP/1.1\r\n\r\n"
    assert shop.heard[0].fields["upgrade"] == "websocket"
    await caller.send(b"POST /inside HTTP/1.1\r\n\r\n")
    await until(lambda: len(shop.heard) == 2)
    assert shop.heard[1].target == "/inside"
    assert town.active() == 1
    await caller.close()
    await until(lambda: town.active() == 0)


async def test_no_connection_is_tunnelled_to_an_instance_over_http2(town):
    shop = await town.instance()
    await town.shop(shop)
    assert (await town.ask(upgrade("h2c, websocket"))).status == 200
    assert "upgrade" not in shop.heard[0].fields


async def test_a_refused_upgrade_is_an_ordinary_answer(town):
    shop = await town.instance("no")
    await town.shop(shop)
    caller = await town.caller()
    await caller.send(upgrade("websocket") + request("/next"))
    assert [(await caller.said()).body for _ in range(2)] == [b"no", b"no"]
    assert [each.target for each in shop.heard] == ["/", "/next"]


async def test_connections_to_instances_are_reused(town):
    shop = await town.instance()
    await town.shop(shop)
    for _ in range(10):
        assert (await town.ask(request(method="POST", body=b"x"))).status == 200
    assert len(shop.raw) == 1


async def test_an_idle_connection_to_an_instance_is_closed_after_a_while():
    async with make_town(pooled_seconds=0.05) as town:
        shop = await town.instance()
        await town.shop(shop)
        await town.ask(request())
        assert shop.open == 1
        await until(lambda: not shop.open)


async def test_an_idempotent_request_is_retried_if_the_idle_connection_was_closed(town):
    async def once(heard):
        if len(shop.heard) % 2 == 0:
            heard.out.transport.abort()  # as a server that just then had enough of waiting
        else:
            heard.out.write(reply(b"well"))

    shop = await town.instance(answer=once)
    await town.shop(shop)
    caller = await town.caller()
    for method in ("GET", "GET", "PUT", "DELETE", "OPTIONS"):
        assert (await caller.ask(request(method=method, body=b"x"))).body == b"well"
    assert len(shop.heard) == 9


async def test_a_request_with_possible_effects_is_not_retried(town):
    async def never(heard):
        heard.out.transport.abort()

    shop = await town.instance(answer=never)
    await town.shop(shop)
    assert (await town.ask(request(method="POST", body=b"pay"))).status == 502
    assert len(shop.heard) == 1
    assert (await town.ask(request())).status == 502
    assert len(shop.heard) == 3


async def test_an_endpoint_that_refuses_connections_is_skipped(town):
    shop = await town.instance("there")
    await town.router.set("shop", [route([EMPTY_PORT, shop.endpoint])])
    for _ in range(6):
        assert (await town.ask(request(method="POST", body=b"x"))).body == b"there"


async def test_an_endpoint_that_refused_connections_is_tried_again_after_a_pause():
    async with make_town(pause_seconds=0.05) as town:
        first, second = await town.instance("first"), await town.instance("second")
        port = second.port
        await second.stop()
        await town.router.set("shop", [route([first.endpoint, Endpoint("127.0.0.1", port)])])
        assert {(await town.ask(request())).body for _ in range(4)} == {b"first"}
        await second.start(port)
        found = b"first"
        while found != b"second":
            found = (await town.ask(request())).body


async def test_requests_go_to_the_instance_with_the_fewest_requests_in_progress(town):
    async def never(heard):
        await asyncio.Event().wait()

    busy, free = await town.instance("busy"), await town.instance("free")
    await town.shop(busy, free)
    assert [(await town.ask(request())).body for _ in range(4)] == [b"busy", b"free", b"busy", b"free"]
    busy.answer = never
    caller = await town.caller()
    await caller.send(request())
    await until(lambda: len(busy.heard) == 3)
    assert [(await town.ask(request())).body for _ in range(5)] == [b"free"] * 5


async def test_the_404_page_names_the_unknown_host(town):
    said = await town.ask(request("/", "GET", "shpo.localhost", "Accept: text/html,*/*"))
    assert said.status == 404
    assert b"No service is called shpo.localhost" in said.body
    assert b"not deployed yet" in said.body
    assert said.fields["content-type"] == "text/html; charset=utf-8"


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("text/html", "text/html; charset=utf-8"),
        ("application/json", "application/json"),
        ("*/*", "text/plain"),
    ],
)
async def test_the_503_answer_of_a_stopped_service_is_html_json_or_text_as_the_client_accepts(
    town, accept, kind
):
    await town.shop(title="Tom & Jerry's <shop>")
    said = await town.ask(request("/", "GET", SHOP, f"Accept: {accept}"))
    assert said.status == 503
    assert said.fields["content-type"].startswith(kind)
    assert int(said.fields["retry-after"]) > 0
    text = said.body.decode()
    if kind == "application/json":
        assert json.loads(text)["status"] == 503
    assert ("<shop>" in text) is not kind.startswith("text/html")
    assert "is not running" in text


@pytest.mark.parametrize("absence", Absence)
async def test_the_page_of_a_service_without_instances_says_why_and_whether_to_try_again(town, absence):
    await town.shop(absence=absence)
    said = await town.ask(request())
    heading = {
        Absence.UNREADY: "Shop is not running",
        Absence.NONE_WANTED: "Shop has no instances",
        Absence.FILES_MISSING: "Shop is not ready",
        Absence.FIRST: "Shop is being deployed for the first time",
        Absence.DEPLOYING: "Shop is being deployed",
        Absence.FAILED: "Shop is not running",
        Absence.SLEEPING: "Shop is asleep",
        Absence.STOPPED: "Shop is stopped",
        Absence.UNDEPLOYED: "Shop is not deployed",
    }[absence]
    assert (said.status, said.body.decode().splitlines()[0]) == (503, heading)
    assert ("last deployment failed" in said.body.decode()) is (absence is Absence.FAILED)
    assert ("once it is scaled to 1 or more" in said.body.decode()) is (absence is Absence.NONE_WANTED)
    passes = absence in {Absence.UNREADY, Absence.FILES_MISSING, Absence.FIRST, Absence.DEPLOYING}
    assert (b"Try again in a moment" in said.body) is passes
    reloads = absence is Absence.SLEEPING
    assert (b"This page reloads by itself" in said.body) is reloads
    assert ("retry-after" in said.fields) is (passes or reloads)


@pytest.mark.parametrize("url", ["http://shop.second.example.com:8081", ""])
async def test_a_service_on_another_machine_is_answered_with_421_and_its_address(town, url):
    await town.shop(elsewhere=ServedElsewhere("second", url))
    said = await town.ask(request())
    assert (said.status, "retry-after" in said.fields) == (421, False)
    assert said.body.decode().splitlines() == [
        "Shop is not served here",
        f"It runs on the machine second: use {url or 'the gateway there'}.",
    ]


async def test_a_service_without_a_reachable_instance_is_answered_with_503_and_its_name(town):
    await town.router.set("shop", [route([EMPTY_PORT])])
    said = await town.ask(request())
    assert said.status == 503
    assert b"Shop does not answer" in said.body
    assert town.active() == 0


async def test_a_forgotten_service_is_answered_with_404(town):
    await town.shop(await town.instance())
    await town.router.forget("shop")
    await town.router.forget("shop")
    assert (await town.ask(request())).status == 404
    assert "shop" not in town.router.traffic()
