"""A browser with many pages of the console works: streams leave connections to pages, and take turns."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.servers import Repository, Server

pytestmark = pytest.mark.nightly
PAGES = 8
"""More than a browser opens connections to a host."""
SHORT_TURNS = """
const timeout = window.setTimeout, interval = window.setInterval;
const shorter = (time) => (time >= 10000 && time <= 15000 ? time / 5 : time);
window.setTimeout = (run, time, ...more) => timeout(run, shorter(time), ...more);
window.setInterval = (run, time, ...more) => interval(run, shorter(time), ...more);
"""
HIDE = """isHidden => {
  Object.defineProperty(document, "hidden", { value: isHidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
READERS = """async () => (await navigator.locks.query()).held.filter(
  (lock) => lock.name.startsWith("windlass:/environment")).map((lock) => lock.clientId)"""


def tabs(server: Server, first: Page, path: str, count: int) -> list[Page]:
    """Opens pages in one browser."""
    first.context.add_init_script(SHORT_TURNS)
    made = [first.context.new_page() for _ in range(count)]
    for page in made:
        page.goto(f"{server.url}/console{path}")
        expect(page.locator("main h1")).to_be_visible()
    return made


def test_many_tabs_that_follow_a_log_all_load_and_show_the_current_state(
    server: Server, new_page, repository: Repository
) -> None:
    app = server.application(server.environment(project="Turns"), repository, "turns")
    logs = tabs(server, new_page("/"), f"/application/{app}/logs", PAGES)
    server.deploy(app)
    for page in logs:
        expect(page.locator(".service-line")).to_contain_text("running")


def test_a_hidden_tab_passes_the_shared_stream_to_a_visible_one(
    server: Server, new_page, repository: Repository
) -> None:
    environment = server.environment(project="Hidden tabs")
    app = server.application(environment, repository, "seldom")
    first, second = tabs(server, new_page("/"), f"/environment/{environment}", 2)
    row = second.get_by_role("row", name="seldom")
    expect(row).to_contain_text("stopped")
    reader = first.evaluate(READERS)
    assert len(reader) == 1
    first.evaluate(HIDE, True)
    second.wait_for_function(
        f"async reader => {{ const now = await ({READERS})(); return now[0] && now[0] !== reader; }}",
        arg=reader[0],
    )
    server.deploy(app)
    expect(row).to_contain_text("running")
    second.evaluate(HIDE, True)
    first.wait_for_function(f"async () => !(await ({READERS})()).length")
    server.call("POST", f"/application/{app}/stop")
    first.evaluate(HIDE, False)
    expect(first.get_by_role("row", name="seldom")).to_contain_text("stopped")
    expect(first.locator(".stale")).to_have_count(0)
