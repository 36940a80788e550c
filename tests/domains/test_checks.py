"""The diagnosis of a domain says what is right and what has to be done."""

from __future__ import annotations

import asyncio
import ssl

import pytest

from tests.domains.scene import scene
from tests.domains.served import SHOP, add, prove, published
from tests.world import NOON
from windlass.base.certificates import challenge_certificate
from windlass.base.dns import RecordType
from windlass.routers.builtin.tls_contexts import ACME_PROTOCOL, make_context
from windlass.routers.router import Certificate, Challenge


def other_certificate():
    chain, key = challenge_certificate(SHOP, b"other", NOON)
    return Certificate((SHOP,), chain.encode(), key)


async def check(world, app, id):
    answer = await world.get(f"/application/{app}/customDomain/{id}/check")
    assert answer.status == 200, answer
    return answer.json


async def verdict(world, app):
    (one,) = (await world.get(f"/application/{app}/checkCustomDomain"))["results"]
    return one["status"], one.get("error_details", "")


async def test_a_domain_without_records_says_which_to_make(world, dns):
    app = await published(world)
    document = await add(world, app)
    found = await check(world, app, document["id"])
    said = " ".join(each["message"] for each in found["findings"] if not each["good"])
    assert document["validation_domain"] in said
    assert found["proved_by"] == ""
    assert (await verdict(world, app))[0] == "DOMAIN_NOT_CONFIGURED"


async def test_a_domain_that_leads_elsewhere_says_where_to(world, dns):
    app = await published(world)
    document = await add(world, app)
    dns.set(SHOP, ("A", "192.0.2.1"))
    found = await check(world, app, document["id"])
    assert found["resolvers"][0]["addresses"] == ["192.0.2.1"]
    assert found["expected_addresses"] == ["203.0.113.10"]
    status, details = await verdict(world, app)
    assert status == "DOMAIN_LINKED_TO_WRONG_HOST"
    assert "192.0.2.1" in details


async def test_a_domain_at_cloudflare_says_how_to_go_on(world, dns):
    app = await published(world)
    document = await add(world, app)
    dns.set(SHOP, ("A", "104.16.1.1"), ("AAAA", "2606:4700::1"))
    found = await check(world, app, document["id"])
    assert found["proxy"] == "CLOUDFLARE"
    assert "use_cdn" in (await verdict(world, app))[1]


async def test_a_domain_behind_a_cdn_has_to_resolve_only(world, dns):
    app = await published(world)
    await add(world, app, use_cdn=True)
    assert (await verdict(world, app))[0] == "DOMAIN_NOT_CONFIGURED"
    dns.set(SHOP, ("A", "104.16.1.1"))
    assert await verdict(world, app) == ("RESOLVES_TO_IP", "")


async def test_a_proved_domain_is_found_good(world, dns):
    app = await published(world)
    document = await add(world, app)
    await prove(world, dns, document)
    found = await check(world, app, document["id"])
    assert found["proved_by"] == "CNAME"
    assert await verdict(world, app) == ("MATCHES_LOAD_BALANCER_HOST", "")


async def test_a_check_of_a_proved_domain_does_not_wait_for_the_next_look(world, dns):
    app = await published(world)
    document = await add(world, app)
    dns.set(SHOP, ("CNAME", document["validation_domain"]))
    await check(world, app, document["id"])
    await world.settle()
    path = f"/application/{app}/customDomain/{document['id']}"
    assert (await world.get(path))["state"] == "PROVED"


@pytest.mark.parametrize(("fault", "words"), [("broken", "SERVFAIL"), ("unsigned", "DNSSEC")])
async def test_a_failure_of_the_name_servers_is_told(world, dns, fault, words):
    app = await published(world)
    document = await add(world, app)
    setattr(dns, fault, {SHOP})
    found = await check(world, app, document["id"])
    assert words in found["resolvers"][0]["problem"]
    assert (await verdict(world, app))[0] == "GENERIC_FAILURE"


