"""People sign in with an e-mail address and a password, which the link of an invitation sets."""

from __future__ import annotations

import asyncio

import pytest

from tests.audit.asking import events
from tests.identity.browsers import Browser
from tests.identity.issuer import invitations, invite, members, role
from tests.identity.people import (
    OTHER_PASSWORD,
    PASSWORD,
    code_in,
    invited,
    new_person,
    sign_in,
    use_link,
)
from tests.world import World, make_world
from windlass.base.clock import DAY, HOUR, SECOND
from windlass.control.people import password_hashes
from windlass.core.access import Scope

ADA, GRACE = "ada@example.com", "grace@example.com"


@pytest.fixture
def browser(world: World) -> Browser:
    return Browser(world)


# Invitations


async def test_the_link_of_an_invitation_makes_a_member_with_a_password(world, browser):
    code = await invited(world, ADA, Scope.WRITE)
    shown = await browser.call("POST", "/account/passwordLink", {"code": code})
    assert (shown["purpose"], shown["email"], shown["role_name"]) == ("INVITATION", ADA, "Write")
    assert not shown["has_password"]
    assert (await use_link(browser, code, name="Ada Lovelace")).status == 201
    account = await browser.call("GET", "/account")
    assert (account["name"], account["is_person"], account["person"]["name"]) == (ADA, True, "Ada Lovelace")
    found = (await members(world))[ADA]
    assert (found["name"], found["role_name"]) == ("Ada Lovelace", "Write")
    assert await invitations(world) == []

    other = Browser(world)
    assert (await sign_in(other, "ADA@example.com")).status == 201
    assert await other.is_signed_in()


async def test_a_link_works_once(world):
    code = await invited(world, ADA)
    assert (await use_link(Browser(world), code)).status == 201
    again = await use_link(Browser(world), code, OTHER_PASSWORD)
    assert (again.status, "another link" in again.message) == (401, True)
    assert (await sign_in(Browser(world), ADA)).status == 201
    assert (await sign_in(Browser(world), ADA, OTHER_PASSWORD)).status == 401


async def test_two_concurrent_uses_of_one_link_sign_in_only_one(world):
    code = await invited(world, ADA)
    passwords = [f"{PASSWORD} {number}" for number in range(4)]
    answers = await asyncio.gather(*(use_link(Browser(world), code, password) for password in passwords))
    assert sorted(answer.status for answer in answers) == [201, 401, 401, 401]
    works = [(await sign_in(Browser(world), ADA, password)).status for password in passwords]
    assert works == [answer.status for answer in answers]


async def test_a_link_ends_after_seven_days(world):
    code = await invited(world, ADA)
    world.clock.turn(7 * DAY / SECOND - 1)
    assert (await Browser(world).call("POST", "/account/passwordLink", {"code": code})).status == 200
    world.clock.turn(2)
    assert (await use_link(Browser(world), code)).status == 401


async def test_only_the_answer_to_the_creation_has_the_code(world):
    code = await invited(world, ADA)
    (listed,) = (await world.get(f"/organization/{world.org}/inviteMember"))["results"]
    assert code not in str(listed)
    assert listed["invitation_link"].endswith(listed["id"])
    assert code not in str(await events(world))
    stored = await world.installation.ctx.store.reads.session.all("SELECT digest FROM password_link")
    assert [code in str(row[0]) for row in stored] == [False]


async def test_a_withdrawn_invitation_ends_its_link(world):
    code = await invited(world, ADA)
    (listed,) = (await world.get(f"/organization/{world.org}/inviteMember"))["results"]
    await world.delete(f"/organization/{world.org}/inviteMember/{listed['id']}")
    assert (await use_link(Browser(world), code)).status == 401


async def test_another_link_of_an_invitation_ends_the_former(world):
    code = await invited(world, ADA)
    (listed,) = (await world.get(f"/organization/{world.org}/inviteMember"))["results"]
    made = await world.post(f"/organization/{world.org}/inviteMember/{listed['id']}/link")
    assert (await use_link(Browser(world), code)).status == 401
    assert (await use_link(Browser(world), code_in(made["url"]))).status == 201


