"""A domain is served once a record proves it, and belongs to one service of the installation."""

from __future__ import annotations

import pytest

from tests.contract.contract import is_refused
from tests.domains.served import SHOP, add, hosts, prove, published, read
from tests.fakes.name_server import name_server
from tests.world import make_world
from windlass.control.background.clock_set_back import follow_earlier_clock

HOUR, DAY = 3600, 86_400


async def test_a_domain_is_served_once_its_cname_record_points_at_the_service(world, dns):
    app = await published(world)
    document = await add(world, app)
    assert (document["status"], document["state"]) == ("VALIDATION_PENDING", "UNPROVED")
    assert SHOP not in await hosts(world, app)
    await prove(world, dns, document)
    proved = await read(world, app, document["id"])
    assert (proved["state"], proved["problem"], proved["status"]) == ("PROVED", "", "VALIDATION_PENDING")
    assert SHOP in await hosts(world, app)


async def test_a_domain_is_not_served_without_a_record(world, dns):
    """The control of the test above."""
    app = await published(world)
    document = await add(world, app)
    dns.set(SHOP, ("A", "203.0.113.10"))
    world.clock.turn(HOUR)
    await world.settle()
    unproved = await read(world, app, document["id"])
    assert unproved["state"] == "UNPROVED"
    assert document["validation_domain"] in unproved["problem"]
    assert document["challenge_value"] in unproved["problem"]
    assert SHOP not in await hosts(world, app)


async def test_a_txt_record_proves_a_domain_without_a_cname(world, dns):
    app = await published(world)
    document = await add(world, app, "example.com")
    dns.set(document["challenge_name"], ("TXT", document["challenge_value"]))
    world.clock.turn(HOUR)
    await world.settle()
    assert (await read(world, app, document["id"]))["state"] == "PROVED"
    assert "example.com" in await hosts(world, app)


async def test_records_for_one_service_prove_nothing_for_another(world, dns):
    first, second = await published(world), await published(world)
    one, other = await add(world, first), await add(world, second)
    assert one["validation_domain"] != other["validation_domain"]
    assert one["challenge_value"] != other["challenge_value"]
    await prove(world, dns, one)
    assert (await read(world, first, one["id"]))["state"] == "PROVED"
    assert (await read(world, second, other["id"]))["state"] == "UNPROVED"
    assert SHOP not in await hosts(world, second)


async def test_a_cname_of_one_label_does_not_prove_all_labels_of_a_domain(world, dns):
    app = await published(world)
    document = await add(world, app, "*.example.com")
    dns.set("windlass-check.example.com", ("CNAME", document["validation_domain"]))
    world.clock.turn(HOUR)
    await world.settle()
    assert (await read(world, app, document["id"]))["state"] == "UNPROVED"
    dns.set(document["challenge_name"], ("TXT", document["challenge_value"]))
    world.clock.turn(HOUR)
    await world.settle()
    assert "*.example.com" in await hosts(world, app)


async def test_an_unproved_claim_does_not_block_the_owner_of_a_name(world, dns):
    squatted = await published(world)
    await add(world, squatted)
    _, token = await world.organization()
    world.token = token
    world.org = str((await world.get("/organization"))["id"])
    app = await published(world)
    document = await add(world, app)
    await prove(world, dns, document)
    assert (await read(world, app, document["id"]))["state"] == "PROVED"


async def test_a_proved_name_is_refused_to_others_without_a_word_about_its_holder(world, dns):
    app = await published(world)
    await prove(world, dns, await add(world, app))
    _, token = await world.organization()
    holder = world.org
    world.token = token
    world.org = str((await world.get("/organization"))["id"])
    other = await published(world)
    answer = await world.post(
        f"/application/{other}/customDomain", {"domain": SHOP.upper(), "generate_certificate": False}
    )
    is_refused(answer, 409)
    assert app not in answer.message
    assert holder not in answer.message


async def test_a_domain_whose_proof_is_lost_is_served_for_three_days(world, dns):
    app = await published(world)
    document = await add(world, app)
    await prove(world, dns, document)
    dns.set(SHOP, ("A", "192.0.2.1"))
    for _ in range(2):
        world.clock.turn(DAY)
        await world.settle()
    lost = await read(world, app, document["id"])
    assert (lost["state"], "proof_lost_at" in lost) == ("PROVED", True)
    assert SHOP in await hosts(world, app)
    for _ in range(3):
        world.clock.turn(DAY)
        await world.settle()
    ended = await read(world, app, document["id"])
    assert (ended["state"], "proof_lost_at" in ended) == ("UNPROVED", False)
    assert SHOP not in await hosts(world, app)


@pytest.mark.parametrize("fault", ["silent", "broken"])
async def test_name_servers_that_fail_end_the_service_of_no_domain(world, dns, fault):
    app = await published(world)
    document = await add(world, app)
    await prove(world, dns, document)
    dns.is_silent, dns.broken = fault == "silent", {SHOP} if fault == "broken" else set()
    world.installation.ctx.dns._seconds = 0.02
    for _ in range(5):
        world.clock.turn(DAY)
        await world.settle()
    kept = await read(world, app, document["id"])
    assert (kept["state"], bool(kept["problem"])) == ("PROVED", True)
    assert SHOP in await hosts(world, app)


async def test_no_domain_waits_for_the_time_of_a_clock_that_was_ahead(world, dns):
    app = await published(world)
    await prove(world, dns, await add(world, app))
    dns.asked.clear()
    await world.settle()
    assert dns.asked == []
    await world.installation.ctx.store.write(follow_earlier_clock)
    await world.settle()
    assert (SHOP, "A") in dns.asked


