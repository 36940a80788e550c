"""People sign in with e-mail and password, by a link from the console; and what they get wrong."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.servers import Server
from tests.browser.test_newcomer import confirm
from windlass.control.people.second_factors import code_at

pytestmark = pytest.mark.slow

PASSWORD, OTHER_PASSWORD = "correct horse battery", "another good password"


def invite(admin: Page, server: Server, email: str) -> str:
    """Invites a person in the console; returns the link that it shows."""
    admin.goto(f"{server.url}/console/organization/{server.org}/member")
    admin.get_by_role("button", name="Invite").first.click()
    dialog = admin.locator("dialog[open]")
    dialog.get_by_label("E-mail").fill(email)
    dialog.get_by_role("button", name="Invite").click()
    expect(dialog.get_by_role("heading", name=f"{email} is invited")).to_be_visible()
    link = dialog.locator("code").inner_text()
    dialog.get_by_role("button", name="Done").click()
    return link


def join(page: Page, link: str, name: str) -> None:
    page.goto("about:blank")
    page.goto(link)
    page.get_by_label("Your name").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Join").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()


def sign_in(page: Page, email: str, password: str) -> None:
    page.get_by_label("E-mail").fill(email)
    page.get_by_label("Password", exact=True).fill(password)
    page.locator("form").first.get_by_role("button", name="Sign in", exact=True).click()


def test_two_people_join_by_links_and_one_forgets_the_password(
    server: Server, new_page: Callable[..., Page], watch
) -> None:
    watch.expected += ["status of 401", "status of 400"]
    admin = new_page("/")
    link = invite(admin, server, "ada@example.com")
    ada = new_page(signed_in=False)
    ada.goto("about:blank")
    ada.goto(link)
    expect(ada.get_by_role("heading", name="Join")).to_be_visible()
    expect(ada.locator("main")).to_contain_text("As ada@example.com, with the role Deploy.")
    assert "password=" not in ada.url
    ada.get_by_label("Your name").fill("Ada Lovelace")
    ada.get_by_label("Password").fill("short")
    ada.get_by_role("button", name="Join").click()
    expect(ada.get_by_role("alert")).to_contain_text("must have 10 characters or more")
    ada.get_by_label("Password").fill(PASSWORD)
    ada.get_by_role("button", name="Join").click()
    expect(ada.get_by_role("heading", name="Overview")).to_be_visible()
    expect(ada.locator(".who")).to_have_text("ada@example.com")

    # The link is used up.
    late = new_page(signed_in=False)
    late.goto("about:blank")
    late.goto(link)
    expect(late.get_by_role("alert")).to_contain_text("Ask an admin for another link")

    grace = new_page(signed_in=False)
    join(grace, invite(admin, server, "grace@example.com"), "Grace Hopper")
    grace.goto(f"{server.url}/console/account")
    grace.get_by_role("button", name="Sign out").click()
    sign_in(grace, "grace@example.com", "not the password")
    expect(grace.get_by_role("alert")).to_contain_text("Check the e-mail address and the password")
    sign_in(grace, "grace@example.com", PASSWORD)
    expect(grace.locator(".who")).to_have_text("grace@example.com")

    # An admin makes a link for a new password; it ends the sessions with the former one.
    admin.goto(f"{server.url}/console/organization/{server.org}/member")
    row = admin.get_by_role("row", name="grace@example.com")
    row.get_by_label("Help grace@example.com to sign in").click()
    row.get_by_role("button", name="New password").click()
    confirm(admin, "Make the link")
    fresh = admin.locator("dialog[open] code").inner_text()
    grace.goto("about:blank")
    grace.goto(fresh)
    expect(grace.locator("main")).to_contain_text("You are signed in as grace@example.com now.")
    grace.get_by_label("Password").fill(OTHER_PASSWORD)
    grace.get_by_role("button", name="Save and sign in").click()
    expect(grace.get_by_role("heading", name="Overview")).to_be_visible()
    sign_in(late, "grace@example.com", PASSWORD)
    expect(late.get_by_role("alert")).to_contain_text("Check the e-mail address and the password")


@pytest.mark.nightly
def test_a_person_changes_name_and_password_on_the_page_account(
    server: Server, new_page: Callable[..., Page], watch
) -> None:
    watch.expected += ["status of 400", "status of 401"]
    page, other = new_page(signed_in=False), new_page(signed_in=False)
    join(page, invite(new_page("/"), server, "mary@example.com"), "Mary")
    sign_in(other, "mary@example.com", PASSWORD)
    expect(other.locator(".who")).to_have_text("mary@example.com")
    page.goto(f"{server.url}/console/account")
    change = page.locator(".facts").get_by_role("button", name="Change")
    change.first.click()
    page.locator("dialog[open]").get_by_label("Name").fill("Mary Somerville")
    confirm(page, "Save")
    expect(page.locator(".facts").first).to_contain_text("Mary Somerville")
    change.last.click()
    dialog = page.locator("dialog[open]")
    dialog.get_by_label("Present password").fill("not the password")
    dialog.get_by_label("New password").fill(OTHER_PASSWORD)
    confirm(page, "Change")
    expect(dialog).to_contain_text("is not your present password")
    dialog.get_by_label("Present password").fill(PASSWORD)
    confirm(page, "Change")
    expect(page.locator("#notices")).to_contain_text("Your password is changed.")
    other.reload()
    expect(other.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(page.get_by_role("heading", name="Your API tokens")).to_be_visible()


@pytest.mark.nightly
def test_a_person_with_a_lost_second_factor_gets_in_with_a_recovery_code_or_an_admin(
    server: Server, new_page: Callable[..., Page], watch
) -> None:
    watch.expected += ["status of 401"]
    admin, page = new_page("/"), new_page(signed_in=False)
    join(page, invite(admin, server, "rosa@example.com"), "Rosa")
    page.goto(f"{server.url}/console/account")
    page.get_by_role("button", name="Add an app").click()
    page.locator("dialog[open]").get_by_label("Present password").fill(PASSWORD)
    confirm(page, "Next")
    key = page.locator("dialog[open] code").inner_text().replace(" ", "")
    secret = base64.b32decode(key + "=" * (-len(key) % 8))
    page.locator("dialog[open]").get_by_label("Code").fill(code_at(secret, int(time.time()) // 30))
    confirm(page, "Confirm")
    codes = page.locator("dialog[open] pre").inner_text().split()
    assert len(codes) == 10
    confirm(page, "I have kept them")
    page.get_by_role("button", name="Sign out").click()

    sign_in(page, "rosa@example.com", PASSWORD)
    page.get_by_label("Code").fill("not a code")
    page.locator("form").first.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("Check the code")
    page.get_by_label("Code").fill(codes[0])
    page.locator("form").first.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.locator(".who")).to_have_text("rosa@example.com")

    admin.goto(f"{server.url}/console/organization/{server.org}/member")
    row = admin.get_by_role("row", name="rosa@example.com")
    row.get_by_label("Help rosa@example.com to sign in").click()
    row.get_by_role("button", name="Remove second factor").click()
    confirm(admin, "Remove second factor")
    expect(admin.locator("#notices")).to_contain_text("The second factor of rosa@example.com is removed.")
    late = new_page(signed_in=False)
    sign_in(late, "rosa@example.com", PASSWORD)
    expect(late.locator(".who")).to_have_text("rosa@example.com")
