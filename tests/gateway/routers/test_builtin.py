"""A request reaches the service of its host and path, with the headers that describe its client."""

from __future__ import annotations

import asyncio

import pytest

from tests.free_ports import free_port
from tests.gateway.routers.town import SHOP, make_town, reply, request, route, until
from windlass.routers.router import Listen


async def test_a_request_reaches_the_service_of_its_host_name(town):
    shop, blog = await town.instance("shop"), await town.instance("blog")
    await town.shop(shop)
    await town.router.set("blog", [route([blog.endpoint], "blog", ["blog.localhost"])])
    assert (await town.ask(request(host="SHOP.localhost:8081"))).body == b"shop"
    assert (await town.ask(request(host="blog.localhost."))).body == b"blog"


async def test_each_request_of_a_kept_alive_connection_is_routed_by_its_own_host_header(town):
    shop, blog = await town.instance("shop"), await town.instance("blog")
    await town.shop(shop)
    await town.router.set("blog", [route([blog.endpoint], "blog", ["blog.localhost"])])
    caller = await town.caller()
    hosts = [SHOP, "blog.localhost", SHOP, "nobody.localhost", "blog.localhost"]
    said = [(await caller.ask(request(host=host))).body[:4] for host in hosts]
    assert said == [b"shop", b"blog", b"shop", b"No s", b"blog"]


async def test_the_longest_matching_path_prefix_of_a_host_wins(town):
    names = {"/": "all", "/api": "api", "/api/v2/": "v2"}
    instances = {path: await town.instance(name) for path, name in names.items()}
    await town.router.set("shop", [route([each.endpoint], path=path) for path, each in instances.items()])
    caller = await town.caller()
    asked = ["/", "/api", "/api/x", "/api?x=/api/v2", "/apix", "/api/v2", "/api/v2/x", "/api/v2x"]
    said = [(await caller.ask(request(target))).body.decode() for target in asked]
    assert said == ["all", "api", "api", "api", "all", "v2", "v2", "api"]


@pytest.mark.parametrize(
    ("path", "rewrite", "asked", "heard"),
    [
        ("/api", None, "/api/x?y=/api", "/api/x?y=/api"),
        ("/api", "/", "/api/x?y=/api", "/x?y=/api"),
        ("/api", "/", "/api", "/"),
        ("/api", "/", "/api?y", "/?y"),
        ("/api", "/v2/", "/api/x", "/v2/x"),
        ("/", "/in/side", "/x", "/in/side/x"),
    ],
)
async def test_a_path_is_rewritten_as_its_route_says(town, path, rewrite, asked, heard):
    shop = await town.instance()
    await town.shop(shop, path=path, rewrite=rewrite)
    await town.ask(request(asked))
    assert [each.target for each in shop.heard] == [heard]


async def test_a_wildcard_host_matches_exactly_one_further_label(town):
    wild, exact = await town.instance("wild"), await town.instance("exact")
    await town.router.set("wild", [route([wild.endpoint], "wild", ["*.shop.example"])])
    await town.router.set("exact", [route([exact.endpoint], "exact", ["a.shop.example"])])
    caller = await town.caller()
    hosts = ["a.shop.example", "b.shop.example", "shop.example", "a.b.shop.example"]
    found = [await caller.ask(request(host=host)) for host in hosts]
    assert [each.status for each in found] == [200, 200, 404, 404]
    assert [each.body for each in found[:2]] == [b"exact", b"wild"]


async def test_a_host_name_belongs_to_its_first_service_until_released(town):
    first, second = await town.instance("first"), await town.instance("second")
    await town.router.set("first", [route([first.endpoint], "first")])
    await town.router.set("second", [route([second.endpoint], "second")])
    caller = await town.caller()
    assert (await caller.ask(request())).body == b"first"
    await town.router.forget("first")
    assert (await caller.ask(request())).body == b"second"


async def test_a_route_change_applies_to_the_next_request_of_an_open_connection(town):
    old, new = await town.instance("old"), await town.instance("new")
    await town.shop(old)
    caller = await town.caller()
    assert (await caller.ask(request())).body == b"old"
    await town.shop(new)
    assert (await caller.ask(request())).body == b"new"
    await town.shop()
    assert (await caller.ask(request())).status == 503


async def test_a_request_in_progress_completes_at_its_instance_after_a_route_change(town):
    go = asyncio.Event()

    async def slowly(heard):
        await go.wait()
        heard.out.write(reply(b"old"))

    old, new = await town.instance(answer=slowly), await town.instance("new")
    await town.shop(old)
    caller = await town.caller()
    await caller.send(request())
    await until(lambda: old.heard)
    await town.shop(new)
    go.set()
    assert (await caller.said()).body == b"old"


