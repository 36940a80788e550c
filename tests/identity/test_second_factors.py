"""A code of an authenticator app is needed beside the password; and what helps who has lost it."""

from __future__ import annotations

import asyncio
import base64

import pytest

from tests.audit.asking import events
from tests.identity.browsers import Browser
from tests.identity.issuer import members
from tests.identity.people import OTHER_PASSWORD, PASSWORD, code_in, invited, new_person, sign_in, use_link
from tests.world import World, make_world
from windlass.base.clock import SECOND, SystemClock
from windlass.control.people.second_factors import STEP_SECONDS, code_at
from windlass.core.access import Scope
from windlass.operate.users import make_reset_link

ADA = "ada@example.com"
FACTOR = "/account/secondFactor"


class App:
    """An authenticator app."""

    def __init__(self, world: World, secret: str) -> None:
        self._clock = world.clock
        self._secret = base64.b32decode(secret + "=" * (-len(secret) % 8))

    def code(self, steps: int = 0) -> str:
        return code_at(self._secret, self._clock.now() // SECOND // STEP_SECONDS + steps)


async def add_factor(world: World, browser: Browser) -> tuple[App, list[str]]:
    setup = await browser.call("POST", FACTOR, {"password": PASSWORD})
    assert setup.status == 201, setup
    app = App(world, setup["secret"])
    confirmed = await browser.call("PUT", FACTOR, {"second_factor": app.code()})
    assert confirmed.status == 200, confirmed
    world.clock.turn(STEP_SECONDS)
    return app, confirmed["recovery_codes"]


async def sign_in_with(browser: Browser, code: str, password: str = PASSWORD):
    body = {"email": ADA, "password": password, "second_factor": code}
    answer = await browser.call("POST", "/account/browserSession", body)
    if answer.status == 201:
        browser.key = answer["page_key"]
    return answer


def test_codes_are_those_of_the_standard():
    """RFC 6238, appendix B, the last six of its eight digits."""
    secret = b"12345678901234567890"
    steps = {59: "287082", 1111111109: "081804", 1234567890: "005924", 20000000000: "353130"}
    assert {at: code_at(secret, at // STEP_SECONDS) for at in steps} == steps


async def test_the_password_alone_is_not_enough(world):
    app, codes = await add_factor(world, await new_person(world, ADA))
    assert len(set(codes)) == 10
    browser = Browser(world)
    asked = await sign_in(browser, ADA)
    assert (asked.status, asked["next"], asked["setup"], browser.cookies) == (200, "SECOND_FACTOR", None, {})
    assert (await sign_in_with(browser, "000000")).status == 401
    assert (await sign_in_with(browser, app.code())).status == 201
    assert await browser.is_signed_in()


async def test_a_wrong_password_does_not_reveal_the_second_factor(world):
    await add_factor(world, await new_person(world, ADA))
    wrong = await sign_in(Browser(world), ADA, OTHER_PASSWORD)
    unknown = await sign_in(Browser(world), "nobody@example.com", OTHER_PASSWORD)
    assert (wrong.status, wrong.message) == (unknown.status, unknown.message) == (401, wrong.message)


async def test_a_code_works_once(world):
    """Who has seen it, in its 30 seconds, does not get in with it; and neither with the one before."""
    app, _ = await add_factor(world, await new_person(world, ADA))
    code, before = app.code(), app.code(-1)
    answers = await asyncio.gather(*(sign_in_with(Browser(world), code) for _ in range(3)))
    assert sorted(answer.status for answer in answers) == [201, 401, 401]
    assert (await sign_in_with(Browser(world), before)).status == 401
    world.clock.turn(STEP_SECONDS)
    assert (await sign_in_with(Browser(world), app.code())).status == 201


async def test_the_clock_of_the_app_may_be_off_by_half_a_minute(world):
    app, _ = await add_factor(world, await new_person(world, ADA))
    world.clock.turn(10 * STEP_SECONDS)
    assert (await sign_in_with(Browser(world), app.code(-2))).status == 401
    assert (await sign_in_with(Browser(world), app.code(2))).status == 401
    assert (await sign_in_with(Browser(world), app.code(-1))).status == 201
    assert (await sign_in_with(Browser(world), app.code(1))).status == 201


async def test_guesses_of_codes_are_limited_wherever_they_come_from(world):
    app, _ = await add_factor(world, await new_person(world, ADA))
    body = {"email": ADA, "password": PASSWORD, "second_factor": "000000"}
    statuses = [
        (
            await Browser(world).call("POST", "/account/browserSession", body, address=f"198.51.100.{number}")
        ).status
        for number in range(11)
    ]
    assert statuses == [401] * 10 + [429]
    world.clock.turn(15 * 60 + 1)
    assert (await sign_in_with(Browser(world), app.code())).status == 201


async def test_a_recovery_code_works_once(world):
    _, codes = await add_factor(world, await new_person(world, ADA))
    browser = Browser(world)
    assert (await sign_in_with(browser, codes[0].upper().replace("-", " "))).status == 201
    assert (await browser.call("GET", "/account"))["person"]["recovery_codes_left"] == 9
    answers = await asyncio.gather(*(sign_in_with(Browser(world), codes[1]) for _ in range(3)))
    assert sorted(answer.status for answer in answers) == [201, 401, 401]
    assert (await sign_in_with(Browser(world), codes[0])).status == 401
    assert len(await events(world, eventType="RECOVERY_CODE_USED")) == 2


async def test_neither_the_secret_nor_a_recovery_code_is_stored_as_it_is(world):
    browser = await new_person(world, ADA)
    setup = await browser.call("POST", FACTOR, {"password": PASSWORD})
    secret = base64.b32decode(setup["secret"])
    done = await browser.call("PUT", FACTOR, {"second_factor": App(world, setup["secret"]).code()})
    session = world.installation.ctx.store.reads.session
    ((sealed,),) = await session.all("SELECT sealed FROM second_factor")
    assert secret not in bytes(sealed)
    digests = {row[0] for row in await session.all("SELECT digest FROM recovery_code")}
    assert not digests & set(done["recovery_codes"])


async def test_the_code_of_another_person_is_refused(world):
    app, codes = await add_factor(world, await new_person(world, ADA))
    grace = await new_person(world, "grace@example.com")
    await add_factor(world, grace)
    for code in (app.code(), codes[0]):
        body = {"email": "grace@example.com", "password": PASSWORD, "second_factor": code}
        assert (await Browser(world).call("POST", "/account/browserSession", body)).status == 401


async def test_adding_and_removing_need_the_password(world):
    browser = await new_person(world, ADA)
    assert (await browser.call("POST", FACTOR, {"password": OTHER_PASSWORD})).status == 400
    await add_factor(world, browser)
    assert (await browser.call("POST", FACTOR, {"password": PASSWORD})).status == 409
    assert (await browser.call("DELETE", FACTOR, {"password": OTHER_PASSWORD})).status == 400
    assert (await browser.call("DELETE", FACTOR, {"password": PASSWORD})).status == 204
    assert (await sign_in(Browser(world), ADA)).status == 201
    kinds = {event["event_type"] for event in await events(world)}
    assert {"SECOND_FACTOR_ADDED", "SECOND_FACTOR_REMOVED"} <= kinds


async def test_a_factor_that_was_never_confirmed_is_not_asked_for(world):
    browser = await new_person(world, ADA)
    await browser.call("POST", FACTOR, {"password": PASSWORD})
    assert (await browser.call("PUT", FACTOR, {"second_factor": "000000"})).status == 400
    assert (await sign_in(Browser(world), ADA)).status == 201


async def test_a_new_password_deletes_an_unconfirmed_authenticator_key(world):
    """Who knew the former password has seen the key, and would know the codes of the person's app."""
    browser = await new_person(world, ADA)
    seen = await browser.call("POST", FACTOR, {"password": PASSWORD})
    found = (await members(world))[ADA]
    path = f"/organization/{world.org}/member/passwordReset"
    code = code_in((await world.post(path, {"user_id": found["id"]}))["url"])
    assert (await use_link(browser, code, OTHER_PASSWORD)).status == 201
    shown = await browser.call("POST", FACTOR, {"password": OTHER_PASSWORD})
    assert (shown.status, shown["secret"] == seen["secret"]) == (201, False)


async def test_adding_a_factor_ends_the_sessions_that_had_none(world):
    browser, other = await new_person(world, ADA), Browser(world)
    await sign_in(other, ADA)
    await add_factor(world, browser)
    assert [await one.is_signed_in() for one in (browser, other)] == [True, False]


async def test_a_link_for_a_new_password_needs_the_code_too(world):
    """Otherwise who reads the mails of a person would need nothing else."""
    app, _ = await add_factor(world, await new_person(world, ADA))
    found = (await members(world))[ADA]
    path = f"/organization/{world.org}/member/passwordReset"
    code = code_in((await world.post(path, {"user_id": found["id"]}))["url"])
    asked = await use_link(Browser(world), code, OTHER_PASSWORD)
    assert (asked.status, asked["next"]) == (200, "SECOND_FACTOR")
    assert (await sign_in(Browser(world), ADA)).status == 200  # the former password is right still
    body = {"code": code, "password": OTHER_PASSWORD, "second_factor": "000000"}
    assert (await Browser(world).call("PUT", "/account/passwordLink", body)).status == 401
    body["second_factor"] = app.code()
    assert (await Browser(world).call("PUT", "/account/passwordLink", body)).status == 201


async def test_an_admin_removes_a_lost_factor(world):
    await add_factor(world, await new_person(world, ADA))
    found = (await members(world))[ADA]
    path = f"/organization/{world.org}/member/secondFactorReset"
    for scope in ("Read", "Write"):
        token = await world.new_token(scope)
        assert (await world.post(path, {"user_id": found["id"]}, token=token)).status == 403
    assert (await world.post(path, {"user_id": found["id"]})).status == 204
    assert (await sign_in(Browser(world), ADA)).status == 201


async def test_an_admin_removes_no_factor_of_a_member_of_another_organization_too(world):
    await add_factor(world, await new_person(world, ADA))
    second = await world.post("/organization", {"name": "Second"})
    code = await invited(world, ADA, Scope.READ, second["id"], token=second["admin_token"])
    app_code = {"code": code, "password": PASSWORD}
    assert (await Browser(world).call("PUT", "/account/passwordLink", app_code))["next"] == "SECOND_FACTOR"
    assert await members(world, second["id"], token=second["admin_token"]) == {}


async def test_the_operator_removes_a_lost_factor(database_url, trusting, tmp_path):
    trusting["clock"].ms = SystemClock().now()
    async with make_world(database_url, folder=tmp_path, **trusting) as world:
        await add_factor(world, await new_person(world, ADA))
        trusting["clock"].ms = SystemClock().now()
        await world.installation.note_mark()
        settings = world.installation.ctx.settings
        kept = await make_reset_link(settings, ADA)
        assert (await use_link(Browser(world), code_in(kept.url), OTHER_PASSWORD))["next"] == "SECOND_FACTOR"
        made = await make_reset_link(settings, ADA, second_factor=True)
        assert (await use_link(Browser(world), code_in(made.url), OTHER_PASSWORD)).status == 201
        assert (await sign_in(Browser(world), ADA, OTHER_PASSWORD)).status == 201


async def test_where_a_factor_is_required_people_add_it_at_the_next_sign_in(database_url, trusting, tmp_path):
    async with make_world(database_url, folder=tmp_path, **trusting) as world:
        browser = await new_person(world, ADA)
        assert await browser.is_signed_in()
    required = {**trusting, "require_second_factor": True}
    async with make_world(database_url, folder=tmp_path, **required) as world:
        browser.go_to(world)
        assert not await browser.is_signed_in()
        asked = await sign_in(browser, ADA)
        assert asked["next"] == "SECOND_FACTOR"
        app = App(world, asked["setup"]["secret"])
        assert (await sign_in_with(browser, "000000")).status == 400
        # The key stays the same until it is confirmed.
        assert (await sign_in(browser, ADA))["setup"] == asked["setup"]
        done = await sign_in_with(browser, app.code())
        assert (done.status, len(done["recovery_codes"])) == (201, 10)
        assert await browser.is_signed_in()
        assert (await browser.call("DELETE", FACTOR, {"password": PASSWORD})).status == 409
        # A new person signs in after the invitation, and adds one then.
        joined = await use_link(Browser(world), await invited(world, "grace@example.com"))
        assert (joined.status, joined["next"]) == (200, "SIGN_IN")
        assert (await sign_in(Browser(world), "grace@example.com"))["setup"]


@pytest.mark.parametrize("code", ["", " ", "12345", "1234567", "١٢٣٤٥٦", "------"])
async def test_a_malformed_code_is_refused(world, code):
    await add_factor(world, await new_person(world, ADA))
    assert (await sign_in_with(Browser(world), code)).status in ({200} if not code else {401})
