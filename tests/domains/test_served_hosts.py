"""A proxy in front asks whether a name is served here, before it gets a certificate on demand."""

from __future__ import annotations

import pytest

from tests.domains.served import SHOP, add, hosts, prove, published
from windlass.store.tables.names import NameTable


async def ask(world, name):
    return await world.get(f"/served-host?domain={name}", token=None)


async def test_names_of_services_and_proved_domains_are_served(world, dns):
    app = await published(world)
    (own,) = await hosts(world, app)
    document = await add(world, app)
    assert (await ask(world, own)).status == 200
    assert (await ask(world, SHOP)).status == 404
    await prove(world, dns, document)
    assert (await ask(world, SHOP)).status == 200
    assert (await ask(world, SHOP.upper())).status == 200


async def test_a_name_that_only_an_asterisk_covers_gets_no_certificate_on_demand(world, dns):
    app = await published(world)
    document = await add(world, app, "*.example.com")
    dns.set("_windlass-challenge.example.com", ("TXT", document["challenge_value"]))
    world.clock.turn(60)
    await world.settle()
    await prove(world, dns, await add(world, app))
    answers = [await ask(world, name) for name in (SHOP, "any.example.com", "example.com")]
    assert [answer.status for answer in answers] == [200, 404, 404]


@pytest.mark.parametrize(
    "name", ["", "shop", "x" * 300 + ".example.com", "inside%20a.apps.example.com", "é.example"]
)
async def test_other_texts_are_not_served_and_told_nothing(world, dns, name):
    answer = await ask(world, name)
    assert answer.status == 404
    assert answer.message.endswith("none here has this name")


async def test_any_number_of_unknown_names_neither_refuses_nor_delays_served_ones(world, dns, monkeypatch):
    readings = []

    async def beginning(table, prefix):
        readings.append(prefix)
        return await read(table, prefix)

    read = NameTable.beginning
    monkeypatch.setattr(NameTable, "beginning", beginning)
    app = await published(world)
    await prove(world, dns, await add(world, app))
    readings.clear()
    asked = [(await ask(world, f"n{number}.example.com")).status for number in range(120)]
    assert set(asked) == {404}
    assert (await ask(world, SHOP)).status == 200
    assert len(readings) == 1


async def test_a_change_is_seen_a_second_later_and_without_its_nudge_after_a_minute(world, dns):
    app = await published(world)
    await prove(world, dns, document := await add(world, app))
    assert (await ask(world, SHOP)).status == 200
    await world.delete(f"/application/{app}/customDomain/{document['id']}")
    await world.settle()
    world.clock.turn(1)
    assert (await ask(world, SHOP)).status == 404
    ctx = world.installation.ctx
    await ctx.store.write(lambda tx: tx.names.reserve(f"domain {SHOP}", app))
    world.clock.turn(58)
    assert (await ask(world, SHOP)).status == 404
    world.clock.turn(2)
    assert (await ask(world, SHOP)).status == 200