async def test_an_http_route_with_an_external_port_is_reached_under_any_name(town):
    shop = await town.instance("shop")
    port = free_port()
    await town.router.reserve("shop", [Listen(port)])
    await town.shop(shop, external=port)
    caller = await town.caller(port)
    assert (await caller.ask(request(host="what.ever"))).body == b"shop"
    assert (await caller.ask(b"GET / HTTP/1.0\r\n\r\n")).body == b"shop"


async def test_forwarding_headers_of_a_client_are_replaced(town):
    shop = await town.instance()
    await town.shop(shop)
    lies = [
        "X-Forwarded-For: 9.9.9.9",
        "X-Forwarded-Proto: https",
        "x_forwarded_for: 9.9.9.9",
        "Forwarded: for=9",
    ]
    lies += ["X-Real-IP: 9.9.9.9", "X-Forwarded-Host: evil", "X-Forwarded-Anything: evil", "X-Kept: yes"]
    await town.ask(request("/", "GET", f"{SHOP}:8081", *lies))
    fields = shop.heard[0].fields
    assert fields.pop("x-request-id")
    assert fields == {
        "host": f"{SHOP}:8081",
        "x-kept": "yes",
        "x-forwarded-for": "127.0.0.1",
        "x-forwarded-proto": "http",
        "x-forwarded-host": f"{SHOP}:8081",
        "forwarded": f'for=127.0.0.1;host="{SHOP}:8081";proto=http',
    }


@pytest.mark.parametrize(
    ("sent", "client", "scheme"),
    [
        (["X-Forwarded-For: 192.0.2.7", "X-Forwarded-Proto: https"], "192.0.2.7", "https"),
        (
            ["X-Forwarded-For: 9.9.9.9, 192.0.2.7, 10.0.0.9", "X-Forwarded-Proto: http, HTTPS"],
            "192.0.2.7",
            "https",
        ),
        (["X-Forwarded-For: 2001:DB8::7"], "2001:db8::7", "http"),
        (["X-Forwarded-For: 9.9.9.9, unknown, 10.0.0.9"], "10.0.0.9", "http"),
        (['X-Forwarded-For: fe80::1%x]";proto=https, 10.0.0.9'], "10.0.0.9", "http"),
        (["X-Forwarded-For: evil;x=1", "X-Forwarded-Proto: ftp"], "127.0.0.1", "http"),
        (["x_forwarded_for: 9.9.9.9", "x_forwarded_proto: https"], "127.0.0.1", "http"),
        ([], "127.0.0.1", "http"),
    ],
)
async def test_an_instance_learns_address_and_scheme_of_a_client_behind_a_trusted_proxy(sent, client, scheme):
    async with make_town(trusts=lambda address: address in ("127.0.0.1", "10.0.0.9")) as town:
        shop = await town.instance()
        await town.shop(shop)
        await town.ask(request("/", "GET", SHOP, *sent))
        fields = shop.heard[0].fields
    node = f'"[{client}]"' if ":" in client else client
    assert (fields["x-forwarded-for"], fields["x-forwarded-proto"]) == (client, scheme)
    assert fields["forwarded"] == f'for={node};host="{SHOP}";proto={scheme}'


async def test_a_valid_request_id_is_forwarded_and_otherwise_one_is_generated(town):
    shop = await town.instance()
    await town.shop(shop)
    caller = await town.caller()
    for fields in (["X-Request-Id: abc-1"], [], [], ["X-Request-Id: a b"]):
        await caller.ask(request("/", "GET", SHOP, *fields))
    ids = [each.fields["x-request-id"] for each in shop.heard]
    assert ids[0] == "abc-1"
    assert len(set(ids)) == 4
    assert "a b" not in ids


async def test_hop_by_hop_headers_are_not_forwarded(town):
    async def answer(heard):
        heard.out.write(
            reply(b"x", "200 OK", "Connection: keep-alive, X-Mine", "Keep-Alive: timeout=5", "X-Mine: 1")
        )

    shop = await town.instance(answer=answer)
    await town.shop(shop)
    fields = ["Connection: X-Secret, keep-alive", "X-Secret: 1", "Keep-Alive: 5", "TE: gzip", "Upgrade: x"]
    said = await town.ask(request("/", "GET", SHOP, *fields))
    assert said.fields == {"content-length": "1"}
    assert not shop.heard[0].fields.keys() & {"connection", "x-secret", "keep-alive", "te", "upgrade"}
