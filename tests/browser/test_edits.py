"""No page is left with edits that are not saved without a question."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from playwright.sync_api import Dialog, Locator, Page, expect

from tests.browser.servers import Repository, Server

pytestmark = pytest.mark.nightly

NUMBERS = itertools.count()
EDITED = "edited, and not saved"


@pytest.fixture
def app(server: Server, repository: Repository) -> str:
    return server.application(server.environment(project=f"Edits {next(NUMBERS)}"), repository, "edited")


@pytest.fixture
def edited(app: str, new_page: Callable[..., Page]) -> Page:
    page = new_page(f"/application/{app}")
    page.get_by_role("link", name="Settings").click()
    page.get_by_label("Description").first.fill(EDITED)
    return page


def question(page: Page) -> Locator:
    return page.locator("dialog[open]", has_text="Leave without saving?")


def by_a_link(page: Page) -> None:
    page.get_by_role("link", name="Logs").first.click()


def by_the_keyboard(page: Page) -> None:
    page.locator("h1").click()
    page.keyboard.press("g")
    page.keyboard.press("u")


def by_going_back(page: Page) -> None:
    page.evaluate("history.back()")


def by_deploying(page: Page) -> None:
    page.get_by_role("button", name="Deploy", exact=True).first.click()
    page.locator("dialog[open]").get_by_role("button", name="Deploy", exact=True).click()


@pytest.mark.parametrize("leave", [by_a_link, by_the_keyboard, by_going_back, by_deploying])
def test_a_page_with_unsaved_edits_asks_for_confirmation_before_it_is_left(
    edited: Page, leave: Callable[[Page], None]
) -> None:
    before = edited.url
    leave(edited)
    question(edited).get_by_role("button", name="Cancel").click()
    expect(edited.get_by_label("Description").first).to_have_value(EDITED)
    assert edited.url == before
    if leave is not by_deploying:
        leave(edited)
        question(edited).get_by_role("button", name="Leave").click()
        expect(edited).not_to_have_url(before)


def test_a_window_with_edits_is_closed_after_a_question(edited: Page) -> None:
    asked: list[str] = []

    def answer(dialog: Dialog) -> None:
        asked.append(dialog.type)
        dialog.accept()

    edited.on("dialog", answer)
    edited.reload()
    assert asked == ["beforeunload"]


def test_a_page_whose_edits_are_saved_is_left_without_confirmation(edited: Page) -> None:
    edited.get_by_role("button", name="Save", exact=True).click()
    expect(edited.locator("#notices")).to_contain_text("Saved")
    before = edited.url
    by_a_link(edited)
    expect(edited).not_to_have_url(before)


def test_edits_that_are_saved_and_deployed_lead_to_the_deployment_at_once(edited: Page) -> None:
    edited.get_by_label("Description").first.fill("")
    edited.get_by_label("Custom").check()
    edited.get_by_label("Memory", exact=True).fill("300")
    edited.get_by_role("button", name="Save and deploy").click()
    expect(edited.get_by_role("heading", name="Deploy v1")).to_be_visible()


def test_a_generated_form_with_unsaved_edits_asks_before_leaving(
    server: Server, new_page: Callable[..., Page]
) -> None:
    body = {"target_url": "https://example.com/hook", "kind": "STANDARD", "events": ["DEPLOYMENT_FAILURE"]}
    hook = server.call("POST", f"/organization/{server.org}/webhook", body)["id"]
    page = new_page(f"/organization/{server.org}/webhook/{hook}")
    page.get_by_label("Description").first.fill(EDITED)
    page.get_by_role("link", name="Overview").first.click()
    question(page).get_by_role("button", name="Leave").click()
    expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()


def test_the_invitation_page_says_who_is_signed_in_and_offers_to_sign_out(
    new_page: Callable[..., Page],
) -> None:
    page = new_page("/invitation/00000000-0000-4000-8000-000000000000")
    expect(page.locator("main")).to_contain_text("You are signed in as")
    page.get_by_role("button", name="Sign out, and sign in with it").click()
    expect(page.get_by_text("You are invited.")).to_be_visible()
