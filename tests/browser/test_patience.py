"""A server that takes a request and never answers: the person is told, and gets the button back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from playwright.sync_api import Page, Request, Route, expect

from tests.browser.servers import Server

pytestmark = pytest.mark.nightly
UNSURE = "may have been done all the same"


def form(server: Server, new_page: Callable[..., Page], name: str) -> Page:
    """The form of a new project, with a name, in a browser whose time the test goes on with."""
    page = new_page("/")
    page.clock.install()
    page.goto(f"{server.url}/console/do/createProject?org_id={server.org}")
    page.locator("main input").first.fill(name)
    return page


def projects(server: Server, name: str) -> int:
    found = server.call("GET", f"/organization/{server.org}/project")["results"]
    return sum(project["name"] == name for project in found)


def test_a_request_without_an_answer_times_out_with_a_message_and_takes_effect_once(
    server: Server, new_page: Callable[..., Page], watch
) -> None:
    page = form(server, new_page, "Once")
    keys: list[str] = []

    def swallow(route: Route, request: Request) -> None:
        """The server does what it is asked; the answer is lost."""
        if request.method != "POST":
            return route.continue_()
        keys.append(request.headers["idempotency-key"])
        route.fetch()
        return None

    page.route("**/organization/*/project", swallow)
    create = page.locator("main .button.main")
    create.click()
    expect(create).to_have_attribute("aria-busy", "true")
    page.clock.fast_forward("00:21")
    expect(page.locator("#notices")).to_contain_text("has not answered for 20 seconds")
    expect(create).to_have_attribute("aria-busy", "true")
    page.clock.fast_forward("01:20")
    expect(page.locator("#notices")).to_contain_text(UNSURE)
    expect(create).not_to_have_attribute("aria-busy", "true")
    assert projects(server, "Once") == 1

    page.unroute_all()
    with page.expect_request(lambda request: request.method == "POST") as again:
        create.click()
    assert again.value.headers["idempotency-key"] == keys[0]
    expect(page.get_by_role("heading", name="Answer")).to_be_visible()
    assert projects(server, "Once") == 1

    # The negative control: after an answer, the same is another request, which is refused for its name.
    watch.expected.append("status of 409")
    with page.expect_request(lambda request: request.method == "POST") as other:
        create.click()
    assert other.value.headers["idempotency-key"] != keys[0]
    expect(page.locator(".field-error, #notices .bad").first).to_be_visible()


def test_a_timely_answer_shows_no_timeout_notice(server: Server, new_page: Callable[..., Page]) -> None:
    page = form(server, new_page, "In time")
    page.locator("main .button.main").click()
    expect(page.get_by_role("heading", name="Answer")).to_be_visible()
    page.clock.fast_forward("03:00")
    expect(page.locator("#notices")).not_to_contain_text("answer")
    assert projects(server, "In time") == 1


def test_a_gateway_timeout_is_shown_as_an_unknown_outcome_and_a_500_as_a_failure(
    server: Server, new_page: Callable[..., Page], watch
) -> None:
    watch.expected.append("status of 50")
    for status, unsure in ((504, 1), (502, 1), (500, 0)):
        page = form(server, new_page, f"Behind a proxy {status}")
        answer = partial(Route.fulfill, status=status, content_type="text/html", body="<h1>")
        page.route("**/organization/*/project", answer)
        page.locator("main .button.main").click()
        expect(page.locator("#notices .notice")).to_contain_text(str(status))
        expect(page.locator("#notices .notice", has_text=UNSURE)).to_have_count(unsure)


def test_a_page_whose_request_times_out_says_so_and_retries_by_itself(
    server: Server, new_page: Callable[..., Page]
) -> None:
    page = new_page("/")
    page.clock.install()
    page.goto(f"{server.url}/console/account")
    expect(page.get_by_role("heading", name="Account", level=1)).to_be_visible()
    held: list[Route] = []
    page.route(f"{server.url}/organization/*/apiToken*", lambda route: held.append(route))
    page.goto(f"{server.url}/console/organization/{server.org}/apiToken")
    with page.expect_request(f"{server.url}/organization/*/apiToken*"):
        page.reload()
    page.clock.fast_forward("01:45")
    expect(page.get_by_role("alert").first).to_contain_text("did not answer within 100 seconds")
    assert held
    page.unroute_all()
    page.clock.fast_forward("00:11")
    expect(page.get_by_role("heading", name="Tokens", level=1)).to_be_visible()


def test_a_notice_is_above_the_dialog_that_is_open(
    server: Server, new_page: Callable[..., Page], watch
) -> None:
    watch.expected.append("status of 500")
    page = new_page(f"/organization/{server.org}/apiToken")
    refusal = {"status": 500, "error": "Internal Server Error", "message": "Out of order"}
    page.route("**/organization/*/apiToken", partial(Route.fulfill, status=500, json=refusal))
    page.get_by_role("button", name="New API token").first.click()
    shown = page.locator("dialog[open]")
    shown.locator("input").first.fill("robot")
    create = shown.get_by_role("button", name="Create", exact=True)
    close = page.locator("#notices").get_by_role("button", name="Close")
    for _ in range(2):
        create.click()
        expect(page.get_by_role("alert").filter(has_text="Out of order")).to_be_visible()
        close.click()
        expect(page.locator("#notices .notice")).to_have_count(0)
    create.click()
    expect(page.locator("#notices .notice")).to_have_count(1)
    shown.get_by_role("button", name="Cancel").click()
    expect(shown).to_have_count(0)
    close.click()  # it stays when the dialog is gone
    expect(page.locator("#notices .notice")).to_have_count(0)