async def test_caa_records_of_the_domain_or_above_are_shown(world, dns):
    app = await published(world)
    document = await add(world, app)
    dns.set("example.com", ("CAA", "0 issue ca.example"))
    assert (await check(world, app, document["id"]))["caa"] == ["0 issue ca.example"]


async def test_caa_records_are_looked_for_at_ten_names_at_most(world, dns):
    app = await published(world)
    document = await add(world, app, ".".join(["a"] * 60) + ".example.com")
    dns.asked.clear()
    await check(world, app, document["id"])
    assert len([name for name, type in dns.asked if type == "CAA"]) == 10


async def test_an_organization_checks_two_domains_at_a_time(world, dns, monkeypatch):
    app = await published(world)
    document = await add(world, app)
    ctx, going, most = world.installation.ctx, 0, 0
    plain = ctx.dns.ask

    async def ask(server, name, type):
        nonlocal going, most
        going += type == RecordType.CAA
        most = max(most, going)
        await asyncio.sleep(0.02)
        try:
            return await plain(server, name, type)
        finally:
            going -= type == RecordType.CAA

    monkeypatch.setattr(ctx.dns, "ask", ask)
    await asyncio.gather(*(check(world, app, document["id"]) for _ in range(6)))
    assert most == 2


async def test_a_check_ends_while_no_name_server_answers(world, dns, monkeypatch):
    app = await published(world)
    document = await add(world, app)
    monkeypatch.setattr("windlass.control.services.domain_records.TIMEOUT", 0.05)
    dns.is_silent = True
    world.installation.ctx.dns._seconds = 1000
    found = await check(world, app, document["id"])
    assert "gives no answer" in found["resolvers"][0]["problem"]
    assert (await verdict(world, app))[0] == "GENERIC_FAILURE"


async def test_a_gateway_that_is_reached_is_told_apart_from_another_server(database_url):
    async with scene(database_url, outbound_allow=("127.0.0.0/8",)) as there:
        world, answers = there.world, {"right": True}

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            path = (await reader.readline()).split()[1].decode()
            body = there.visit(SHOP, path) if answers["right"] else b"Welcome"
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body or b""), body or b""))
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        world.installation.ctx.visits.port = server.sockets[0].getsockname()[1]
        there.dns.set("*.apps.example.com", ("A", "127.0.0.1"))
        app = await published(world)
        document = await add(world, app)
        there.dns.set(SHOP, ("CNAME", document["validation_domain"]))
        assert (await check(world, app, document["id"]))["http"]["reached"]
        answers["right"] = False
        other = (await check(world, app, document["id"]))["http"]
        assert not other["reached"]
        assert "another server" in other["problem"]
        server.close()
        closed = (await check(world, app, document["id"]))["http"]
        assert "refuses connections" in closed["problem"]
        assert world.router.held_challenges == {}


async def test_port_443_is_ours_only_if_it_shows_the_certificate_of_this_check(database_url):
    async with scene(database_url, outbound_allow=("127.0.0.0/8",)) as there:
        world, shown = there.world, {"right": True}
        other = other_certificate()

        def choose(connection: ssl.SSLObject, name: str, _: ssl.SSLContext) -> None:
            (challenge,) = world.router.held_challenges.values()
            assert name == challenge.host == SHOP
            connection.context = make_context(
                challenge.certificate if shown["right"] else other, ACME_PROTOCOL
            )

        context = make_context(other, ACME_PROTOCOL)
        context.sni_callback = choose
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=context)
        world.installation.ctx.visits.https_port = server.sockets[0].getsockname()[1]
        there.dns.set("*.apps.example.com", ("A", "127.0.0.1"))
        app = await published(world)
        document = await add(world, app)
        there.dns.set(SHOP, ("CNAME", document["validation_domain"]))
        assert (await check(world, app, document["id"]))["https"]["reached"]
        shown["right"] = False
        found = (await check(world, app, document["id"]))["https"]
        assert not found["reached"]
        assert "a proxy that ends TLS" in found["problem"]
        server.close()
        assert "refuses connections" in (await check(world, app, document["id"]))["https"]["problem"]
        there.dns.set(SHOP, ("A", "10.1.2.3"))
        assert "not a public address" in (await check(world, app, document["id"]))["https"]["problem"]


