"""Each page has an age: it follows a stream, or says of which moment it is and is read again."""

from __future__ import annotations

import time
from functools import partial

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.servers import Repository, Server

pytestmark = pytest.mark.nightly
ENDS = ["ERR_CONNECTION", "Failed to load", "503", "ERR_INCOMPLETE", "ERR_EMPTY"]
STREAMED = {
    "overview", "project", "environment", "service", "deployments", "logs", "requests", "deployment",
    "a failed service", "a failed deployment", "a job", "runs of a job", "a Terraform service",
    "plan of a Terraform service", "deployments of an environment", "a deployment of an environment",
}  # fmt: skip
FORMS = {
    "new", "terminal", "settings", "settings of a job", "settings of a Terraform service",
    "an action", "an action with choices", "nothing",
}  # fmt: skip


def later(page: Page, server: Server, path: str) -> None:
    """Shows a page in a browser whose time the test goes on with."""
    page.clock.install()
    page.goto(f"{server.url}/console{path}")
    expect(page.locator("main h1")).to_be_visible()


def test_each_page_without_a_stream_shows_when_it_was_loaded(
    server: Server, new_page, watch, places: dict[str, str]
) -> None:
    watch.expected += ["Failed to load"]
    page = new_page("/")
    for name, path in places.items():
        page.goto(f"{server.url}/console{path}")
        expect(page.locator("main h1").first).to_be_visible()
        aged = name not in STREAMED | FORMS and not name.startswith("a new ")
        expect(page.locator(".age"), name).to_have_count(int(aged))


def test_pages_without_a_stream_refresh_after_a_minute_and_by_their_button(server: Server, new_page) -> None:
    page, seen = new_page("/"), new_page("/")
    tokens = f"/organization/{server.org}/apiToken"
    later(page, server, tokens)
    later(seen, server, tokens)
    server.call("POST", tokens, {"name": "by another", "scopes": ["Read"]})
    page.clock.fast_forward("01:10")
    expect(page.get_by_role("row", name="by another")).to_be_visible()
    seen.get_by_role("button", name="Refresh").click()
    expect(seen.get_by_role("row", name="by another")).to_be_visible()


def test_pages_show_that_the_server_is_unreachable_and_recover(
    server: Server, new_page, watch, repository: Repository
) -> None:
    watch.expected += ENDS
    app = server.application(server.environment(project="Age"), repository, "aged")
    server.deploy(app)
    paths = (f"/organization/{server.org}/audit", f"/application/{app}/metrics", "/account")
    pages = [new_page("/") for _ in paths]
    for page, path in zip(pages, paths, strict=True):
        later(page, server, path)
    lost = new_page("/")
    later(lost, server, "/account")
    server.stop()
    lost.get_by_role("link", name="Overview").first.click()
    lost.clock.fast_forward("00:05")
    for page in pages:
        page.clock.fast_forward("01:10")
        page.clock.fast_forward("00:05")
        expect(page.locator(".stale").first).to_contain_text("Last seen")
    server.start()
    for page in pages:
        for _ in range(4):
            page.clock.fast_forward("00:16")
        expect(page.locator(".stale")).to_have_count(0)
    for _ in range(4):
        lost.clock.fast_forward("00:11")
    expect(lost.get_by_role("heading", name="Overview")).to_be_visible()


def test_metrics_that_are_no_longer_measured_show_a_notice(
    server: Server, new_page, repository: Repository
) -> None:
    app = server.application(server.environment(project="Silence"), repository, "silent")
    times = [f"2026-01-01T10:{minute:02}:00.000Z" for minute in range(10)]
    page = new_page("/")
    for silent in (6, 0):
        values = [1] * (10 - silent) + [None] * silent
        instance = {"name": "1-0", "cpu": values, "memory": values}
        metrics = {"every_seconds": 60, "times": times, "instances": [instance], "requests": None}
        page.unroute_all()
        page.route(f"{server.url}/application/*/metrics", partial(Route.fulfill, json=metrics))
        page.goto(f"{server.url}/console/application/{app}/metrics")
        expect(page.locator(".chart").first).to_be_visible()
        expect(page.get_by_text("Nothing was measured since")).to_have_count(int(silent > 0))


def test_the_page_of_a_service_that_another_machine_measures_is_shown(
    server: Server, new_page, watch, repository: Repository
) -> None:
    watch.expected += ENDS
    app = server.application(server.environment(project="Elsewhere"), repository, "elsewhere")
    server.deploy(app)
    page = new_page("/")
    refusal = {"status": 503, "error": "Service Unavailable", "message": "Ask the server of the place second"}
    page.route(f"{server.url}/application/*/metrics", partial(Route.fulfill, status=503, json=refusal))
    page.goto(f"{server.url}/console/application/{app}")
    expect(page.locator(".service-line")).to_be_visible()
    expect(page.get_by_text("Ask the server of the place second")).to_be_visible()


def test_times_are_right_although_the_clock_of_the_browser_is_wrong(
    server: Server, new_page, repository: Repository
) -> None:
    server.application(server.environment(project="Clock"), repository, "timed")
    for wrong in (-86_400, 86_400):
        page = new_page("/")
        page.clock.install(time=time.time() + wrong)
        page.goto(f"{server.url}/console/account")
        begun = page.get_by_role("row").nth(1).locator("time").first
        expect(begun).to_be_visible()
        assert begun.inner_text().split(" ")[1:2] not in (["d"], ["h"])