async def test_a_link_of_another_organization_cannot_be_made(world):
    second = await world.post("/organization", {"name": "Second"})
    await invited(world, ADA)
    (listed,) = (await world.get(f"/organization/{world.org}/inviteMember"))["results"]
    for org in (world.org, second["id"]):
        path = f"/organization/{org}/inviteMember/{listed['id']}/link"
        assert (await world.post(path, token=second["admin_token"])).status in {403, 404}


@pytest.mark.parametrize("password", ["short", "aaaaaaaaaaaaaaaa", "ada@example.com", "a" * 257])
async def test_a_password_that_is_easy_to_guess_leaves_the_link_as_it_is(world, password):
    code = await invited(world, ADA)
    refused = await use_link(Browser(world), code, password)
    assert (refused.status, refused.message.startswith("password:")) == (400, True)
    assert (await use_link(Browser(world), code)).status == 201


async def test_a_person_accepts_a_second_invitation_with_the_present_password(world):
    """An Admin of another organization, who has the link, does not get into the first one with it."""
    await new_person(world, ADA)
    second = await world.post("/organization", {"name": "Second"})
    code = await invited(world, ADA, Scope.ADMIN, second["id"], token=second["admin_token"])
    assert (await Browser(world).call("POST", "/account/passwordLink", {"code": code}))["has_password"]
    assert (await use_link(Browser(world), code, OTHER_PASSWORD)).status == 401
    browser = Browser(world)
    assert (await use_link(browser, code)).status == 201
    names = {org["name"] for org in (await browser.call("GET", "/account"))["organizations"]}
    assert len(names - {"Second"}) == 1


async def test_an_invitation_link_opens_no_other_organization_that_invites_the_address(world):
    """Whoever invites an address gets a link for it. It opens no other organization that invites this
    address."""
    second = await world.post("/organization", {"name": "Second"})
    await invited(world, ADA)
    mallory = await new_person(world, ADA, Scope.READ, second["id"], token=second["admin_token"])
    account = await mallory.call("GET", "/account")
    assert [org["name"] for org in account["organizations"]] == ["Second"]
    assert await invitations(world) == [ADA]


async def test_a_removed_person_is_signed_out_and_forgotten(world):
    browser = await new_person(world, ADA)
    found = (await members(world))[ADA]
    await world.call("DELETE", f"/organization/{world.org}/member", {"user_id": found["id"]})
    assert not await browser.is_signed_in()
    assert (await sign_in(Browser(world), ADA)).status == 401
    # Invited again, the person chooses a password anew.
    assert (await use_link(Browser(world), await invited(world, ADA), OTHER_PASSWORD)).status == 201


# Signing in


async def test_a_wrong_password_and_an_unknown_address_have_the_same_answer(world, browser):
    await new_person(world, ADA)
    wrong = await sign_in(browser, ADA, OTHER_PASSWORD)
    unknown = await sign_in(browser, "nobody@example.com")
    assert (wrong.status, wrong.message) == (unknown.status, unknown.message) == (401, wrong.message)
    # The negative control: this pair is right.
    assert (await sign_in(browser, ADA)).status == 201


async def test_an_unknown_address_costs_as_many_hashes_as_a_known_one(world, browser, monkeypatch):
    hashes: list[str] = []
    matches = password_hashes._matches

    def noting(sent: str, hash: str) -> bool:
        hashes.append(hash)
        return matches(sent, hash)

    monkeypatch.setattr(password_hashes, "_matches", noting)
    await new_person(world, ADA)
    await sign_in(browser, ADA, OTHER_PASSWORD)
    await sign_in(browser, "nobody@example.com", OTHER_PASSWORD)
    first, second = (hash.rpartition("$")[0].split("$")[:4] for hash in hashes)
    assert first == second


