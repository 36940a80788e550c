"""The page Requests of a service: its access log is turned on there, followed, and filtered."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.servers import Repository, Server

pytestmark = pytest.mark.nightly

NewPage = Callable[..., Page]
SETTING = "windlass.access_log.format"


def visit(server: Server, app: str, path: str) -> None:
    url = server.call("GET", f"/application/{app}/link")["results"][0]["url"]
    host = re.sub(r"^https?://", "", url).rstrip("/")
    headers = {"Host": host, "User-Agent": "visitor/1.0"}
    request = urllib.request.Request(f"http://127.0.0.1:{server.gateway}{path}", headers=headers)
    urllib.request.urlopen(request, timeout=10).close()


def test_requests_are_recorded_from_a_button_on_followed_and_filtered(
    server: Server, new_page: NewPage, repository: Repository
) -> None:
    app = server.application(server.environment(project="Visited"), repository, "visited")
    server.deploy(app)
    page = new_page(f"/application/{app}/requests")
    expect(page.locator(".empty")).to_contain_text("Nothing is recorded yet")
    page.get_by_role("button", name="Record requests").click()
    expect(page.locator(".empty")).to_contain_text("No request has come yet")
    assert server.call("GET", f"/application/{app}")["advanced_settings"] == {SETTING: "json"}

    visit(server, app, "/basket?key=s3cret")
    row = page.get_by_role("row", name="/basket")
    expect(row).to_contain_text("200")
    expect(row).to_contain_text("ms")
    expect(page.locator("main")).not_to_contain_text("s3cret")
    page.get_by_role("button", name=re.compile("^5xx")).click()
    expect(page.locator(".empty")).to_contain_text("No recorded request matches")
    page.get_by_role("button", name=re.compile("^2xx")).click()
    page.get_by_role("searchbox").fill("visitor /basket")
    expect(row).to_have_count(1)
    page.get_by_role("button", name="GET /basket").click()
    expect(page.locator("dialog[open]")).to_contain_text("visitor/1.0")
    page.keyboard.press("Escape")

    page.get_by_role("button", name="Stop recording").click()
    expect(page.locator("main")).to_contain_text("These are from before")
    assert "advanced_settings" not in server.call("GET", f"/application/{app}")


def test_lines_in_the_form_of_nginx_are_shown_as_requests(
    server: Server, new_page: NewPage, repository: Repository
) -> None:
    app = server.application(server.environment(project="Combined"), repository, "combined")
    server.call("PUT", f"/application/{app}/advancedSettings", {SETTING: "combined"})
    server.deploy(app)
    visit(server, app, "/old?key=s3cret")
    page = new_page(f"/application/{app}/requests")
    expect(page.get_by_role("row", name="/old")).to_contain_text("200")


def test_a_service_without_a_public_port_is_told_so(
    server: Server, new_page: NewPage, repository: Repository
) -> None:
    app = server.application(server.environment(project="Unseen"), repository, "unseen")
    server.call("PATCH", f"/application/{app}", {"ports": []})
    page = new_page(f"/application/{app}/requests")
    page.get_by_role("link", name="Add a public port").click()
    expect(page.locator(".rail [aria-current]")).to_have_text("Ports")


def test_a_job_has_no_requests(server: Server, new_page: NewPage) -> None:
    job = server.example(server.environment(project="No visitors"), "job")
    page = new_page(job)
    expect(page.locator(".tabs")).to_contain_text("Runs")
    expect(page.locator(".tabs")).not_to_contain_text("Requests")
