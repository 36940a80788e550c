"""Sessions of browsers: opened once with a link, used with a cookie and the key of the page."""

from __future__ import annotations

import asyncio

import pytest

from tests.audit.asking import events
from tests.identity.browsers import Browser
from tests.identity.worlds import opened
from tests.world import ADMIN, World, make_world
from windlass.base.clock import MINUTE, SECOND


@pytest.fixture
def browser(world: World) -> Browser:
    return Browser(world)


# Links


async def test_a_sign_in_link_works_once(world, browser):
    link = await world.post("/account/signInLink")
    assert (await browser.open_link(link["url"])).status == 201
    assert await browser.is_signed_in()
    again = await Browser(world).open_link(link["url"])
    assert (again.status, "windlass console" in again.message) == (401, True)


async def test_two_browsers_that_open_a_link_at_once_get_one_session(world):
    link = await world.post("/account/signInLink")
    answers = await asyncio.gather(*(Browser(world).open_link(link["url"]) for _ in range(5)))
    assert sorted(answer.status for answer in answers) == [201, 401, 401, 401, 401]


async def test_a_sign_in_link_expires_after_ten_minutes(world, browser):
    link = await world.post("/account/signInLink")
    world.clock.turn(10 * MINUTE / SECOND + 1)
    assert (await browser.open_link(link["url"])).status == 401


async def test_the_code_of_a_sign_in_link_is_in_the_url_fragment(world):
    link = await world.post("/account/signInLink")
    assert "/console/#code=" in link["url"]


async def test_a_wrong_code_and_no_code_are_refused(world, browser):
    assert (await browser.call("POST", "/account/browserSession", {"code": "x" * 43})).status == 401
    assert (await browser.call("POST", "/account/browserSession", {})).status == 400
    wrong = await browser.call("POST", "/account/browserSession", {"code": 7})
    assert (wrong.status, wrong.message.startswith("code:")) == (400, True)


async def test_a_browser_session_cannot_create_a_sign_in_link(world, browser):
    await browser.sign_in()
    assert (await browser.call("POST", "/account/signInLink", {})).status == 403


async def test_a_token_opens_a_session_and_a_jwt_does_not(world, browser):
    token = await world.new_token("Read")
    answer = await world.post("/account/browserSession", {}, token=token)
    assert answer.status == 201
    session = (await world.post("/account/session", token=token))["token"]
    assert (await world.post("/account/browserSession", {}, token=f"Bearer {session}")).status == 400


@pytest.mark.parametrize("site", ["same-site", "cross-site"])
async def test_a_cross_site_request_cannot_open_a_browser_session(world, browser, site):
    """The cookie of such a session would replace that of the reader."""
    await browser.sign_in()
    code = (await world.post("/account/signInLink"))["url"].partition("#code=")[2]
    for token in (None, await world.new_token("Read")):
        body = {} if token else {"code": code}
        answer = await world.call(
            "POST", "/account/browserSession", body, token=token, headers={"sec-fetch-site": site}
        )
        assert (answer.status, answer.headers.get("set-cookie")) == (403, None)
    assert await browser.is_signed_in()
    # The link is not used up: a page of the console opens it, and so does a program.
    sent = {"sec-fetch-site": "same-origin"}
    assert (await browser.call("POST", "/account/browserSession", {"code": code}, headers=sent)).status == 201


# The two secrets


async def test_a_session_cookie_without_the_key_of_the_page_is_refused(world, browser):
    """A service on another port of the same host is sent the cookie."""
    await browser.sign_in()
    assert (await browser.call("GET", "/account", key="")).status == 401
    assert (await browser.call("GET", "/account", key="0" * 64)).status == 401
    assert await browser.is_signed_in()