async def test_without_a_port_for_https_nothing_is_said_about_it(world, dns):
    document = await add(world, app := await published(world))
    assert "https" not in await check(world, app, document["id"])


async def test_a_name_is_checked_before_it_is_added(world, dns):
    app = await published(world)
    dns.set(SHOP, ("A", "192.0.2.1"))
    path = f"/application/{app}/checkDomain"
    found = (await world.post(path, {"domain": SHOP})).json
    assert (found["proved_by"], found["resolvers"][0]["addresses"]) == ("", ["192.0.2.1"])
    said = " ".join(each["message"] for each in found["findings"])
    assert found["validation_domain"] in said
    assert found["challenge_value"] in said
    assert not (await world.get(f"/application/{app}/customDomain"))["results"]
    dns.set(SHOP, ("CNAME", found["validation_domain"]))
    assert (await world.post(path, {"domain": SHOP}))["proved_by"] == "CNAME"


async def test_a_name_that_cannot_be_a_domain_is_refused_before_anything_is_asked(world, dns):
    app = await published(world)
    for name in ("https://a.example/", "shop.apps.example.com"):
        assert (await world.post(f"/application/{app}/checkDomain", {"domain": name})).status == 400
    assert not dns.asked


async def test_a_name_that_another_service_serves_is_told(world, dns):
    document = await add(world, first := await published(world))
    await prove(world, dns, document)
    other = await published(world)
    for app, is_told in ((other, True), (first, False)):
        found = (await world.post(f"/application/{app}/checkDomain", {"domain": SHOP})).json
        assert any("another service" in each["message"] for each in found["findings"]) == is_told


async def test_only_who_may_add_a_domain_lets_the_server_open_any_name(world, dns):
    app = await published(world)
    token = await world.new_token("Read")
    answer = await world.post(f"/application/{app}/checkDomain", {"domain": SHOP}, token=token)
    assert answer.status == 403
    assert not dns.asked


@pytest.mark.parametrize(
    ("records", "proxy"),
    [
        ([("CNAME", "d111.cloudfront.net"), ("A", "198.51.100.1")], "CLOUDFRONT"),
        ([("A", "198.51.100.1")], ""),
    ],
)
async def test_a_provider_is_recognized_by_the_name_that_it_gives(world, dns, records, proxy):
    app = await published(world)
    alias = [record for record in records if record[0] == "CNAME"]
    dns.set(SHOP, *(alias or records))
    if alias:
        dns.set(alias[0][1], *records[1:])
    assert (await world.post(f"/application/{app}/checkDomain", {"domain": SHOP}))["proxy"] == proxy


async def test_the_diagnosis_says_whether_the_challenge_was_fetched(database_url):
    async with scene(database_url) as there:
        app, id = await there.proved()
        there.authority.slow = 10**6
        there.authority.look = lambda host, path: b""  # the first proof fails, and its answer is withdrawn
        await there.pass_time(4)
        assert "challenge_fetched" not in await check(there.world, app, id)
        router = there.world.router
        await router.put_challenge(f"acme {id}", Challenge(SHOP, "/.well-known/acme-challenge/x"))
        assert (await check(there.world, app, id))["challenge_fetched"] is False
        router.answers[f"acme {id}"] = 1
        assert (await check(there.world, app, id))["challenge_fetched"] is True


async def test_the_words_of_the_authority_are_part_of_the_diagnosis(database_url):
    async with scene(database_url) as there:
        there.authority.refusal = "CAA record prevents issuance"
        app, id = await there.proved()
        await there.pass_time(10)
        assert there.authority.refusal in (await check(there.world, app, id))["authority_message"]
