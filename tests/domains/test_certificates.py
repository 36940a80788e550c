"""A proved domain gets a certificate by ACME, and a new one before it ends."""

from __future__ import annotations

import asyncio
import datetime

import pytest
from msgspec.structs import replace

from tests.domains.scene import scene
from tests.domains.served import SHOP, add, published, read
from tests.metrics.prometheus import scraped
from tests.world import HandClock
from windlass.base.certificates import read_certificate
from windlass.control.records.order_ledger import enter_order
from windlass.operate.domain_certificates import examine_certificates

HOUR, DAY = 3600, 86_400


@pytest.fixture
async def there(database_url):
    async with scene(database_url) as there:
        yield there


async def test_a_proved_domain_gets_a_certificate_that_the_gateway_serves(there):
    app, id = await there.proved()
    await there.pass_time(10)
    document = await read(there.world, app, id)
    assert (document["certificate_state"], document["problem"]) == ("LIVE", "")
    held = (await there.held())[id]
    own = read_certificate(held.chain.decode(), held.key)
    assert own.names == held.names == (SHOP,)
    assert document["certificate_expires_at"].startswith("2026-12")
    assert there.world.router.held_challenges == {}


async def test_an_unproved_domain_orders_nothing(there):
    app = await published(there.world)
    document = await add(there.world, app, generate_certificate=True)
    await there.pass_time(300, 30)
    assert not there.authority.asked
    assert (await read(there.world, app, document["id"]))["certificate_state"] == "WAITING"


async def test_keys_are_sealed_in_the_database(there):
    _, id = await there.proved()
    await there.pass_time(10)
    reads = there.world.installation.ctx.store.reads
    row = await reads.certificates.get(id)
    account = await reads.facts.get("acme_accounts")
    assert row
    assert account
    for stored in (row.sealed, account, row.chain.encode()):
        assert b"PRIVATE KEY" not in stored
    held = (await there.held())[id]
    assert b"PRIVATE KEY" in held.key


async def test_refused_nonces_and_slow_orders_only_cost_time(there):
    there.authority.bad_nonces, there.authority.slow = 3, 3
    app, id = await there.proved()
    await there.pass_time(40)
    assert (await read(there.world, app, id))["certificate_state"] == "LIVE"


async def test_a_refusal_is_told_in_the_words_of_the_authority_and_tried_again_later(there):
    there.authority.refusal = "CAA record for shop.example.com prevents issuance"
    app, id = await there.proved()
    await there.pass_time(10)
    document = await read(there.world, app, id)
    assert document["certificate_state"] == "FAILED"
    assert there.authority.refusal in document["problem"]
    orders = len(there.authority.orders)
    await there.pass_time(40)
    assert len(there.authority.orders) == orders == 1
    there.authority.refusal = ""
    await there.pass_time(120)
    assert (await read(there.world, app, id))["certificate_state"] == "LIVE"


async def test_a_proof_over_http_that_fails_is_followed_by_one_over_tls(there):
    there.authority.look = lambda host, path: None  # port 80 leads elsewhere
    app, id = await there.proved()
    await there.pass_time(10)
    assert (await read(there.world, app, id))["certificate_state"] == "FAILED"
    await there.pass_time(80)
    assert (await read(there.world, app, id))["certificate_state"] == "LIVE"
    assert (there.authority.asked["challenge"], there.authority.asked["tls"]) == (1, 1)
    assert there.world.router.held_challenges == {}


async def test_a_port_80_that_leads_here_after_a_failure_is_used_by_the_next_try(database_url):
    async with scene(database_url, outbound_allow=("127.0.0.0/8",)) as there:

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            path = (await reader.readline()).split()[1].decode()
            body = there.visit(SHOP, path) or b""
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
            await writer.drain()
            writer.close()

        there.dns.set("*.apps.example.com", ("A", "127.0.0.1"))
        there.authority.look = lambda host, path: None
        app, id = await there.proved()
        await there.pass_time(10)
        assert (await read(there.world, app, id))["certificate_state"] == "FAILED"
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        there.world.installation.ctx.visits.port = server.sockets[0].getsockname()[1]
        there.authority.look = there.visit
        await there.pass_time(80)
        server.close()
        assert (await read(there.world, app, id))["certificate_state"] == "LIVE"
        assert (there.authority.asked["challenge"], there.authority.asked["tls"]) == (2, 0)