async def test_a_page_key_of_another_session_is_refused(world, browser):
    other = Browser(world)
    await browser.sign_in()
    await other.sign_in()
    assert (await browser.call("GET", "/organization", key=other.key)).status == 401


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_a_cross_site_request_without_the_page_key_is_refused(world, browser, method):
    """It can have the cookie sent, but cannot send the header with the key."""
    await browser.sign_in()
    project = await world.project()
    answer = await browser.call(method, f"/project/{project}", {"name": "taken"}, key="")
    assert answer.status in {401, 405}
    assert (await world.get(f"/project/{project}"))["name"] != "taken"


async def test_a_console_request_with_cookie_and_page_key_is_accepted(world, browser):
    await browser.sign_in()
    project = await world.project()
    answer = await browser.call("PATCH", f"/project/{project}", {"name": "mine"})
    assert answer.status == 200, answer
    (event,) = await events(world, eventType="UPDATE")
    assert event["origin"] == "CONSOLE"


async def test_the_session_cookie_is_http_only_and_same_site_strict(world):
    link = await world.post("/account/signInLink")
    answer = await Browser(world).open_link(link["url"])
    rules = answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(rules.split("; "))
    assert "Secure" not in rules


async def test_the_cookie_of_a_server_with_https_belongs_to_its_host_alone(database_url, clock):
    async with make_world(database_url, clock=clock, public_url="https://windlass.example.com") as world:
        browser = Browser(world)
        answer = await browser.sign_in()
        assert answer.headers["set-cookie"].startswith("__Host-windlass_session=")
        assert "; Secure" in answer.headers["set-cookie"]
        assert await browser.is_signed_in()


async def test_a_session_cookie_in_an_authorization_header_is_refused(world, browser):
    """The credential of a browser has a form that no header can have."""
    await browser.sign_in()
    cookie = browser.cookies["windlass_session"]
    for scheme in ("Browser", "browser", "Cookie", "Token", "Bearer"):
        header = f"{scheme} {cookie} {browser.key}"
        assert (await world.get("/account", token=header)).status == 401


# What a session may do


@pytest.mark.parametrize("scope", ["Admin", "Write", "Deploy", "Read"])
async def test_a_browser_session_has_the_same_rights_as_its_token(world, browser, scope):
    app, project, token = await world.application(), await world.project(), await world.new_token(scope)
    await browser.sign_in(token)
    tried: tuple[tuple[str, str, dict[str, str] | None], ...] = (
        ("GET", f"/project/{project}", None),
        ("POST", f"/organization/{world.org}/project", {"name": "x"}),
        ("POST", f"/application/{app}/deploy", {}),
        ("DELETE", f"/project/{project}", None),
    )
    for method, path, body in tried:
        rest = (body,) if body is not None else ()
        by_session = await browser.call(method, path, *rest)
        by_token = await world.call(method, path, *rest, token=token)
        assert (by_session.status == 403) == (by_token.status == 403), (method, path)


async def test_a_session_cannot_be_exchanged_for_a_jwt(world, browser):
    await browser.sign_in()
    assert (await browser.call("POST", "/account/session", {})).status == 403


async def test_a_session_ends_with_its_token(world, browser):
    token = await world.new_token("Read", name="robot")
    await browser.sign_in(token)
    tokens = (await world.get(f"/organization/{world.org}/apiToken"))["results"]
    (id,) = [one["id"] for one in tokens if one["name"] == "robot"]
    assert await browser.is_signed_in()
    await world.delete(f"/organization/{world.org}/apiToken/{id}")
    assert not await browser.is_signed_in()


async def test_an_operator_session_ends_when_the_configured_admin_token_changes(tmp_path, clock):
    async with opened(tmp_path, clock, "a" * 40) as world:
        browser = Browser(world)
        await browser.sign_in()
        assert await browser.is_signed_in()
    async with opened(tmp_path, clock, "b" * 40) as other:
        later = Browser(other)
        later.cookies, later.key = browser.cookies, browser.key
        assert not await later.is_signed_in()


