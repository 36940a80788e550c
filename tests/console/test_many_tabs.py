"""A browser has six connections to a server. Tabs that are hidden leave them to those that are seen."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.console.servers import Repository, Server

pytestmark = pytest.mark.elsewhere

HIDDEN = """
let isHidden = true;
Object.defineProperty(document, 'hidden', { get: () => isHidden });
window.hide = (value) => { isHidden = value; document.dispatchEvent(new Event('visibilitychange')); };
"""


def test_any_number_of_tabs_can_be_open_and_the_one_that_is_seen_follows(
    server: Server, new_page: Callable[..., Page], repository: Repository
) -> None:
    app = server.application(server.environment(project="Many tabs"), repository, "tabs")
    server.deploy(app)
    host = server.call("GET", f"/application/{app}/link")["results"][0]["url"].removeprefix("http://")
    first = new_page("/")
    address = f"{server.url}/console/application/{app}/logs"
    tabs = [first.context.new_page() for _ in range(8)]
    for tab in tabs:
        tab.add_init_script(HIDDEN)
        tab.goto(address)
        tab.wait_for_selector(".log")
    first.goto(address)
    left: list[str] = []
    for number, tab in enumerate(tabs):
        tab.on("requestfailed", lambda request: left.append(request.url))
        tab.evaluate("hide(false)")
        request = urllib.request.Request(
            f"http://127.0.0.1:{server.gateway}/seen-{number}", headers={"Host": host.split("/")[0]}
        )
        urllib.request.urlopen(request).close()
        expect(tab.locator(".log")).to_contain_text(f"/seen-{number}")
        tab.evaluate("hide(true)")
    expect(first.locator(".log")).to_contain_text(f"/seen-{len(tabs) - 1}")
    while not any("follow=true" in url for url in left):
        tabs[0].wait_for_timeout(100)