async def test_a_failed_sign_in_is_in_the_audit(world, browser):
    await new_person(world, ADA)
    await sign_in(browser, ADA, OTHER_PASSWORD)
    (event,) = await events(world, eventType="SIGN_IN_REFUSED")
    assert event["triggered_by"] == ADA


async def test_a_session_has_new_secrets_whatever_the_browser_sent(world):
    """Otherwise a cookie that a stranger has set before would be a session of the person."""
    await new_person(world, ADA)
    browser = Browser(world)
    browser.cookies["windlass_session"] = planted = "x" * 43
    assert (await sign_in(browser, ADA)).status == 201
    assert browser.cookies["windlass_session"] != planted
    stranger = Browser(world)
    stranger.cookies["windlass_session"], stranger.key = planted, browser.key
    assert not await stranger.is_signed_in()


@pytest.mark.parametrize("site", ["same-site", "cross-site"])
async def test_a_sign_in_from_another_site_is_refused(world, browser, site):
    await new_person(world, ADA)
    code = await invited(world, GRACE)
    sent = {"sec-fetch-site": site}
    assert (await sign_in(browser, ADA, headers=sent)).status == 403
    body = {"code": code, "password": PASSWORD}
    assert (await browser.call("PUT", "/account/passwordLink", body, headers=sent)).status == 403
    body = {"email": ADA}
    assert (await browser.call("POST", "/account/passwordReset", body, headers=sent)).status == 403
    assert (await sign_in(browser, ADA, headers={"sec-fetch-site": "same-origin"})).status == 201


# Limits


async def test_guesses_from_one_address_are_limited_and_others_still_get_in(world, browser):
    await new_person(world, ADA)
    wrong = [(await sign_in(browser, ADA, f"guess number {number}")).status for number in range(12)]
    assert wrong == [401] * 10 + [429] * 2
    # Even the right password is refused then, and the person gets in from elsewhere.
    assert (await sign_in(browser, ADA)).status == 429
    assert (await sign_in(Browser(world), ADA, address="203.0.113.9")).status == 201
    world.clock.turn(15 * 60 + 1)
    assert (await sign_in(browser, ADA)).status == 201


async def test_attempts_at_once_do_not_pass_the_limit(world):
    await new_person(world, ADA)
    answers = await asyncio.gather(*(sign_in(Browser(world), ADA, f"guess {n}") for n in range(14)))
    assert sorted(answer.status for answer in answers) == [401] * 10 + [429] * 4


async def test_strangers_everywhere_do_not_lock_a_person_out_of_a_known_browser(world):
    known = await new_person(world, ADA)
    for number in range(100):
        await sign_in(Browser(world), ADA, "guess of a stranger", address=f"198.51.100.{number}")
    assert (await sign_in(Browser(world), ADA, address="203.0.113.9")).status == 429
    assert (await sign_in(known, ADA, address="203.0.113.9")).status == 201
    # The cookie of a browser in which somebody else has signed in does not help.
    other = await new_person(world, GRACE)
    assert (await sign_in(other, ADA, address="203.0.113.9")).status == 429


async def test_an_unknown_address_is_limited_like_a_known_one(world, browser):
    statuses = [(await sign_in(browser, "nobody@example.com")).status for _ in range(11)]
    assert statuses == [401] * 10 + [429]


async def test_success_forgets_the_attempts(world, browser):
    await new_person(world, ADA)
    for _ in range(3):
        for number in range(8):
            await sign_in(browser, ADA, f"guess {number}")
        assert (await sign_in(browser, ADA)).status == 201


# One's own account


async def test_a_changed_password_ends_the_other_sessions(world):
    browser, other = await new_person(world, ADA), Browser(world)
    await sign_in(other, ADA)
    body = {"password": PASSWORD, "new_password": OTHER_PASSWORD}
    assert (await browser.call("PUT", "/account/password", body)).status == 204
    assert [await one.is_signed_in() for one in (browser, other)] == [True, False]
    assert (await sign_in(other, ADA)).status == 401
    assert (await sign_in(other, ADA, OTHER_PASSWORD)).status == 201
    (event,) = await events(world, eventType="PASSWORD_CHANGED")
    assert event["triggered_by"] == ADA