async def test_a_session_outlives_a_restart(tmp_path, clock):
    async with make_world(folder=tmp_path, clock=clock) as world:
        browser = Browser(world)
        await browser.sign_in()
    async with make_world(folder=tmp_path, clock=clock) as other:
        later = Browser(other)
        later.cookies, later.key = browser.cookies, browser.key
        assert await later.is_signed_in()


# Lifetime


async def test_an_idle_session_ends_and_a_used_one_is_extended(world, browser):
    await browser.sign_in()
    for _ in range(5):
        world.clock.turn(10 * 3600)
        assert await browser.is_signed_in()
        await world.installation.authenticator.note()
    world.clock.turn(13 * 3600)
    assert not await browser.is_signed_in()


async def test_a_session_ends_after_thirty_days_however_often_it_is_used(world, browser):
    await browser.sign_in()
    for _ in range(59):
        world.clock.turn(12 * 3600 - 60)
        assert await browser.is_signed_in()
        await world.installation.authenticator.note()
    world.clock.turn(12 * 3600)
    assert not await browser.is_signed_in()


async def test_only_the_owner_can_list_and_end_its_sessions(world, browser):
    other, stranger = Browser(world), Browser(world)
    await browser.sign_in()
    await other.sign_in()
    await stranger.sign_in(await world.new_token("Admin"))
    listed = (await browser.call("GET", "/account/browserSession"))["results"]
    assert len(listed) == 2
    (its_own,) = [one["id"] for one in listed if not one["is_this_one"]]
    assert (await stranger.call("DELETE", f"/account/browserSession/{its_own}")).status == 404
    assert await other.is_signed_in()
    assert (await browser.call("DELETE", f"/account/browserSession/{its_own}")).status == 204
    assert not await other.is_signed_in()
    assert await browser.is_signed_in()


async def test_signing_out_ends_the_session_at_the_server(world, browser):
    await browser.sign_in()
    cookies, key = dict(browser.cookies), browser.key
    assert (await browser.call("DELETE", "/account/browserSession/current")).status == 204
    assert browser.cookies == {}
    browser.cookies, browser.key = cookies, key
    assert not await browser.is_signed_in()


async def test_the_51st_session_of_a_token_ends_the_oldest(world, browser):
    await browser.sign_in()
    for _ in range(50):
        world.clock.turn(1)
        await Browser(world).sign_in()
    assert not await browser.is_signed_in()


async def test_the_database_contains_no_plain_text_session_secret(world, browser):
    await browser.sign_in()
    cookie = browser.cookies["windlass_session"]
    for file in world.folder.rglob("*.db*"):
        content = file.read_bytes()
        assert cookie.encode() not in content
        assert browser.key.encode() not in content


async def test_the_account_answer_has_the_callers_name_and_scopes(world, browser):
    await browser.sign_in(await world.new_token("Read", name="robot"))
    account = (await browser.call("GET", "/account")).json
    assert (account["name"], account["is_person"]) == ("robot", False)
    assert [(org["id"], org["scopes"]) for org in account["organizations"]] == [(world.org, ["Read"])]
    assert (await world.get("/account", token=ADMIN))["session"] == ""


async def test_an_account_path_refuses_other_methods_with_an_allow_header(world):
    answer = await world.call("PUT", "/account/browserSession", {})
    assert (answer.status, answer.headers["allow"]) == (405, "DELETE, GET, HEAD, OPTIONS, POST")


async def test_a_browser_session_has_the_rate_limit_of_its_token(database_url):
    async with make_world(database_url, rate_limit=30, session_rate_limit=200) as world:
        limits = []
        for token in ("", await world.new_token("Read"), await world.new_token("Read", rate_limit=7)):
            browser = Browser(world)
            await browser.sign_in(token)
            answer = await browser.call("GET", "/account")
            limits.append(answer.headers["x-ratelimit-limit"])
        assert limits == ["200", "30", "7"]  # The first is of the operator, who sets the limits.
