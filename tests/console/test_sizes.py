"""Many services, and many lines: what is drawn stays small. `make bench` measures how long it takes."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.console.many import FAST_LOG, answer_with_services
from tests.console.servers import Repository, Server

MOST_NODES = 4000


def nodes(page: Page) -> int:
    return int(page.evaluate("document.querySelectorAll('*').length"))


def test_ten_thousand_services_are_a_page_of_bounded_size(server: Server, new_page) -> None:
    environment = server.environment(project="Many")
    page = new_page("/")
    answer_with_services(page, environment, 10_000)
    for place in ("/", f"/environment/{environment}"):
        page.goto(f"{server.url}/console{place}")
        expect(page.locator("main")).to_contain_text("10,000 services")
        assert nodes(page) < MOST_NODES, place
    page.get_by_role("searchbox", name="Search by name").fill("service-9876")
    expect(page.get_by_role("row", name="service-9876")).to_be_visible()
    page.keyboard.press("Control+k")
    page.keyboard.type("service-1234")
    expect(page.locator("dialog.palette li").first).to_contain_text("service-1234")
    assert nodes(page) < MOST_NODES


def test_a_log_with_many_lines_is_a_page_of_bounded_size(
    server: Server, new_page, repository: Repository
) -> None:
    app = server.application(server.environment(project="Lines"), repository, "lines")
    page = new_page("/")
    page.add_init_script(FAST_LOG.replace("RATE", "50"))
    page.goto(f"{server.url}/console/application/{app}/logs")
    while page.evaluate("window.__sent || 0") < 150_000:
        page.wait_for_timeout(100)
    expect(page.locator(".log")).to_contain_text("older ones when you scroll up")
    assert nodes(page) < MOST_NODES
    page.get_by_role("searchbox", name="Search these lines").fill("line 140000 ")
    expect(page.locator(".log mark").first).to_have_text("line 140000 ")
