"""People who use the same browser one after the other see and do nothing as one another."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, expect

from tests.browser.conftest import CHROMIUM, OPTIONS, PATIENCE
from tests.browser.servers import Server

pytestmark = pytest.mark.slow

NUMBERS = itertools.count()
PRIVATE = "of the operator only"
LEAVE = "Leave without saving?"


@pytest.fixture
def project(server: Server) -> str:
    made = server.call("POST", f"/organization/{server.org}/project", {"name": f"Shared {next(NUMBERS)}"})
    path = f"/project/{made['id']}"
    server.call("POST", f"{path}/environmentVariable", {"key": "PRIVATE", "value": PRIVATE})
    return path


@pytest.fixture
def bea(server: Server) -> str:
    """The token of another person, who may only read."""
    body = {"name": f"bea {next(NUMBERS)}", "scopes": ["Read"]}
    return str(server.call("POST", f"/organization/{server.org}/apiToken", body)["token"])


@pytest.fixture
def context(playwright_driver: Playwright) -> Iterator[BrowserContext]:
    """A browser that keeps pages for its button Back, as browsers do; Playwright turns that off."""
    browser: Browser = playwright_driver.chromium.launch(
        executable_path=CHROMIUM,
        args=list(OPTIONS),
        ignore_default_args=["--disable-back-forward-cache"],
    )
    made = browser.new_context()
    made.set_default_timeout(PATIENCE)
    yield made
    browser.close()


def open_page(context: BrowserContext, url: str) -> Page:
    page = context.new_page()
    page.goto(url)
    return page


def sign_out(context: BrowserContext, server: Server) -> Page:
    page = open_page(context, f"{server.url}/console/account")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    return page


@pytest.fixture
def variables(context: BrowserContext, server: Server, project: str) -> Page:
    """A tab of the operator, with a change that is not saved."""
    expect(open_page(context, server.link()).get_by_role("heading", name="Overview")).to_be_visible()
    page = open_page(context, f"{server.url}/console{project}/variables")
    expect(page.get_by_text(PRIVATE)).to_be_visible()
    page.get_by_role("button", name="Add a variable").click()
    page.locator("dialog[open] input").first.fill("DRAFT")
    page.locator("dialog[open]").get_by_role("button").last.click()
    expect(page.get_by_text("DRAFT")).to_be_visible()
    return page


def test_all_tabs_forget_the_person_who_signs_out(
    context: BrowserContext, server: Server, variables: Page
) -> None:
    sign_out(context, server)
    expect(variables.get_by_role("heading", name="Sign in")).to_be_visible()
    assert PRIVATE not in variables.content()


@pytest.mark.nightly
def test_the_back_button_shows_nothing_of_a_signed_out_person(
    context: BrowserContext, server: Server, project: str, variables: Page
) -> None:
    page = open_page(context, f"{server.url}/console{project}/variables")
    expect(page.get_by_text(PRIVATE)).to_be_visible()
    page.goto(f"{server.url}/healthz")  # a page of another kind, so that the console is kept as it was
    sign_out(context, server)
    page.evaluate("setTimeout(() => history.back(), 50)")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert PRIVATE not in page.content()


@pytest.mark.nightly
def test_a_tab_discards_its_edits_when_another_person_signs_in(
    context: BrowserContext, server: Server, variables: Page, bea: str
) -> None:
    other = sign_out(context, server)
    other.goto(server.link(bea))
    expect(other.locator(".who")).to_contain_text("bea")
    expect(variables.locator(".who")).to_contain_text("bea")
    expect(variables.get_by_text("DRAFT")).to_have_count(0)


@pytest.mark.nightly
def test_a_tab_reloads_when_the_session_belongs_to_another_person_without_a_sign_out(
    context: BrowserContext, server: Server, variables: Page, bea: str
) -> None:
    """As after a session that ended: its page of signing in leads to another person."""
    page = open_page(context, f"{server.url}/console/")
    answer = page.evaluate(
        """async (token) => {
            const headers = { Authorization: `Token ${token}`, 'Content-Type': 'application/json' };
            return (await fetch('/account/browserSession', { method: 'POST', headers, body: '{}' })).json();
        }""",
        bea,
    )
    page.evaluate("(key) => localStorage.setItem('windlass.page-key', key)", answer["page_key"])
    expect(variables.locator(".who")).to_contain_text("bea")
    expect(variables.get_by_text("DRAFT")).to_have_count(0)


@pytest.mark.nightly
def test_a_tab_keeps_its_edits_if_the_same_person_signs_in_again(
    context: BrowserContext, server: Server, variables: Page
) -> None:
    page = open_page(context, f"{server.url}/console/")
    context.clear_cookies()
    page.reload()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.goto("about:blank")
    page.goto(server.link())
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    expect(variables.get_by_text("DRAFT")).to_be_visible()
    variables.get_by_role("button", name="Save", exact=True).click()
    expect(variables.locator("#notices")).to_contain_text("Saved")


def test_signing_out_asks_before_changes_are_lost(new_page: Callable[..., Page], project: str) -> None:
    page = new_page(f"{project}/variables")
    page.get_by_role("button", name="Add a variable").click()
    page.locator("dialog[open] input").first.fill("DRAFT")
    page.locator("dialog[open]").get_by_role("button").last.click()
    page.get_by_role("link", name="Account").first.click()
    page.get_by_role("button", name="Sign out").click()
    question = page.locator("dialog[open]", has_text=LEAVE)
    question.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("heading", name="Account", level=1)).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    question.get_by_role("button", name="Leave").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
