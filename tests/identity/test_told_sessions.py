"""The log, the audit and the metrics tell who signs in and out, and no secret of a session."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.audit.asking import events, told, types
from tests.identity.browsers import Browser
from tests.identity.issuer import invite
from tests.identity.test_provider_sign_ins import ADA, CodeIssuer, come_back, provider_of
from tests.metrics.prometheus import measured
from tests.world import World, make_world
from windlass.core.access import Scope

HERE, THERE = "198.51.100.1", "198.51.100.2"


@pytest.fixture
async def provided(database_url, clock):
    issuer = CodeIssuer(clock)
    options = {"clock": clock, "fetcher": issuer.fetch, "out": issuer}
    async with make_world(database_url, oidc_providers=provider_of(issuer), **options) as world:
        yield world, issuer


@pytest.fixture
def browser(world: World) -> Browser:
    return Browser(world)


def lines(caplog, message: str) -> list[dict[str, Any]]:
    return [vars(record) for record in caplog.records if record.getMessage() == message]


async def test_the_log_records_who_signed_in_by_which_method(provided, caplog):
    world, issuer = provided
    caplog.set_level(logging.INFO)
    await invite(world, ADA, Scope.READ)
    browsers = [Browser(world) for _ in range(3)]
    links = [await browsers[0].sign_in(await world.new_token("Read", name="robot"))]
    assert links[0].status == 201
    back = await come_back(browsers[1], issuer)
    browsers[1].key = back.headers["location"].partition("#key=")[2]
    token = await world.new_token("Read", name="ci")
    assert (await world.post("/account/browserSession", {}, token=token)).status == 201
    found = lines(caplog, "signed in")
    assert [(line["caller"], line["way"]) for line in found] == [
        ("robot", "link"),
        (ADA, "provider acme"),
        ("ci", "token"),
    ]
    assert all(line["address"] and line["request_id"] for line in found)

    secrets = [token, browsers[0].key, browsers[1].key, *browsers[0].cookies.values()]
    secrets += [*browsers[1].cookies.values(), issuer.asked_now["state"], issuer.asked_now["nonce"]]
    everything = "\n".join(str(vars(record)) for record in caplog.records)
    assert ADA in everything  # the negative control: the search finds what is there
    assert [secret for secret in secrets if secret in everything] == []


async def test_the_log_names_a_person_who_is_not_a_member(provided, caplog):
    world, issuer = provided
    caplog.set_level(logging.INFO)
    await come_back(Browser(world), issuer)
    (line,) = lines(caplog, "a person who is not a member tried to sign in")
    assert (line["caller"], line["provider"]) == (ADA, "acme")


async def test_the_end_of_a_session_is_in_the_audit_and_in_the_log(world, browser, caplog):
    caplog.set_level(logging.INFO)
    token = await world.new_token("Read", name="robot")
    other = Browser(world)
    link = (await world.post("/account/signInLink", token=token))["url"].partition("#code=")[2]
    opened = await other.call("POST", "/account/browserSession", {"code": link}, address=THERE)
    other.key = opened["page_key"]
    await browser.sign_in(token)
    sessions = (await browser.call("GET", "/account/browserSession"))["results"]
    (its_own,) = [session["id"] for session in sessions if not session["is_this_one"]]
    assert await events(world, eventType="SESSION_ENDED") == []
    await browser.call("DELETE", f"/account/browserSession/{its_own}", address=HERE)
    await browser.call("DELETE", "/account/browserSession/current", address=HERE)

    (ended,) = await events(world, eventType="SESSION_ENDED")
    assert (ended["triggered_by"], ended["address"], ended["origin"]) == ("robot", HERE, "CONSOLE")
    assert (told(ended)["session"]["id"], told(ended)["session"]["address"]) == (its_own, THERE)
    (out,) = await events(world, eventType="SIGN_OUT")
    assert (out["triggered_by"], out["address"]) == ("robot", HERE)
    found = lines(caplog, "a session in a browser was ended")
    assert [(line["caller"], line["address"]) for line in found] == [("robot", HERE)] * 2


async def test_signing_out_records_an_audit_event_for_members_and_operators(provided):
    world, issuer = provided
    await invite(world, ADA, Scope.READ)
    ada, operator = Browser(world), Browser(world)
    ada.key = (await come_back(ada, issuer)).headers["location"].partition("#key=")[2]
    await operator.sign_in()
    for browser in (ada, operator):
        assert (await browser.call("DELETE", "/account/browserSession/current")).status == 204
    found = await events(world, eventType="SIGN_OUT")
    assert [(event["triggered_by"], event["target_type"]) for event in found] == [
        ("operator", "ORGANIZATION"),
        (ADA, "MEMBERS_AND_ROLES"),
    ]


async def test_a_refused_attempt_to_end_another_persons_session_records_no_event(world, browser):
    other = Browser(world)
    await browser.sign_in()
    await other.sign_in(await world.new_token("Admin"))
    (session,) = (await other.call("GET", "/account/browserSession"))["results"]
    assert (await browser.call("DELETE", f"/account/browserSession/{session['id']}")).status == 404
    assert not {"SIGN_OUT", "SESSION_ENDED"} & set(types(await events(world)))


async def test_the_metric_of_browser_sessions_counts_open_sessions(world, browser):
    assert await measured(world, "browser_sessions") == 0
    await world.post("/account/signInLink")  # a link is no session before it is opened
    await browser.sign_in()
    await Browser(world).sign_in()
    assert await measured(world, "browser_sessions") == 2
    await browser.call("DELETE", "/account/browserSession/current")
    assert await measured(world, "browser_sessions") == 1
    world.clock.turn(13 * 3600)
    assert await measured(world, "browser_sessions") == 0
