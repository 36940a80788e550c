"""Certificates for `*.`, and for the names of services."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from tests.domains.scene import Scene, scene
from tests.domains.served import add, published, read
from tests.world import make_world

APPS = "*.apps.example.com"
HOUR, DAY = 3600, 86_400
RECORD = "_acme-challenge.apps.example.com"
SHOPS = "*.shops.example.org"


@pytest.fixture
async def there():
    async with scene(with_zone=True, public_domain_certificates=True) as made:
        yield made


async def urls(there: Scene, app: str) -> list[str]:
    return [each["url"] for each in (await there.world.get(f"/application/{app}/link"))["results"]]


async def remarks(there: Scene, app: str) -> str:
    links = (await there.world.get(f"/application/{app}/link"))["results"]
    return " ".join(each["remark"] for each in links)


async def test_names_of_services_share_one_certificate_that_is_there_before_them(there):
    await there.pass_time(20)
    assert (await there.held())[APPS].names == (APPS,)
    for _ in range(2):
        (url,) = await urls(there, await published(there.world))
        assert url.startswith("https://")
        assert url.endswith(".apps.example.com")
    assert there.authority.asked["new-order"] == 1


async def test_addresses_of_services_have_the_port_at_which_visitors_reach_https():
    ports: dict[str, Any] = {"https_port": 8443, "public_https_port": 443}
    async with scene(with_zone=True, public_domain_certificates=True, **ports) as there:
        await there.pass_time(20)
        (url,) = await urls(there, await published(there.world))
        assert url.endswith(".apps.example.com")


@pytest.mark.parametrize(
    ("port", "begin", "end"),
    [(443, "https://", ".com"), (8443, "https://", ":8443"), (0, "http://", ":8081")],
)
async def test_addresses_of_services_have_https_where_a_proxy_in_front_has_the_certificates(
    port: int, begin: str, end: str
):
    async with make_world(public_domain="apps.example.com", public_https_port=port) as world:
        app = await published(world)
        (link,) = (await world.get(f"/application/{app}/link"))["results"]
        assert (link["url"].startswith(begin), link["url"].endswith(end)) == (True, True)


async def test_the_record_of_a_proof_is_made_once_and_removed(there):
    await there.pass_time(20)
    assert [(word, name) for word, name, _ in there.dns.updates] == [("add", RECORD), ("remove", RECORD)]
    assert there.dns.texts(RECORD) == []


async def test_the_authority_is_told_once_the_servers_of_the_zone_have_the_record(there):
    there.dns.is_slow = True
    await there.pass_time(60)
    assert [word for word, *_ in there.dns.updates] == ["add"]
    assert there.authority.asked["dns-challenge"] == 0
    there.dns.publish()
    await there.pass_time(60)
    assert APPS in await there.held()


async def test_a_zone_whose_servers_do_not_answer_this_machine_gets_a_minute(there):
    """A firewall may let only the name servers of the machine ask others."""
    there.world.installation.ctx.dns.zone_port = 1
    await there.pass_time(50)
    assert there.dns.texts(RECORD)
    assert there.authority.asked["dns-challenge"] == 0
    await there.pass_time(60)
    assert APPS in await there.held()


async def test_a_record_that_stays_invisible_is_told_and_removed(there):
    there.dns.is_slow = True
    app = await published(there.world)
    await there.pass_time(900, 15)
    assert there.authority.asked["dns-challenge"] == 0
    assert "not visible yet, after ten minutes" in await remarks(there, app)
    assert "remove" in {word for word, *_ in there.dns.updates}


async def test_a_record_is_made_where_an_alias_leads(there):
    there.dns.serve_zone("acme.example.net")
    there.dns.set(RECORD, ("CNAME", "apps.acme.example.net"))
    await there.pass_time(20)
    assert APPS in await there.held()
    assert {name for _, name, _ in there.dns.updates} == {"apps.acme.example.net"}


async def test_an_alias_of_all_names_hides_no_place(there):
    """Of a load balancer that is known by name."""
    there.dns.set("*.apps.example.com", ("CNAME", "lb.example.net"))
    there.dns.set("lb.example.net", ("A", "203.0.113.10"))
    await there.pass_time(20)
    assert APPS in await there.held()
    app, id = await wildcard(there)
    target = (await read(there.world, app, id))["problem"].split()
    there.dns.set(
        "_acme-challenge.shops.example.org",
        ("CNAME", next(word.rstrip(",") for word in target if word.startswith("acme-"))),
    )
    await there.pass_time(900, 15)
    assert (await read(there.world, app, id))["certificate_state"] == "LIVE"


async def test_a_provider_that_refuses_is_told_and_asked_again(there, caplog):
    key, there.dns.key = there.dns.key, ("another", b"key")
    app = await published(there.world)
    await there.pass_time(30)
    told = await remarks(there, app)
    assert "the provider of DNS fails" in told
    assert there.dns.address not in told, "its words are for the operator"
    assert any("refuses the update" in getattr(record, "why", "") for record in caplog.records)
    assert (await urls(there, app))[0].startswith("http://")
    there.dns.key = key
    await there.pass_time(300, 15)
    assert (await urls(there, app))[0].startswith("https://")
    assert await remarks(there, app) == ""


async def wildcard(there: Scene, name: str = SHOPS) -> tuple[str, str]:
    """A proved domain with `*.` that is to have a certificate."""
    app = await published(there.world)
    document = await add(there.world, app, name, generate_certificate=True)
    there.dns.set(document["challenge_name"], ("TXT", document["challenge_value"]))
    there.world.clock.turn(60)
    await there.pass_time(20)
    return app, document["id"]


async def test_a_domain_with_an_asterisk_gets_its_certificate_once_its_challenge_leads_here(there):
    app, id = await wildcard(there)
    document = await read(there.world, app, id)
    assert document["certificate_state"] == "WAITING"
    assert there.authority.asked["new-order"] == 1, "of the names of services alone"
    words = document["problem"].split()
    assert "_acme-challenge.shops.example.org" in words
    target = next(word for word in words if word.startswith("acme-"))
    there.dns.set("_acme-challenge.shops.example.org", ("CNAME", target.rstrip(",")))
    check = await there.world.get(f"/application/{app}/customDomain/{id}/check")
    assert any("is proved by a record of acme-" in each["message"] for each in check["findings"])
    await there.pass_time(900, 15)
    document = await read(there.world, app, id)
    assert (document["certificate_state"], document["problem"]) == ("LIVE", "")
    assert (await there.held())[id].names == (SHOPS,)


async def test_a_domain_makes_no_records_at_other_names_of_the_operator(there):
    """Who may choose where a challenge leads could have a record made at any name of the operator."""
    there.dns.set("_acme-challenge.shops.example.org", ("CNAME", "www.apps.example.com"))
    app, id = await wildcard(there)
    await there.pass_time(900, 30)
    assert {name for _, name, _ in there.dns.updates} == {RECORD}
    assert "it points at www.apps.example.com" in (await read(there.world, app, id))["problem"]


async def test_without_that_rule_a_domain_would_choose_the_name(there, monkeypatch):
    """The control of the test above."""
    monkeypatch.setattr(
        "windlass.control.services.dns_challenges.delegation_domain",
        lambda ctx, service: "www.apps.example.com",
    )
    there.dns.set("_acme-challenge.shops.example.org", ("CNAME", "www.apps.example.com"))
    await wildcard(there)
    assert "www.apps.example.com" in {name for _, name, _ in there.dns.updates}


async def test_a_domain_with_an_asterisk_in_a_zone_of_the_operator_needs_no_alias(there):
    there.dns.serve_zone("shops.example.org")
    app, id = await wildcard(there)
    assert (await read(there.world, app, id))["certificate_state"] == "LIVE"


async def test_the_words_of_a_provider_are_in_no_finding(there, caplog):
    app, id = await wildcard(there)
    there.dns.broken = {"shops.example.org"}  # which is asked for its zone
    check = await there.world.get(f"/application/{app}/customDomain/{id}/check")
    (told,) = [each["message"] for each in check["findings"] if "cannot be made" in each["message"]]
    assert "its operator" in told
    assert there.dns.address not in told
    assert any(there.dns.address in getattr(record, "why", "") for record in caplog.records)


async def test_a_domain_that_is_deleted_during_its_order_leaves_no_record(there):
    there.dns.serve_zone("shops.example.org")
    there.dns.is_slow = True
    app, id = await wildcard(there)
    there.dns.publish()
    assert there.dns.texts("_acme-challenge.shops.example.org")
    await there.world.delete(f"/application/{app}/customDomain/{id}")
    await there.pass_time(120, 15)
    assert there.dns.texts("_acme-challenge.shops.example.org") == []


async def test_without_a_provider_a_domain_with_an_asterisk_says_what_is_missing():
    async with scene() as there:
        app, id = await wildcard(there)
        document = await read(there.world, app, id)
        assert document["certificate_state"] == "WAITING"
        assert "set dns_provider" in document["problem"]
        assert there.authority.asked["new-order"] == 0


async def test_without_a_provider_a_deployment_gets_certificates_for_its_names(monkeypatch):
    ledger = "windlass.control.records.order_ledger"
    monkeypatch.setattr(f"{ledger}.MAX_CERTIFICATES_OF_ORG_PER_WEEK", 2)
    monkeypatch.setattr("windlass.control.records.own_certificates.CERTIFICATES_WARNING_COUNT", 2)
    async with scene(public_domain_certificates=True) as there:
        first = await published(there.world)
        assert (await urls(there, first))[0].startswith("http://")
        await there.pass_time(20)
        assert (await urls(there, first))[0].startswith("https://")
        assert await remarks(there, first) == ""
        await published(there.world)
        await there.pass_time(20)
        assert "dns_provider" in await remarks(there, first)
        third = await published(there.world)
        await there.pass_time(20)
        assert (await urls(there, third))[0].startswith("http://")
        assert "wait until" in await remarks(there, third)
        assert there.authority.asked["new-order"] == 2
        there.world.clock.turn(7 * 86_400)
        await there.pass_time(60)
        assert (await urls(there, third))[0].startswith("https://")


async def test_a_name_that_no_longer_wants_a_certificate_lacks_no_renewal_until_it_wants_one_again():
    async with scene(public_domain_certificates=True) as there:
        app = await published(there.world)
        await there.pass_time(20)
        ctx, clock = there.world.installation.ctx, there.world.clock
        certificates = ctx.store.reads.certificates
        ((name, first),) = (await certificates.fingerprints()).items()
        row = await certificates.get(name)
        assert row
        wanted = ctx.settings
        structs.force_setattr(ctx, "settings", structs.replace(wanted, public_domain_certificates=False))
        clock.ms = row.renew
        await there.pass_time(2 * DAY, 6 * HOUR)
        assert await certificates.fingerprints() == {name: first}
        assert await certificates.ending(clock.now()) == []
        structs.force_setattr(ctx, "settings", wanted)
        await there.world.post(f"/application/{app}/redeploy")
        await there.pass_time(2 * HOUR, 60)
        assert (await certificates.fingerprints())[name] != first


@pytest.mark.parametrize(
    "settings", [{"public_domain_certificates": False}, {"https_port": 0}, {"public_domain": "localhost"}]
)
async def test_names_of_services_get_no_certificates_where_none_are_wanted_or_possible(settings):
    async with scene(**{"public_domain_certificates": True, **settings}) as there:
        await published(there.world)
        await there.pass_time(10)
        assert there.authority.asked["new-order"] == 0
