"""The diagnosis of a domain says what is right and what has to be done."""

from __future__ import annotations

import asyncio

import pytest

from tests.domains.scene import scene
from tests.domains.served import SHOP, add, prove, published
from windlass.base.dns import RecordType


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
    monkeypatch.setattr("windlass.control.services.domain_records.SECONDS", 0.05)
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
        assert world.router.challenges == {}


async def test_the_words_of_the_authority_are_part_of_the_diagnosis(database_url):
    async with scene(database_url) as there:
        there.authority.refusal = "CAA record prevents issuance"
        app, id = await there.proved()
        await there.pass_time(10)
        assert there.authority.refusal in (await check(there.world, app, id))["authority_message"]