@pytest.mark.parametrize(("chosen", "other"), [("tls-alpn-01", "challenge"), ("http-01", "tls")])
async def test_the_setting_decides_how_names_are_proved(database_url, chosen, other):
    async with scene(database_url, acme_challenge=chosen) as there:
        there.authority.refusal = "no"
        app, id = await there.proved()
        await there.pass_time(100)
        there.authority.refusal = ""
        await there.pass_time(1200, 20)
        assert (await read(there.world, app, id))["certificate_state"] == "LIVE"
        assert not there.authority.asked[other]


async def test_failures_in_a_row_are_tried_more_and_more_rarely(there):
    there.authority.refusal = "no valid address"
    await there.proved()
    await there.pass_time(DAY, 600)
    assert 4 <= len(there.authority.orders) <= 6


async def test_a_limit_of_the_authority_is_waited_for(there):
    there.authority.limit = 3 * HOUR
    app, id = await there.proved()
    await there.pass_time(2 * HOUR, 60)
    asked = there.authority.asked["new-order"]
    document = await read(there.world, app, id)
    assert (asked, document["certificate_state"]) == (1, "FAILED")
    assert "too many certificates" in document["problem"]
    there.authority.limit = 0
    await there.pass_time(2 * HOUR, 60)
    assert (await read(there.world, app, id))["certificate_state"] == "LIVE"


async def test_a_name_that_is_made_again_and_again_orders_five_times_in_three_hours(there):
    app, id = await there.proved()
    path = f"/application/{app}/customDomain"
    for _ in range(8):
        await there.pass_time(10)
        assert (await there.world.delete(f"{path}/{id}")).status == 204
        id = (await add(there.world, app, generate_certificate=True))["id"]
        there.world.clock.turn(30)
    await there.pass_time(10)
    assert there.authority.asked["new-order"] == 5
    document = await read(there.world, app, id)
    assert document["certificate_state"] == "WAITING"
    assert "this name has placed as many orders" in document["problem"]
    await there.pass_time(4 * HOUR, 600)
    assert (await read(there.world, app, id))["certificate_state"] == "LIVE"


async def test_an_organization_leaves_orders_to_the_others(there, monkeypatch):
    monkeypatch.setattr("windlass.control.records.order_ledger.MAX_ORDERS_OF_ORG", 2)
    documents = [await there.proved(name=f"{letter}.example.com") for letter in "abc"]
    await there.pass_time(10)
    states = [(await read(there.world, *each))["certificate_state"] for each in documents]
    assert sorted(states) == ["LIVE", "LIVE", "WAITING"]
    _, token = await there.world.organization()
    there.world.token = token
    there.world.org = str((await there.world.get("/organization"))["id"])
    other = await there.proved(name="d.example.com")
    await there.pass_time(10)
    assert (await read(there.world, *other))["certificate_state"] == "LIVE"


async def test_new_names_leave_orders_to_renewals(there, monkeypatch):
    monkeypatch.setattr("windlass.control.records.order_ledger.MAX_ORDERS_FOR_NEW_NAMES", 3)
    write = there.world.installation.ctx.store.write

    async def enter(name, *, is_renewal=False):
        return (await write(lambda tx: enter_order(tx, name, name, is_renewal=is_renewal)))[1]

    assert [await enter(f"{letter}.example") for letter in "abcd"] == ["", "", "", "installation"]
    assert await enter("old.example", is_renewal=True) == ""
    there.world.clock.turn(3 * HOUR)
    assert await enter("d.example") == ""


async def test_names_below_a_public_suffix_do_not_wait_for_those_of_others(there):
    _, id = await there.proved()
    await there.pass_time(10)
    store = there.world.installation.ctx.store
    row = await store.reads.certificates.get(id)
    for number in range(50):
        other = replace(row, id=f"{id[:-3]}{number:03}", name=f"shop{number}.co.uk")
        await store.write(lambda tx, other=other: tx.certificates.set(other))
    app, id = await there.proved(name="mine.co.uk")
    await there.pass_time(10)
    assert (await read(there.world, app, id))["certificate_state"] == "LIVE"


async def test_an_authority_that_was_away_for_a_week_is_asked_within_the_hour(there):
    there.authority.is_away = True
    app, id = await there.proved()
    await there.pass_time(7 * DAY, HOUR)
    assert (await read(there.world, app, id))["certificate_state"] == "FAILED"
    there.authority.is_away = False
    await there.pass_time(HOUR, 60)
    await there.pass_time(20)
    assert (await read(there.world, app, id))["certificate_state"] == "LIVE"