async def test_a_password_is_changed_only_with_the_present_one(world):
    browser = await new_person(world, ADA)
    body = {"password": "not the password", "new_password": OTHER_PASSWORD}
    refused = [(await browser.call("PUT", "/account/password", body)).status for _ in range(11)]
    assert refused == [400] * 10 + [429]
    assert (await sign_in(browser, ADA)).status == 201


async def test_a_token_has_no_password(world, browser):
    await browser.sign_in()
    body = {"password": PASSWORD, "new_password": OTHER_PASSWORD}
    assert (await browser.call("PUT", "/account/password", body)).status == 403
    assert (await browser.call("PATCH", "/account", {"name": "Ada"})).status == 403
    assert (await browser.call("GET", "/account"))["person"] is None


async def test_a_person_changes_the_name_everywhere(world):
    browser = await new_person(world, ADA)
    account = await browser.call("PATCH", "/account", {"name": "A. Lovelace"})
    assert account["person"]["name"] == "A. Lovelace"
    assert (await members(world))[ADA]["name"] == "A. Lovelace"


async def test_all_other_sessions_are_ended_at_once(world):
    browser, *others = [await new_person(world, ADA), Browser(world), Browser(world)]
    for other in others:
        await sign_in(other, ADA)
    assert (await browser.call("DELETE", "/account/browserSession")).status == 204
    assert [await one.is_signed_in() for one in (browser, *others)] == [True, False, False]


# Admins


async def test_an_admin_makes_a_link_for_a_member_who_forgot_the_password(world):
    browser = await new_person(world, ADA)
    found = (await members(world))[ADA]
    path = f"/organization/{world.org}/member/passwordReset"
    made = await world.post(path, {"user_id": found["id"]})
    assert made.status == 201
    fresh = Browser(world)
    assert (await use_link(fresh, code_in(made["url"]), OTHER_PASSWORD)).status == 201
    assert [await one.is_signed_in() for one in (fresh, browser)] == [True, False]
    assert (await sign_in(browser, ADA)).status == 401
    assert (await use_link(Browser(world), code_in(made["url"]), PASSWORD)).status == 401
    kinds = [event["event_type"] for event in await events(world)]
    assert {"PASSWORD_LINK_CREATED", "PASSWORD_CHANGED"} <= set(kinds)


async def test_a_link_for_a_forgotten_password_ends_after_an_hour(world):
    await new_person(world, ADA)
    found = (await members(world))[ADA]
    made = await world.post(f"/organization/{world.org}/member/passwordReset", {"user_id": found["id"]})
    world.clock.turn(HOUR / SECOND + 1)
    assert (await use_link(Browser(world), code_in(made["url"]), OTHER_PASSWORD)).status == 401


async def test_an_admin_makes_no_link_for_a_member_of_another_organization_too(world):
    """Who has the link can sign in as the member, and so into the other organization."""
    await new_person(world, ADA, Scope.ADMIN)
    second = await world.post("/organization", {"name": "Second"})
    code = await invited(world, ADA, Scope.READ, second["id"], token=second["admin_token"])
    assert (await use_link(Browser(world), code)).status == 201
    foreign = (await members(world, second["id"], token=second["admin_token"]))[ADA]
    body = {"user_id": foreign["id"]}
    path = f"/organization/{second['id']}/member/passwordReset"
    refused = await world.post(path, body, token=second["admin_token"])
    assert (refused.status, "windlass user reset" in refused.message) == (403, True)
    # A member of the first organization alone is no member of the second one.
    own = (await members(world))[ADA]
    assert (await world.post(path, {"user_id": own["id"]}, token=second["admin_token"])).status == 404


