"""Many services, and many lines: what is drawn stays small. `make bench` measures how long it takes."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.many import answer_with_services, fast_log, many_deployments, wait_until
from tests.browser.servers import Repository, Server
from tests.marks import either

pytestmark = pytest.mark.nightly

MOST_NODES = 4000


def nodes(page: Page) -> int:
    return int(page.evaluate("document.querySelectorAll('*').length"))


@pytest.mark.slow
def test_ten_thousand_services_are_a_page_of_bounded_size(server: Server, new_page) -> None:
    environment = server.environment(project="Many")
    page = new_page("/")
    answer_with_services(page, environment, 10_000)
    for place in ("/", f"/environment/{environment}"):
        page.goto(f"{server.url}/console{place}")
        expect(page.locator("main")).to_contain_text("10,000 services")
        assert nodes(page) < MOST_NODES, place

    # The first hundred come without being asked for, and at once for who comes back to a place among them.
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(100)
    rows.last.scroll_into_view_if_needed()
    place = page.evaluate("scrollY")
    page.locator(".head").get_by_role("link", name="Variables").dispatch_event("click")  # without scrolling
    expect(page.get_by_role("heading", name="Variables")).to_be_visible()
    page.go_back()
    expect(rows).to_have_count(100)
    assert page.evaluate("scrollY") == place > 0

    page.get_by_role("searchbox", name="Search by name").fill("service-9876")
    expect(page.get_by_role("row", name="service-9876")).to_be_visible()
    page.keyboard.press("Control+k")
    page.keyboard.type("service-1234")
    expect(page.locator("dialog.palette li").first).to_contain_text("service-1234")
    assert nodes(page) < MOST_NODES


@pytest.mark.timeout(600)
def test_a_log_with_many_lines_is_a_page_of_bounded_size(
    server: Server, new_page, repository: Repository
) -> None:
    app = server.application(server.environment(project="Lines"), repository, "lines")
    page = new_page("/")
    page.add_init_script(fast_log(1, either(150_000, 1_000_000)))
    page.goto(f"{server.url}/console/application/{app}/logs")
    wait_until(page, f"window.__sent >= {either(150_000, 1_000_000)}")
    expect(page.locator(".log")).to_contain_text("older ones when you scroll up")
    assert nodes(page) < MOST_NODES
    newest = either("line 149000 ", "line 999000 ")
    page.get_by_role("searchbox", name="Search these lines").fill(newest)
    expect(page.locator(".log mark").first).to_have_text(newest)


@pytest.mark.slow
def test_a_deployment_of_500_services_is_followed_in_a_page_of_bounded_size(server: Server, new_page) -> None:
    environment = server.environment(project="Fleet")
    page = new_page("/")
    page.add_init_script(many_deployments(environment, 500))
    for place in ("/", f"/environment/{environment}"):
        page.goto(f"{server.url}/console{place}")
        wait_until(page, "window.__events > 5")
        expect(page.locator("main")).to_contain_text("of 500 services running")
        first = page.locator("main .head p").inner_text()
        expect(page.locator("main .head p")).not_to_have_text(first)
        assert nodes(page) < MOST_NODES, place