async def test_an_order_that_an_authority_forgot_while_it_was_away_is_placed_again(there):
    there.authority.slow = 10**6
    app, id = await there.proved()
    await there.pass_time(10)
    assert there.authority.asked["new-order"] == 1
    there.authority.is_away = True
    await there.pass_time(2 * DAY, HOUR)
    there.authority.is_away, there.authority.slow = False, 0
    await there.pass_time(2 * HOUR, 60)
    assert there.authority.asked["new-order"] == 2
    assert (await read(there.world, app, id))["certificate_state"] == "LIVE"


async def test_a_refusal_after_a_long_outage_is_tried_again_within_minutes(there):
    there.authority.is_away = True
    app, id = await there.proved()
    await there.pass_time(2 * DAY, HOUR)
    there.authority.is_away, there.authority.refusal = False, "no valid address"
    for _ in range(65):
        await there.pass_time(60, 60)
        if "no valid address" in (await read(there.world, app, id))["problem"]:
            break
    there.authority.refusal = ""
    await there.pass_time(300, 30)
    assert (await read(there.world, app, id))["certificate_state"] == "LIVE"


async def test_an_open_order_is_read_more_and_more_rarely_without_questions_to_name_servers(there):
    there.authority.slow = 10**6
    await there.proved()
    await there.pass_time(10)
    there.dns.asked.clear()
    read_before = there.authority.asked["order"]
    await there.pass_time(300)
    assert 4 <= there.authority.asked["order"] - read_before <= 12
    assert there.dns.asked == []
    await there.pass_time(7 * HOUR, HOUR)
    assert there.dns.asked


async def test_an_order_is_not_read_before_the_authority_says_so(there):
    there.authority.slow, there.authority.retry = 10**6, 600
    await there.proved()
    await there.pass_time(10)
    read_before = there.authority.asked["order"]
    await there.pass_time(580, 10)
    assert there.authority.asked["order"] == read_before
    await there.pass_time(30, 5)
    assert there.authority.asked["order"] > read_before


async def test_a_next_try_far_away_comes_from_a_clock_that_was_ahead(there):
    there.authority.refusal = "no valid address"
    app, id = await there.proved()
    await there.pass_time(10)
    there.authority.refusal = ""
    store = there.world.installation.ctx.store
    order = await store.reads.certificates.order(id)
    later = replace(order, due=order.due + 400 * DAY * 1000)
    await store.write(lambda tx: tx.certificates.set_order(later))
    await there.pass_time(7 * HOUR, HOUR)
    await there.pass_time(20)
    assert (await read(there.world, app, id))["certificate_state"] == "LIVE"


async def test_a_certificate_is_renewed_after_two_thirds_of_its_life(there):
    _, id = await there.proved()
    await there.pass_time(10)
    first = (await there.held())[id].chain
    await there.pass_time(59 * DAY, 6 * HOUR)
    assert (await there.held())[id].chain == first
    await there.pass_time(2 * DAY, HOUR)
    await there.pass_time(20)
    assert (await there.held())[id].chain != first


async def test_a_certificate_is_renewed_when_the_authority_asks_for_it(there):
    there.authority.window = ("2026-12-01T00:00:00Z", "2026-12-02T00:00:00Z")
    _, id = await there.proved()
    await there.pass_time(10)
    first = (await there.held())[id].chain
    there.authority.window = ("2026-09-20T00:00:00Z", "2026-09-21T00:00:00+00:00")
    await there.pass_time(DAY, HOUR)
    await there.pass_time(20)
    assert (await there.held())[id].chain != first
    assert len(there.authority.replaced) >= 1


@pytest.mark.parametrize("window", ["2020-01-01", "2300-01-01"])
async def test_an_authority_that_asks_for_renewals_at_any_time_gets_one_in_a_day_and_before_the_end(
    there, window
):
    there.authority.window = (f"{window}T00:00:00Z", f"{window}T01:00:00Z")
    await there.proved()
    await there.pass_time(10)
    for hours in range(30):
        await there.pass_time(HOUR, 600)
        if hours == 20:
            assert there.authority.asked["new-order"] == 1
    await there.pass_time(20)
    assert there.authority.asked["new-order"] == (2 if window < "2026" else 1)
    if window > "2026":
        await there.pass_time(84 * DAY, 6 * HOUR)
        await there.pass_time(20)
        assert there.authority.asked["new-order"] == 2