async def test_a_link_of_an_admin_ends_where_the_member_joins_another_organization(world):
    """Otherwise an Admin who makes a link each hour gets into each organization that a member joins later."""
    second = await world.post("/organization", {"name": "Second"})
    org, token = second["id"], second["admin_token"]
    ada = await new_person(world, ADA, Scope.READ, org, token=token)
    found = (await members(world, org, token=token))[ADA]
    path = f"/organization/{org}/member/passwordReset"
    made = await world.post(path, {"user_id": found["id"]}, token=token)
    described = {"code": code_in(made["url"])}
    assert (await Browser(world).call("POST", "/account/passwordLink", described)).status == 200
    assert (await use_link(ada, await invited(world, ADA, Scope.ADMIN))).status == 201
    assert (await Browser(world).call("POST", "/account/passwordLink", described)).status == 401
    assert (await use_link(Browser(world), code_in(made["url"]), OTHER_PASSWORD)).status == 401
    assert (await sign_in(Browser(world), ADA)).status == 201


async def test_an_invitation_shows_no_name_that_a_person_has_in_another_organization(world):
    await new_person(world, ADA)
    second = await world.post("/organization", {"name": "Second"})
    code = await invited(world, ADA, Scope.READ, second["id"], token=second["admin_token"])
    shown = await Browser(world).call("POST", "/account/passwordLink", {"code": code})
    assert (shown["has_password"], shown["name"]) == (True, "")


@pytest.mark.parametrize("scope", ["Read", "Deploy", "Write"])
async def test_only_an_admin_makes_such_links(world, scope):
    await new_person(world, ADA)
    found = (await members(world))[ADA]
    token = await world.new_token(scope)
    path = f"/organization/{world.org}/member/passwordReset"
    assert (await world.post(path, {"user_id": found["id"]}, token=token)).status == 403


async def test_the_last_admin_with_a_password_is_kept(world):
    second = await world.post("/organization", {"name": "Second"})
    org, token = second["id"], second["admin_token"]
    ada = await new_person(world, ADA, Scope.ADMIN, org, token=token)
    (first,) = (await world.get(f"/organization/{org}/apiToken", token=token))["results"]
    assert (await ada.call("DELETE", f"/organization/{org}/apiToken/{first['id']}")).status == 204
    (own,) = (await ada.call("GET", f"/organization/{org}/member"))["results"]
    body = {"user_id": own["id"], "role_id": role(Scope.READ)}
    assert (await ada.call("PUT", f"/organization/{org}/member", body)).status == 409


# Where passwords are taken


@pytest.mark.parametrize(
    ("url", "setting", "is_taken"),
    [
        ("https://windlass.example.com", "auto", True),
        ("http://windlass.example.com", "auto", False),
        ("http://windlass.example.com", "always", True),
        ("https://windlass.example.com", "never", False),
        ("http://localhost:8080", "auto", True),
        ("http://[::1]:8080", "auto", True),
        ("http://0.0.0.0:8080", "auto", False),
    ],
)
async def test_passwords_are_taken_over_https_or_by_a_setting(database_url, trusting, url, setting, is_taken):
    async with make_world(database_url, **trusting, public_url=url, passwords=setting) as world:
        ways = await world.get("/account/signInProvider", token=None)
        assert (ways["password"], ways["can_invite"]) == (is_taken, True)
        made = await invite(world, ADA)
        assert ("#password=" in made["invitation_link"]) == is_taken
        answer = await sign_in(Browser(world), ADA)
        assert answer.status == (401 if is_taken else 404)


async def test_the_list_of_sign_in_methods_says_if_none_is_available(database_url, clock):
    async with make_world(database_url, clock=clock, public_url="http://windlass.example.com") as world:
        ways = await world.get("/account/signInProvider", token=None)
        assert (ways["password"], ways["can_invite"], ways["results"]) == (False, False, [])


async def test_sessions_end_where_passwords_are_not_taken_any_more(database_url, trusting, tmp_path):
    async with make_world(database_url, folder=tmp_path, **trusting) as world:
        browser = await new_person(world, ADA)
        assert await browser.is_signed_in()
    async with make_world(database_url, folder=tmp_path, **trusting, passwords="never") as world:
        browser.go_to(world)
        assert not await browser.is_signed_in()