async def test_a_transferred_domain_goes_to_the_service_that_proves_it_now(world, dns):
    former, present = await published(world), await published(world)
    old = await add(world, former)
    await prove(world, dns, old)
    dns.set(SHOP, ("A", "192.0.2.1"))
    world.clock.turn(DAY)
    await world.settle()
    new = await add(world, present)
    await prove(world, dns, new)
    assert (await read(world, present, new["id"]))["state"] == "PROVED"
    assert (await read(world, former, old["id"]))["state"] == "UNPROVED"
    assert SHOP in await hosts(world, present)
    assert SHOP not in await hosts(world, former)


async def test_a_deleted_domain_is_not_served_and_free_for_others(world, dns):
    app, other = await published(world), await published(world)
    document = await add(world, app)
    await prove(world, dns, document)
    assert (await world.delete(f"/application/{app}/customDomain/{document['id']}")).status == 204
    assert SHOP not in await hosts(world, app)
    next_one = await add(world, other)
    await prove(world, dns, next_one)
    assert SHOP in await hosts(world, other)


async def test_a_renamed_domain_has_to_be_proved_again(world, dns):
    app = await published(world)
    document = await add(world, app)
    await prove(world, dns, document)
    path = f"/application/{app}/customDomain/{document['id']}"
    answer = await world.put(path, {"domain": "www.example.com", "generate_certificate": False})
    assert (answer["state"], "proved_at" in answer.json) == ("UNPROVED", False)
    await world.settle()
    assert not {SHOP, "www.example.com"} & await hosts(world, app)


async def test_a_new_deployment_and_new_settings_keep_the_domain(world, dns):
    app = await published(world)
    await prove(world, dns, await add(world, app))
    assert (await world.patch(f"/application/{app}", {"description": "changed"})).status == 200
    assert (await world.post(f"/application/{app}/deploy")).status == 202
    await world.settle()
    assert SHOP in await hosts(world, app)


async def test_an_address_proves_a_domain_only_where_the_operator_says_so(database_url):
    for how, state in (("records", "UNPROVED"), ("address", "PROVED")):
        async with name_server() as dns:
            dns.set("*.apps.example.com", ("A", "203.0.113.10"))
            dns.set(SHOP, ("A", "203.0.113.10"))
            async with make_world(
                database_url,
                dns_servers=(dns.address,),
                public_domain="apps.example.com",
                acme_directory="",
                domain_proof=how,
            ) as world:
                app = await published(world)
                document = await add(world, app)
                assert (await read(world, app, document["id"]))["state"] == state
                if database_url:
                    return


async def test_addresses_of_a_cdn_prove_nothing_even_where_addresses_do(dns):
    async with make_world(
        "",
        dns_servers=(dns.address,),
        public_domain="apps.example.com",
        acme_directory="",
        domain_proof="address",
    ) as world:
        dns.set(SHOP, ("A", "104.16.1.1"))
        dns.set("own.example.com", ("A", "203.0.113.10"))
        app = await published(world)
        behind = await add(world, app, use_cdn=True)
        own = await add(world, app, "own.example.com", use_cdn=True)
        assert (await read(world, app, behind["id"]))["state"] == "UNPROVED"
        assert (await read(world, app, own["id"]))["state"] == "UNPROVED"


async def test_a_record_takes_a_name_from_a_service_that_only_its_address_proves(dns):
    async with make_world(
        "",
        dns_servers=(dns.address,),
        public_domain="apps.example.com",
        acme_directory="",
        domain_proof="address",
    ) as world:
        dns.set(SHOP, ("A", "203.0.113.10"))
        one, other = await published(world), await published(world)
        by_address = await add(world, one)
        assert SHOP in await hosts(world, one)
        by_record = await add(world, other)
        assert (await read(world, other, by_record["id"]))["state"] == "UNPROVED"
        dns.set(by_record["challenge_name"], ("TXT", by_record["challenge_value"]))
        world.clock.turn(60)
        await world.settle()
        assert (await read(world, other, by_record["id"]))["state"] == "PROVED"
        assert (await read(world, one, by_address["id"]))["state"] == "UNPROVED"
        assert SHOP in await hosts(world, other)
        third = await published(world)
        last = await add(world, third)
        dns.set(SHOP, ("CNAME", last["validation_domain"]))
        world.clock.turn(HOUR)
        await world.settle()
        assert (await read(world, third, last["id"]))["state"] == "UNPROVED"
        assert SHOP in await hosts(world, other)


async def test_a_cdn_in_front_does_not_replace_the_proof(world, dns):
    app = await published(world)
    document = await add(world, app, use_cdn=True)
    dns.set(SHOP, ("A", "104.16.1.1"))
    world.clock.turn(HOUR)
    await world.settle()
    assert (await read(world, app, document["id"]))["state"] == "UNPROVED"
    dns.set(document["challenge_name"], ("TXT", document["challenge_value"]))
    world.clock.turn(HOUR)
    await world.settle()
    assert SHOP in await hosts(world, app)


async def test_links_name_a_proved_domain_first(world, dns):
    app = await published(world)
    await prove(world, dns, await add(world, app))
    urls = [link["url"] for link in (await world.get(f"/application/{app}/link"))["results"]]
    assert urls[0] == f"http://{SHOP}:8081"
    assert len(urls) == 2