async def test_a_certificate_that_the_authority_has_revoked_is_replaced_in_its_first_day(there):
    there.authority.window = ("2026-12-01T00:00:00Z", "2026-12-02T00:00:00Z")
    await there.proved()
    await there.pass_time(2 * HOUR, 600)
    revoked = datetime.datetime.fromtimestamp(there.world.clock.now() / 1000, datetime.UTC)
    there.authority.window = (f"{revoked:%Y-%m-%dT%H:%M:%SZ}", f"{revoked:%Y-%m-%dT%H:%M:%SZ}")
    await there.pass_time(7 * HOUR, 600)
    assert there.authority.asked["new-order"] == 2
    assert len(there.authority.replaced) == 1


async def test_a_lost_proof_is_told_while_the_certificate_lives(there):
    app, id = await there.proved()
    await there.pass_time(10)
    there.dns.set(SHOP, ("A", "192.0.2.1"))
    await there.pass_time(DAY, 6 * HOUR)
    lost = await read(there.world, app, id)
    assert (lost["state"], lost["certificate_state"]) == ("PROVED", "LIVE")
    assert "it is served all the same" in lost["problem"]
    there.dns.set(SHOP, ("CNAME", lost["validation_domain"]))
    await there.pass_time(DAY, 6 * HOUR)
    assert (await read(there.world, app, id))["problem"] == ""


async def test_the_old_certificate_is_served_while_its_renewal_fails(there):
    app, id = await there.proved()
    await there.pass_time(10)
    first = (await there.held())[id].chain
    there.authority.refusal = "no valid address"
    await there.pass_time(70 * DAY, 6 * HOUR)
    document = await read(there.world, app, id)
    assert (await there.held())[id].chain == first
    assert document["certificate_state"] == "LIVE"
    assert "no valid address" in document["problem"]


async def test_metrics_count_renewals_that_fail_for_a_day_and_the_doctor_names_them(there):
    _, id = await there.proved()
    await there.pass_time(10)
    installation = there.world.installation
    reads, clock = installation.ctx.store.reads, there.world.clock
    assert "windlass_domain_certificates_overdue 0" in await scraped(there.world)
    assert (await examine_certificates(reads, clock.now())).level == "ok"
    there.authority.refusal = "no valid address"
    clock.ms = (await reads.certificates.get(id)).renew
    await there.pass_time(2 * DAY, 6 * HOUR)
    assert "windlass_domain_certificates_overdue 1" in await scraped(there.world)
    finding = await examine_certificates(reads, clock.now())
    assert finding.level == "warn"
    assert f"1 ({SHOP} ends at 20" in finding.found
    assert "no valid address" in finding.found


async def test_a_deleted_domain_and_a_deleted_service_leave_no_certificate(there):
    app, id = await there.proved()
    other, _ = await there.proved(name="www.example.com")
    await there.pass_time(10)
    assert len(await there.held()) == 2
    assert (await there.world.delete(f"/application/{app}/customDomain/{id}")).status == 204
    assert len(await there.held()) == 1
    assert (await there.world.delete(f"/application/{other}")).status in {202, 204}
    await there.pass_time(10)
    assert await there.held() == {}


async def test_a_domain_without_generated_certificate_orders_none(there):
    app = await published(there.world)
    document = await add(there.world, app)
    there.dns.set(SHOP, ("CNAME", document["validation_domain"]))
    await there.pass_time(300, 30)
    assert (await read(there.world, app, document["id"]))["state"] == "PROVED"
    assert not there.authority.asked


async def test_without_a_port_for_https_nothing_is_ordered_and_the_reason_told(database_url):
    async with scene(database_url, https_port=0) as there:
        app, id = await there.proved()
        await there.pass_time(10)
        assert "https_port" in (await read(there.world, app, id))["problem"]
        assert not there.authority.asked


async def test_an_account_that_the_authority_has_forgotten_is_opened_again(there):
    await there.proved()
    await there.pass_time(10)
    (key,) = [each["key"] for each in there.authority.accounts.values()]
    there.authority.accounts.clear()
    app, id = await there.proved(name="www.example.com")
    await there.pass_time(120)
    assert (await read(there.world, app, id))["certificate_state"] == "LIVE"
    assert [each["key"] for each in there.authority.accounts.values()] == [key]


def test_the_clock_of_the_world_is_before_these_windows():
    noon = datetime.datetime.fromtimestamp(HandClock().now() / 1000, datetime.UTC)
    assert (noon.year, noon.month) == (2026, 9)


async def test_the_address_of_a_service_has_https_once_its_certificate_is_live(there):
    app, _ = await there.proved()
    await there.world.settle()
    path = f"/application/{app}/link"
    assert (await there.world.get(path))["results"][0]["url"] == f"http://{SHOP}:8081"
    await there.pass_time(10)
    assert (await there.world.get(path))["results"][0]["url"] == f"https://{SHOP}"
