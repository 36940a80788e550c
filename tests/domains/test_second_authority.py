"""Another authority gives certificates where the first one fails, and not where a name cannot be proved."""

from __future__ import annotations

import base64
import contextlib

import pytest

from tests.domains.scene import scene
from tests.domains.served import read
from tests.fakes.authority import fake_authority
from tests.world import HandClock

HOUR = 3600


@contextlib.asynccontextmanager
async def two(database_url, **settings):
    clock = HandClock()
    async with fake_authority(clock.now) as second:
        given = {"acme_fallback_directory": f"{second.url}/directory"} | settings
        async with scene(database_url, clock=clock, **given) as there:
            second.look, second.look_by_tls = there.visit, there.visit_by_tls
            yield there, second


@pytest.fixture
async def both(database_url):
    async with two(database_url) as both:
        yield both


async def test_an_authority_that_is_away_is_replaced_after_three_tries(both):
    there, second = both
    there.authority.is_away = True
    app, id = await there.proved()
    await there.pass_time(100)
    assert not second.asked
    await there.pass_time(10 * 60, 10)
    assert (await read(there.world, app, id))["certificate_state"] == "LIVE"
    assert len(second.orders) == len(second.accounts) == 1


async def test_an_authority_at_its_limits_is_replaced_at_once(both):
    there, second = both
    there.authority.limit = 3 * HOUR
    app, id = await there.proved()
    await there.pass_time(90)
    assert (await read(there.world, app, id))["certificate_state"] == "LIVE"
    assert len(second.orders) == 1


async def test_a_name_that_cannot_be_proved_stays_with_its_authority(both):
    there, second = both
    there.authority.refusal = "no valid address"
    await there.proved()
    await there.pass_time(6 * HOUR, 60)
    assert not second.asked


@pytest.mark.parametrize("fault", ["provider", "name server"])
async def test_a_record_that_cannot_be_made_is_no_failure_of_an_authority(database_url, fault, caplog):
    settings = {"with_zone": True, "public_domain_certificates": True}
    async with two(database_url, **settings) as (there, second):
        key = there.dns.key
        if fault == "provider":
            there.dns.key = "another", b"key"
        else:
            there.dns.broken = {"_acme-challenge.apps.example.com"}
        await there.pass_time(6 * HOUR, 300)
        assert not second.asked
        assert "another authority" not in caplog.text
        there.dns.key, there.dns.broken = key, set()
        await there.pass_time(HOUR + 60, 120)
        assert "*.apps.example.com" in await there.held()
        assert there.authority.asked["new-order"] == 1


async def test_the_next_renewal_goes_to_the_first_authority(both):
    there, second = both
    there.authority.limit = 3 * HOUR
    _, id = await there.proved()
    await there.pass_time(90)
    there.authority.limit = 0
    reads = there.world.installation.ctx.store.reads
    there.world.clock.ms = (await reads.certificates.get(id)).renew + 1
    await there.pass_time(20)
    assert (len(there.authority.orders), len(second.orders)) == (1, 1)


async def test_two_authorities_at_their_limits_are_not_asked_in_turn(both):
    there, second = both
    there.authority.limit = second.limit = 3 * HOUR
    await there.proved()
    await there.pass_time(2 * HOUR, 30)
    assert (there.authority.asked["new-order"], second.asked["new-order"]) == (1, 1)


async def test_a_refusal_of_the_fall_back_leaves_the_next_order_to_the_first_authority(both):
    there, second = both
    there.authority.limit, second.refusal = HOUR, "a CAA record permits others only"
    app, id = await there.proved()
    await there.pass_time(90)
    assert len(second.orders) == 1
    there.authority.limit = 0
    await there.pass_time(2 * HOUR, 30)
    assert (await read(there.world, app, id))["certificate_state"] == "LIVE"
    assert (len(there.authority.orders), len(second.orders)) == (1, 1)


async def test_authorities_that_refuse_in_turn_are_asked_more_and_more_rarely(both):
    there, second = both
    there.authority.limit, second.refusal = HOUR, "a CAA record permits others only"
    await there.proved()
    await there.pass_time(6 * HOUR, 120)
    assert len(second.orders) <= 4


async def test_an_account_of_the_website_is_bound_to_the_key(database_url):
    key = base64.urlsafe_b64encode(b"k" * 32).rstrip(b"=").decode()
    settings = {"acme_fallback_key_id": "me", "acme_fallback_key": key}
    async with two(database_url, **settings) as (there, second):
        second.external, there.authority.limit = b"k" * 32, 3 * HOUR
        app, id = await there.proved()
        await there.pass_time(90)
        assert (await read(there.world, app, id))["certificate_state"] == "LIVE"


async def test_without_its_key_the_reason_is_told(database_url):
    async with scene(database_url) as there:
        there.authority.external = b"k"
        app, id = await there.proved()
        await there.pass_time(10)
        assert "account of its website (EAB)" in (await read(there.world, app, id))["problem"]
